"""Where to look closely: the whole run if it is short, else where most VMs changed hands."""

from pathlib import Path

from tests.analysis.builders import Row, Tables

from leasehold.analysis.report.charts import READABLE_SEGMENTS, most_contended
from leasehold.analysis.run import Run


def test_a_short_run_is_shown_whole(small: Run) -> None:
    window = most_contended(small)
    assert window is not None
    assert window.is_whole
    assert (window.from_ms, window.to_ms) == (small.begin_ms, small.end_ms)


def test_nothing_to_see_in_a_run_without_segments(tmp_path: Path) -> None:
    tables = Tables()
    tables.site("a")
    assert most_contended(tables.run(tmp_path)) is None


def test_a_long_run_is_shown_where_a_preemption_was(tmp_path: Path) -> None:
    tables = Tables()
    tables.site("a", slots=8)
    for number in range(4 * READABLE_SEGMENTS):
        begin = number * 1_000
        times: Row = {"submit_ms": begin, "first_start_ms": begin, "end_ms": begin + 1_000}
        tables.lease(number, "cancelable", vms=1, requested_ms=1_000, site="a", **times)
        tables.held(number, "a", (begin, begin + 1_000), "preempted" if number == 400 else "completed")
    window = most_contended(tables.run(tmp_path))
    assert window is not None
    assert not window.is_whole
    assert window.from_ms < 401_000 < window.to_ms
