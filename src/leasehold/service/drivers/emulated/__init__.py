"""Emulated machines: their times are those of the overhead model, and their faults come on demand.

From the inside out: `machines` is the heart, which knows neither clock nor file, on its `nodes`; `programs` says what a
command does, `fault_injection` what goes wrong, `images` what machines boot from; `record` keeps instances and audit in
a file; `driver` joins them and has the clock.
"""
