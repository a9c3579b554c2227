"""One run: predict in a simulation, from what was known then, and score what happened.

Predictions are told apart by what is predicted, for own users or guests, and by whether all futures agreed. For each of
these groups:

=========== ================================================================================================
scored      predictions of which it is known what happened
covered     intervals that contained it; `early` and `late` are those that it happened before and after
alone       intervals of the futures alone, uncorrected, that contained it
log_width   sum of ln((1 + high) / (1 + low)), in seconds from the prediction on
relative    median width of the intervals, as a multiple of the time that it really took
with_climate, climate_covered, climate_score, score  of those predictions that the climate could make too, its hits and
            the sums of the interval scores, the climate's and ours
=========== ================================================================================================
"""

from collections.abc import Sequence
from itertools import product
from math import log1p
from pathlib import Path
from statistics import median

from leasehold.experiments.calibration.plan import plan
from leasehold.forecasting.calibration import CONTINUES, START
from leasehold.forecasting.estimates import OWN
from leasehold.simulation.calibrate import Prediction, Sampling, against_climate, calibrate

GROUPS = {"own-start": (START, True), "guests-start": (START, False), "guests-continue": (CONTINUES, False)}
AGREEMENT = {"differ": False, "agree": True}
METRICS = (
    *("scored", "covered", "early", "late", "alone", "log_width", "relative"),
    *("with_climate", "climate_covered", "climate_score", "score"),
)


def measure(name: str, seed: int, folder: Path | None) -> dict[str, float]:
    """Make one run; logs are in ``folder``."""
    workload = plan().configurations[name]
    found = calibrate(workload.load(folder), Sampling(workload.sample, workload.replications, seed))
    measured = {"at_once": float(found.trivial), "unknown": float(found.unknown)}
    for (group, (what, is_own)), (agreement, is_sure) in product(GROUPS.items(), AGREEMENT.items()):
        chosen = [
            one
            for one in found.predictions
            if one.kind.what == what and (one.kind.whom == OWN) is is_own and one.raw.is_sure is is_sure
        ]
        measured |= {f"{group}-{agreement}:{key}": value for key, value in _measured(chosen).items()}
    return measured


def _measured(predictions: Sequence[Prediction]) -> dict[str, float]:
    sums = dict.fromkeys(METRICS, 0.0)
    relative: list[float] = []
    for one in predictions:
        assert one.happened_ms is not None
        at_ms, interval = one.happened_ms, one.interval
        leads_s = ((interval.low_ms - one.made_ms) / 1000, (interval.high_ms - one.made_ms) / 1000)
        sums["scored"] += 1
        sums["covered"] += interval.covers(at_ms)
        sums["early"] += at_ms < interval.low_ms
        sums["late"] += at_ms > interval.high_ms
        sums["alone"] += one.raw_interval.covers(at_ms)
        sums["log_width"] += log1p(leads_s[1]) - log1p(leads_s[0])
        relative.append(one.relative_width)
    for beside in against_climate(predictions):
        sums["with_climate"] += beside.scored
        sums["climate_covered"] += beside.climate_covered
        sums["climate_score"] += beside.climate_loss
        sums["score"] += beside.loss
    sums["relative"] = median(relative) if relative else 0.0
    return sums
