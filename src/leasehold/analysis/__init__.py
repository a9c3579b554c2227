"""What a finished run folder says: metrics, an independent check, exports, plots and the report.

Everything here reads a run folder and nothing else. Start with `load`::

    run = load("runs/demo")
    run.leases                   # a polars frame
    totals(run)["vms_preempted"]
    validate(run)                # [] when nothing is wrong
    compare(run, load("runs/other"))

`leasehold.analysis.report` draws, where the extra ``leasehold[report]`` is installed.
"""

from html import escape

from leasehold.analysis.metrics import CATALOGUE, by_cluster, by_cluster_and_party, by_party, compare, reconcile, totals
from leasehold.analysis.run import Run, load
from leasehold.analysis.validation import Violation, validate
from leasehold.analysis.wording import value

_SHOWN = (
    "leases",
    "completed",
    "refused",
    "locals_delayed",
    "vms_preempted",
    "idle_lent_pct",
    "occupancy_pct",
    "utilisation_pct",
    "awrt_s",
)


def _as_html(run: Run) -> str:
    """Show what a run is and its main numbers, in one small table."""
    numbers = totals(run)
    rows = "".join(_row(CATALOGUE[key].title, value(numbers[key], CATALOGUE[key].unit)) for key in _SHOWN)
    status = " (interrupted)" if run.is_partial else ""
    return f"<table><caption><b>{escape(run.name)}</b>{status}</caption><tbody>{rows}</tbody></table>"


def _row(title: str, amount: str) -> str:
    return f"<tr><td>{escape(title)}</td><td>{escape(amount)}</td></tr>"


Run._repr_html_ = _as_html

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
