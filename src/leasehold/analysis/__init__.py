"""What a finished run folder says: metrics, an independent check, exports, plots and the report.

Everything here reads a run folder and nothing else. Start with `load`::

    run = load("runs/demo")
    run.leases                   # a polars frame
    totals(run)["vms_preempted"]
    validate(run)                # [] when nothing is wrong
"""

from leasehold.analysis.compare import compare
from leasehold.analysis.metrics import by_cluster, by_cluster_and_party, by_party, reconcile, totals
from leasehold.analysis.run import Run, load
from leasehold.analysis.validation import Violation, validate

__all__ = [
    "Run",
    "Violation",
    "by_cluster",
    "by_cluster_and_party",
    "by_party",
    "compare",
    "load",
    "reconcile",
    "totals",
    "validate",
]
