"""Two runs side by side: differences, ratios, and which way is better."""

from collections.abc import Callable
from typing import Any

from tests.analysis.builders import Tables

from leasehold.analysis.metrics import CATALOGUE, compare
from leasehold.analysis.run import Run


def _rows(first: Run, second: Run) -> dict[str, dict[str, Any]]:
    return {row["metric"]: row for row in compare(first, second).to_dicts()}


def test_a_run_is_the_same_as_itself(small: Run) -> None:
    rows = _rows(small, small)
    assert list(rows) == list(CATALOGUE)
    assert {row["difference"] for row in rows.values()} <= {0.0, None}
    assert {row["verdict"] for row in rows.values()} == {"same", "n/a"}


def test_difference_ratio_and_verdict(small: Run, corrupted: Callable[..., Run]) -> None:
    def double_the_wait(tables: Tables) -> None:
        tables.of("leases", 9)["ready_ms"] = tables.of("leases", 9)["submit_ms"] = 50_000

    row = _rows(small, corrupted(double_the_wait))["wait_max_s"]
    assert (row["first"], row["second"], row["difference"], row["ratio"]) == (20.0, 40.0, 20.0, 2.0)
    assert row["verdict"] == "worse"
    assert _rows(corrupted(double_the_wait), small)["wait_max_s"]["verdict"] == "better"


def test_more_of_what_is_welcome_is_better(small: Run, corrupted: Callable[..., Run]) -> None:
    def lose_a_slot(tables: Tables) -> None:
        tables.sites[0]["slots"] = 8

    assert _rows(small, corrupted(lose_a_slot))["occupancy_pct"]["verdict"] == "worse"
