# C types for `cluster.py`, for when it is compiled.

cimport cython

from leasehold.leasing.kernel cimport Profile, ReservationQueue, RowHeap, ms, why_waiting


cdef class Rows:
    cdef public Py_ssize_t count
    cdef ms[::1] _cells

    @cython.locals(end=Py_ssize_t, cells=cython.longlong[::1])
    cdef add(self, ms first, ms second, ms third, ms fourth)


cdef class ClusterRun:
    cdef public ms slots, now_ms, alarm_ms
    cdef public bint queues
    cdef public Profile plan
    cdef public ReservationQueue queue
    cdef public Rows decided, closed
    cdef RowHeap _ends
    cdef ms[::1] _run_ms, _numbers, _sizes, _spans_ms, _runs_ms
    cdef ms _started, _wake_ms

    @cython.locals(
        queue=ReservationQueue, ends=RowHeap, submits_ms=cython.longlong[::1], count=Py_ssize_t, at=Py_ssize_t,
        first=Py_ssize_t, submit_ms=ms, end_ms=ms, wake_ms=ms, now_ms=ms, has_changed=bint, arrived=list,
    )
    cpdef advance(self, jobs, ms until_ms)
    @cython.locals(queue=ReservationQueue, ends=RowHeap, row=Py_ssize_t, start_ms=ms, planned_ms=ms)
    cdef _end(self, ms now_ms)
    @cython.locals(
        queue=ReservationQueue, arrived=list, at=Py_ssize_t, row=Py_ssize_t, vms=ms,
    )
    cdef list _take_in(self, Py_ssize_t first, Py_ssize_t last, ms now_ms)
    cdef _refuse(self, ms number, int code, ms now_ms)
    @cython.locals(queue=ReservationQueue, start_ms=ms)
    cdef bint _fits_now(self, Py_ssize_t row, ms now_ms) except -1
    @cython.locals(queue=ReservationQueue, rows=list, reasons=list, i=Py_ssize_t, row=Py_ssize_t)
    cdef _start(self, ms now_ms)
    @cython.locals(queue=ReservationQueue, row=Py_ssize_t, start_ms=ms, code=int)
    cdef _explain(self, list arrived, ms now_ms)
