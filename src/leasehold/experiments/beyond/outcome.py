"""What came of it: how each contender compares with the reference, and whether that is enough."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import isnan
from typing import Any

from leasehold.experiments.beyond.plan import NAME, VMS, Contender, Plan, Setting, Wanted
from leasehold.experiments.intergrid.metrics import METRICS
from leasehold.experiments.kept import Results
from leasehold.experiments.report import plain, where
from leasehold.experiments.statistics import Interval, bootstrap_ratio, interval


class Reach(StrEnum):
    """Whether what is wanted was reached."""

    REACHED = "reached"
    UNDECIDED = "undecided"
    NOT_REACHED = "not reached"


REACH_IS = {
    Reach.REACHED: "the 95 % interval of the ratio ends before the bound",
    Reach.UNDECIDED: "the bound lies in the interval: these replications do not decide",
    Reach.NOT_REACHED: "the interval lies beyond the bound; of VMs preempted, it does not end before it",
}
WORST_FIRST = (Reach.NOT_REACHED, Reach.UNDECIDED, Reach.REACHED)


@dataclass(frozen=True, slots=True)
class Judged:
    """One thing that is wanted, and what came of it."""

    wanted: Wanted
    reach: Reach


@dataclass(frozen=True, slots=True)
class ContenderResult:
    """A contender in a setting: its means, and their ratios to the reference, of ``count`` runs."""

    setting: Setting
    contender: Contender
    count: int
    means: Mapping[str, Interval]
    ratios: Mapping[str, Interval]
    judged: tuple[Judged, ...]

    @property
    def reach(self) -> Reach:
        """Whether everything that is wanted was reached: the worst of all."""
        return next(word for word in WORST_FIRST if any(one.reach is word for one in self.judged))

    def is_at_goal(self) -> bool:
        """Whether VMs preempted are surely no more than the goal; False where there is none."""
        wanted = next(one.wanted for one in self.judged if one.wanted.metric == VMS)
        return wanted.goal is not None and self.ratios[VMS].high <= wanted.goal


@dataclass(frozen=True, slots=True)
class BeyondOutcome:
    """Everything that the report shows."""

    plan: Plan
    settings: tuple[Setting, ...]
    counts: Mapping[str, int]
    standings: tuple[ContenderResult, ...]

    def of(self, setting: Setting) -> list[ContenderResult]:
        """Give the results in a setting, in order of the contenders, the reference included."""
        return [one for one in self.standings if one.setting == setting]

    def one(self, setting: Setting, contender: Contender) -> ContenderResult | None:
        """Give the result of a contender in a setting, None where it does not compete."""
        return next((one for one in self.of(setting) if one.contender == contender), None)

    @property
    def is_whole(self) -> bool:
        """Whether it is as large as the file has it."""
        stated = self.plan.stated
        is_long = self.plan.hours == stated["hours"]
        return is_long and all(self.counts[one.name] >= one.replications for one in self.settings)


def outcome_of(read: Plan, settings: Sequence[Setting], counts: Mapping[str, int], found: Results) -> BeyondOutcome:
    """Compare all contenders with the reference."""
    standings = [
        _standing(read, setting, contender, found) for setting in settings for contender in read.contenders_in(setting)
    ]
    return BeyondOutcome(read, tuple(settings), counts, tuple(standings))


def _standing(read: Plan, setting: Setting, contender: Contender, found: Results) -> ContenderResult:
    own = found[read.name_of(setting, contender.name)]
    reference = found[read.name_of(setting, read.reference)]
    count = len(own[VMS])
    means = {metric: _mean(own[metric]) for metric in METRICS}
    ratios = {metric: bootstrap_ratio(own[metric], reference[metric][:count]) for metric in METRICS}
    judged = tuple(Judged(one, reach_of(one, ratios[one.metric])) for one in read.wanted_in(setting))
    return ContenderResult(setting, contender, count, means, ratios, judged)


def _mean(values: Sequence[float]) -> Interval:
    known = [value for value in values if not isnan(value)]
    return interval(known or list(values[:1]))


def reach_of(wanted: Wanted, ratio: Interval) -> Reach:
    """Judge one thing; undecided without an interval."""
    if isnan(ratio.low):
        return Reach.UNDECIDED
    if wanted.at_least is not None:
        return _reach(-ratio.high, -ratio.low, -wanted.at_least)
    assert wanted.at_most is not None
    found = _reach(ratio.low, ratio.high, wanted.at_most + wanted.spare)
    is_strict = wanted.at_most < 1 and found is Reach.UNDECIDED
    return Reach.NOT_REACHED if is_strict else found


def _reach(low: float, high: float, bound: float) -> Reach:
    if high <= bound:
        return Reach.REACHED
    return Reach.NOT_REACHED if low > bound else Reach.UNDECIDED


# All of it as plain data


def as_data(outcome: BeyondOutcome) -> dict[str, Any]:
    """Give everything as plain data."""
    return {
        "evaluation": NAME,
        "hours": outcome.plan.hours,
        "replications": dict(outcome.counts),
        "is_whole": outcome.is_whole,
        "where": where(),
        "level": 0.95,
        "reference": outcome.plan.reference,
        "wanted": plain(outcome.plan.wanted),
        "settings": plain(outcome.settings),
        "contenders": [plain(one) | {"information": outcome.plan.information(one)} for one in outcome.plan.contenders],
        "standings": [
            {
                "setting": one.setting.name,
                "contender": one.contender.name,
                "replications": one.count,
                "reach": one.reach,
                "judged": [plain(judged.wanted) | {"reach": judged.reach} for judged in one.judged],
                "means": plain(one.means),
                "ratios": plain(one.ratios),
            }
            for one in outcome.standings
        ],
    }
