"""VMs held over time: exact whatever the stretches are."""

import pytest

from leasehold.analysis.facts import PARTIES
from leasehold.analysis.measures import summary_of
from leasehold.analysis.passes import mean_held
from leasehold.analysis.run import Run


@pytest.mark.parametrize("bins", [1, 8, 240, 480])
def test_the_stretches_add_up_to_what_was_held(small: Run, bins: int) -> None:
    held = mean_held(small, summary_of(small).levels, bins)
    lengths = held["to_ms"] - held["from_ms"]
    total = sum((held[party] * lengths).sum() for party in PARTIES)
    assert total == pytest.approx(1_290_000)
    assert (held["idle"] * lengths).sum() == pytest.approx(8 * 315_000 - 1_290_000)


def test_a_short_stretch_shows_who_held_what(small: Run) -> None:
    held = mean_held(small, summary_of(small).levels, 480, ["a"])
    row = held.row(107, named=True)  # from 70.2 s to 70.9 s
    assert {name: round(row[name], 9) for name in (*PARTIES, "idle")} == {
        "local": 4,
        "cancelable": 0,
        "suspendable": 0,
        "migratable": 0,
        "non-preemptable": 0,
        "idle": 0,
    }
