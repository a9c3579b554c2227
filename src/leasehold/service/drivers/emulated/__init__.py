"""Machines that are only pretended: the times are those of the overhead model, the faults come on demand.

From the inside out: `machines` is the heart, which knows neither clock nor file; `ledger` keeps what is on
its `floor` in a file; `line` is the wire between gateway and site; `driver` joins them and owns the clock.
"""
