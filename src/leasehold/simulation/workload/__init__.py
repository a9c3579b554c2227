"""Where jobs come from: workload logs (SWF, GWF), the DAS-2 model, and what splits, merges and scales them.

A *stream* is an ``Iterator[Job]`` in non-decreasing ``submit_ms``. Everything here reads lazily: memory does
not grow with the length of a log. The way of a logged job::

    text_lines -> log_records (swf, gwf) -> Interpretation -> Split -> Job -> combine
"""
