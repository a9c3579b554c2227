# C types for `cluster.py`, for when it is compiled.

cimport cython

from leasehold.leasing.kernel cimport Profile, ReservationQueue, RowHeap, ms, why_waiting


cdef class ClusterRun:
    cdef public ms slots, now_ms, alarm_ms
    cdef public bint queues
    cdef public Profile plan
    cdef public ReservationQueue queue
    cdef public list decided_ms, decided_job, decided_code, decided_start_ms
    cdef public list closed_job, closed_code, closed_start_ms, closed_end_ms
    cdef RowHeap _ends
    cdef list _job_of
    cdef ms _started, _wake_ms

    @cython.locals(
        queue=ReservationQueue, ends=RowHeap, count=Py_ssize_t, at=Py_ssize_t, first=Py_ssize_t,
        submit_ms=ms, end_ms=ms, wake_ms=ms, now_ms=ms, has_changed=bint, arrived=list,
    )
    cpdef advance(self, list jobs, ms until_ms)
    @cython.locals(queue=ReservationQueue, ends=RowHeap, row=Py_ssize_t, start_ms=ms, planned_ms=ms)
    cdef _end(self, ms now_ms)
    cdef _close(self, tuple job, int code, ms start_ms, ms end_ms)
    cdef _decide(self, number, int code, ms start_ms, ms now_ms)
    @cython.locals(queue=ReservationQueue, job_of=list, arrived=list, at=Py_ssize_t, row=Py_ssize_t, job=tuple)
    cdef list _take_in(self, list jobs, Py_ssize_t first, Py_ssize_t last, ms now_ms)
    @cython.locals(queue=ReservationQueue, start_ms=ms, ready_ms=ms, job=tuple)
    cdef bint _fits_when_ready(self, Py_ssize_t row, ms now_ms) except -1
    @cython.locals(queue=ReservationQueue, rows=list, reasons=list, i=Py_ssize_t, row=Py_ssize_t, job=tuple, run_ms=ms)
    cdef _start(self, ms now_ms)
    @cython.locals(queue=ReservationQueue, row=Py_ssize_t, start_ms=ms, code=int)
    cdef _explain(self, list arrived, ms now_ms)
