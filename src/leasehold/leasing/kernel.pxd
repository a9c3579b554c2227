# C types for `kernel.py`, for when it is compiled: what is a Python list there is an array of 64-bit integers here.

cimport cython

ctypedef long long ms

cdef _column(values)
cdef _longer(column)


cdef class Profile:
    cdef public ms slots, freed_until_ms
    cdef public bint was_freed
    cdef public Py_ssize_t steps
    cdef ms[::1] _times, _free

    cpdef take(self, ms start_ms, ms end_ms, ms vms)
    cpdef give(self, ms start_ms, ms end_ms, ms vms)
    @cython.locals(new_end_ms=ms, old_end_ms=ms)
    cpdef shift(self, ms old_ms, ms new_ms, ms span_ms, ms vms)
    cdef _change(self, ms start_ms, ms end_ms, ms vms)
    @cython.locals(first=Py_ssize_t, last=Py_ssize_t, i=Py_ssize_t, free=cython.longlong[::1])
    cdef _change_columns(self, ms start_ms, ms end_ms, ms vms)
    @cython.locals(i=Py_ssize_t, k=Py_ssize_t, times=cython.longlong[::1], free=cython.longlong[::1])
    cdef Py_ssize_t _cut(self, ms at_ms) except -1
    @cython.locals(k=Py_ssize_t, times=cython.longlong[::1], free=cython.longlong[::1])
    cdef _join(self, Py_ssize_t i)
    @cython.locals(low=Py_ssize_t, high=Py_ssize_t, middle=Py_ssize_t, times=cython.longlong[::1])
    cdef Py_ssize_t _find(self, ms at_ms) except -1
    @cython.locals(i=Py_ssize_t, past=Py_ssize_t, times=cython.longlong[::1], free=cython.longlong[::1])
    cpdef trim(self, ms now_ms)
    @cython.locals(i=Py_ssize_t)
    cpdef ms free_at(self, ms at_ms) except? -1
    @cython.locals(i=Py_ssize_t, least=ms, times=cython.longlong[::1], free=cython.longlong[::1])
    cpdef ms lowest(self, ms start_ms, ms end_ms) except? -1
    @cython.locals(i=Py_ssize_t, times=cython.longlong[::1], free=cython.longlong[::1])
    cpdef ms overbooked_from(self, ms start_ms, ms end_ms) except? -1
    cpdef bint is_overbooked(self) except? -1
    @cython.locals(i=Py_ssize_t)
    cpdef ms first_overbooked_ms(self) except? -1
    @cython.locals(i=Py_ssize_t, last=Py_ssize_t)
    cpdef ms last_overbooked_ms(self, ms before_ms=*) except? -1
    @cython.locals(i=Py_ssize_t)
    cdef Py_ssize_t _begun(self, ms at_ms) except -1
    @cython.locals(i=Py_ssize_t)
    cpdef ms next_change_ms(self, ms after_ms) except? -1
    cpdef Py_ssize_t changes_between(self, ms begin_ms, ms end_ms) except? -2
    @cython.locals(i=Py_ssize_t, k=Py_ssize_t, start=ms, end=ms, times=cython.longlong[::1], free=cython.longlong[::1])
    cpdef ms earliest(self, ms from_ms, ms span_ms, ms vms) except? -1
    @cython.locals(k=Py_ssize_t, most=ms, times=cython.longlong[::1], free=cython.longlong[::1])
    cpdef ms most_before(self, ms end_ms) except? -1
    @cython.locals(i=Py_ssize_t, most=ms, times=cython.longlong[::1], free=cython.longlong[::1])
    cpdef ms most_between(self, ms begin_ms, ms end_ms) except? -1
    cpdef ms last_ms(self) except? -1
    @cython.locals(i=Py_ssize_t, k=Py_ssize_t, start=ms, end=ms, stop_ms=ms, times=cython.longlong[::1], free=cython.longlong[::1])
    cpdef ms earlier(self, ms from_ms, ms span_ms, ms vms, ms booked_ms, ms before_ms) except? -1


cpdef int why_waiting(Profile plan, ms ready_ms, ms vms, ms now_ms) except -1


