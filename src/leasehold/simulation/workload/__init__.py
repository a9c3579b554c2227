"""Where jobs come from: workload logs (SWF, GWF), the DAS-2 model, and what splits, merges and scales them.

A *stream* gives jobs in non-decreasing ``submit_ms``, a log in blocks of columns, a model one by one. Everything
here reads lazily: memory does not grow with the length of a log. The way of a logged job::

    LogColumns (swf, gwf) -> RecordBlock -> LogInterpretation, PlacingRule -> JobBlock -> combine -> WorkloadJob

A line with anything unusual takes another way to the same `RecordBlock`: ``careful_record`` of `log_record`.
"""
