"""What came of it: how each contender stands to the reference in each setting, and whether that is enough."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import isnan

from leasehold.experiments.beyond.settings import VMS, Contender, Plan, Setting, Wanted
from leasehold.experiments.bootstrap import ratio_of_means
from leasehold.experiments.intergrid.metrics import METRICS
from leasehold.experiments.kept import Results
from leasehold.experiments.statistics import Interval, interval


class Reach(StrEnum):
    """Whether what is wanted was reached."""

    REACHED = "reached"
    UNDECIDED = "undecided"
    NOT_REACHED = "not reached"


MEANINGS = {
    Reach.REACHED: "the 95 % interval of the ratio ends before the bound",
    Reach.UNDECIDED: "the bound lies in the interval: these replications cannot tell",
    Reach.NOT_REACHED: "the interval lies beyond the bound; of VMs preempted, it does not end before it",
}
WORST_FIRST = (Reach.NOT_REACHED, Reach.UNDECIDED, Reach.REACHED)


@dataclass(frozen=True, slots=True)
class Judged:
    """One thing that is wanted, and what came of it."""

    wanted: Wanted
    reach: Reach


@dataclass(frozen=True, slots=True)
class Standing:
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
        """Whether VMs preempted are surely no more than the goal; where there is none, they are not."""
        wanted = next(one.wanted for one in self.judged if one.wanted.metric == VMS)
        return wanted.goal is not None and self.ratios[VMS].high <= wanted.goal


@dataclass(frozen=True, slots=True)
class Outcome:
    """Everything that the report shows."""

    plan: Plan
    settings: tuple[Setting, ...]
    counts: Mapping[str, int]
    standings: tuple[Standing, ...]

    def of(self, setting: Setting) -> list[Standing]:
        """Give the standings in a setting, in order of the contenders; the reference is among them."""
        return [one for one in self.standings if one.setting == setting]

    @property
    def is_whole(self) -> bool:
        """Whether it is as large as the file has it."""
        said = self.plan.said
        is_long = self.plan.hours == said["hours"]
        return is_long and all(self.counts[one.name] >= one.replications for one in self.settings)


def outcome_of(read: Plan, settings: Sequence[Setting], counts: Mapping[str, int], found: Results) -> Outcome:
    """Compare all contenders with the reference."""
    standings = [
        _standing(read, setting, contender, found)
        for setting in settings
        for contender in read.contenders_in(setting)
    ]
    return Outcome(read, tuple(settings), counts, tuple(standings))


def _standing(read: Plan, setting: Setting, contender: Contender, found: Results) -> Standing:
    own = found[read.name_of(setting, contender.name)]
    usual = found[read.name_of(setting, read.reference)]
    count = len(own[VMS])
    means = {metric: _mean(own[metric]) for metric in METRICS}
    ratios = {metric: ratio_of_means(own[metric], usual[metric][:count]) for metric in METRICS}
    judged = tuple(Judged(one, reach_of(one, ratios[one.metric])) for one in read.wanted_in(setting))
    return Standing(setting, contender, count, means, ratios, judged)


def _mean(values: Sequence[float]) -> Interval:
    known = [value for value in values if not isnan(value)]
    return interval(known or list(values[:1]))


def reach_of(wanted: Wanted, ratio: Interval) -> Reach:
    """Judge one thing; without an interval nobody can tell."""
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