cdef class RowHeap:
    cdef public Py_ssize_t size
    cdef list _entries
    cdef ms[::1] _times, _orders, _rows

    cpdef ms first_ms(self) except? -1
    cpdef ms first_order(self) except? -1
    cpdef Py_ssize_t first_row(self) except? -1
    cpdef push(self, ms at_ms, ms order, Py_ssize_t row)
    @cython.locals(at_ms=ms, order=ms, row=Py_ssize_t)
    cpdef pop(self)
    cdef _settle(self, Py_ssize_t i, ms at_ms, ms order, Py_ssize_t row)
    @cython.locals(above=Py_ssize_t, times=cython.longlong[::1], orders=cython.longlong[::1])
    cdef Py_ssize_t _rising(self, Py_ssize_t i, ms at_ms, ms order) except -1
    @cython.locals(
        i=Py_ssize_t, below=Py_ssize_t, other=Py_ssize_t, times=cython.longlong[::1], orders=cython.longlong[::1],
    )
    cdef Py_ssize_t _sinking(self, ms at_ms, ms order) except -1


cdef class ReservationQueue:
    cdef public Profile plan
    cdef public list books, moved, started, reasons
    cdef public ms depth
    cdef public dict reserved, others
    cdef ms[::1] vms, span_ms, ready_ms, start_ms, order, place
    cdef Py_ssize_t _rows
    cdef ms _places, _looked_ms
    cdef public list _free_rows, _unseen
    cdef public RowHeap _due, _coming

    cpdef Py_ssize_t add_row(self, ms vms, ms span_ms, ms ready_ms, ms order) except -1
    cdef Py_ssize_t _new_row(self) except -1
    cpdef ms start_of(self, Py_ssize_t row) except? -1
    cpdef set_start(self, Py_ssize_t row, ms start_ms)
    cpdef ms place_of(self, Py_ssize_t row) except? -1
    cpdef release_row(self, Py_ssize_t row)
    cpdef submit(self, Py_ssize_t row)
    cpdef take_up(self, Py_ssize_t row, ms place)
    @cython.locals(end_ms=ms, vms=ms, profile=Profile)
    cpdef book(self, Py_ssize_t row, ms start_ms)
    @cython.locals(start_ms=ms, since_ms=ms, end_ms=ms, vms=ms, profile=Profile)
    cpdef unbook(self, Py_ssize_t row, ms now_ms)
    cpdef withdraw(self, Py_ssize_t row, ms now_ms)
    cpdef reserve(self, Py_ssize_t row, ms start_ms)
    @cython.locals(ready_ms=ms)
    cpdef ms earliest(self, Py_ssize_t row, ms now_ms) except? -1
    @cython.locals(plan=Profile, has_new_room=bint)
    cpdef list step(self, ms now_ms)
    @cython.locals(plan=Profile)
    cpdef rest(self, ms now_ms)
    cdef list _newcomers(self, ms now_ms)
    @cython.locals(next_ms=ms, row=Py_ssize_t, coming=RowHeap)
    cdef ms _next_ready_ms(self) except? -1
    @cython.locals(pass_ms=ms, start_ms=ms, row=Py_ssize_t, due=RowHeap)
    cpdef ms next_pass_ms(self) except? -1
    @cython.locals(
        plan=Profile, profile=Profile, row=Py_ssize_t, vms=ms, booked_ms=ms, from_ms=ms, start_ms=ms, until_ms=ms, most=ms, end_ms=ms, freed_ms=ms, looked_until_ms=ms,
        starts=cython.longlong[::1], sizes=cython.longlong[::1], spans=cython.longlong[::1], ready=cython.longlong[::1],
    )
    cdef _compress(self, ms now_ms)
    @cython.locals(
        plan=Profile, row=Py_ssize_t, begin_ms=ms, end_ms=ms, start_ms=ms, stop_ms=ms, i=Py_ssize_t,
    )
    cpdef list replan(self, ms now_ms, bint all_of_them)
    cpdef forget_old_times(self)
    @cython.locals(start_ms=ms, order=ms, row=Py_ssize_t, due=RowHeap)
    cdef _start_due(self, ms now_ms)
    @cython.locals(start_ms=ms, depth=ms, row=Py_ssize_t)
    cdef _promote(self, ms now_ms)
    @cython.locals(plan=Profile, free=ms, row=Py_ssize_t)
    cdef _backfill(self, list candidates, ms now_ms)
