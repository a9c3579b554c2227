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
@pytest.mark.parametrize(("seed", "needs"), [(1, 1.0), (2, 0.3)], ids=["as-shipped", "users-ask-for-too-much"])
def test_nine_in_ten_are_covered(tmp_path: Path, seed: int, needs: float) -> None:
    """Run times as shipped, which are those asked for; and of users who need 30 % to 100 % of what they ask for."""
    covered, scored = _covered(serve_demo(tmp_path, Show(seed, 30, OFTEN, needs)))
    low, high = wilson(covered, scored, z=3)
    assert scored > 200
    assert low <= COVERAGE <= high, f"{covered} of {scored}"


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
