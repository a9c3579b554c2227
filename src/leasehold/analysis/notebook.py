"""How a run shows itself in a notebook: what it is and its main numbers, in one small table."""

from html import escape

from leasehold.analysis.metrics import CATALOGUE, totals
from leasehold.analysis.run import Run
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


def run_as_html(run: Run) -> str:
    """Return a run as a small HTML table."""
    numbers = totals(run)
    rows = "".join(_row(CATALOGUE[key].title, value(numbers[key], CATALOGUE[key].unit)) for key in _SHOWN)
    status = " (interrupted)" if run.is_partial else ""
    return f"<table><caption><b>{escape(run.name)}</b>{status}</caption><tbody>{rows}</tbody></table>"


def _row(title: str, amount: str) -> str:
    return f"<tr><td>{escape(title)}</td><td>{escape(amount)}</td></tr>"
