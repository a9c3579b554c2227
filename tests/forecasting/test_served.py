"""Do the intervals of the served demonstration cover what they say? In virtual time, so that each run is the same."""

from pathlib import Path

import pytest
from tests.forecasting.served import Show, serve_demo

from leasehold.forecasting.calibration import COVERAGE, WHAT, wilson
from leasehold.service.config import EstimatesSpec
from leasehold.service.forecasts import Forecasts

OFTEN = EstimatesSpec(every_ms=15_000, replications=12, share=1.0)


def _covered(forecasts: Forecasts) -> tuple[int, int]:
    """Count what is covered of all predictions, and these."""
    every = [one for one in forecasts.calibration.scores() if not one.kind.whom and one.kind.what in WHAT]
    return sum(one.covered for one in every), sum(one.scored for one in every)


@pytest.mark.soak
def test_in_the_first_minutes_no_fewer_than_nine_in_ten_are_covered(tmp_path: Path) -> None:
    """Rather more: intervals are wide until enough was seen. What they come to in hours is measured, not tested."""
    covered, scored = _covered(serve_demo(tmp_path, Show(1, 8, OFTEN)))
    _, high = wilson(covered, scored, z=3)
    assert scored > 40
    assert high >= COVERAGE, f"{covered} of {scored}"


@pytest.mark.soak
def test_the_same_seed_gives_the_same_predictions(tmp_path: Path) -> None:
    """Also that the demonstration in virtual time is there at all: requests wait, are predicted, and are scored."""
    seldom = EstimatesSpec(every_ms=15_000, replications=2, share=1.0)
    memories = []
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        found = serve_demo(tmp_path / name, Show(3, 1, seldom))
        memories.append((found.calibration.memory(), found.scored, found._open))
    assert memories[0] == memories[1]
    assert memories[0][2]
