"""What came of each claim: its contrasts tested pair by pair, and one word."""

from collections.abc import Sequence
from dataclasses import dataclass

from leasehold.experiments.anova import Values, normality_p, signed_rank_p
from leasehold.experiments.intergrid.claims import Claim, Expects
from leasehold.experiments.intergrid.series import Series
from leasehold.experiments.statistics import Interval, Paired, holm, paired
from leasehold.experiments.status import Status

ALPHA = 0.05
ONE_CLUSTER = "PAP sends everything to one cluster here, so that PAP-RTDP and PAP-RND are one policy"

MEANINGS = {
    Status.REPRODUCED: "its printed interval and ours overlap, and ours lies on the printed side of zero; "
    "without a printed interval, when each of its orderings holds significantly "
    f"({100 * ALPHA:.0f} %, Holm over all of a reading); 'do not differ', when nothing significant was found",
    Status.IN_DIRECTION: "it is not, but our interval lies on the printed side of zero; without a printed "
    "interval, when each ordering holds in the mean",
    Status.NOT_REPRODUCED: "neither is so",
    Status.NOT_COMPARABLE: "the two policies that it compares are one and the same under a reading",
}


@dataclass(frozen=True, slots=True)
class Tested:
    """One contrast, what came of it, and how far the t-test can be trusted.

    ``p``              of the paired t-test, adjusted (Holm)
    ``normal_p``       of the test that its values are normal; the smaller, the less the t-test is worth
    ``signed_rank_p``  of Wilcoxon's test, which needs no normality; not adjusted
    """

    found: Paired
    p: float
    normal_p: float
    signed_rank_p: float

    @property
    def mean(self) -> float:
        """Its mean."""
        return self.found.difference.mean

    @property
    def is_of_one(self) -> bool:
        """Whether it is nothing in every replication: two policies that are one and the same."""
        return self.found.difference.low == self.found.difference.high == 0.0

    @property
    def is_significant(self) -> bool:
        """Whether chance is no explanation of the side on which it came out."""
        return self.p < ALPHA


@dataclass(frozen=True, slots=True)
class Verdict:
    """A claim and what came of it under a reading."""

    claim: Claim
    reading: str
    tested: tuple[Tested, ...]
    status: Status
    why: str


def verdicts(series: Series, claims: Sequence[Claim]) -> list[Verdict]:
    """Test claims under one reading; all of their contrasts are one family of hypotheses."""
    values = [[series.of(series.figure(claim), one) for one in claim.contrasts] for claim in claims]
    found = [[_against_zero(one) for one in of_claim] for of_claim in values]
    adjusted = iter(holm([one.p for of_claim in found for one in of_claim]))
    return [
        _verdict(claim, series, [_tested(*pair, next(adjusted)) for pair in zip(each, of_claim, strict=True)])
        for claim, each, of_claim in zip(claims, values, found, strict=True)
    ]


def _against_zero(values: Values) -> Paired:
    return paired(values.tolist(), [0.0] * len(values))


def _tested(values: Values, found: Paired, adjusted_p: float) -> Tested:
    return Tested(found, adjusted_p, normality_p(values), signed_rank_p(values))


def _verdict(claim: Claim, series: Series, tested: list[Tested]) -> Verdict:
    """Judge a claim by the contrasts in which something differs: policies may be one and the same."""
    telling = [one for one in tested if not one.is_of_one]
    if not telling:
        return Verdict(claim, series.reading.name, tuple(tested), Status.NOT_COMPARABLE, ONE_CLUSTER)
    status, why = _status(claim, series, telling), _why(claim, telling)
    return Verdict(claim, series.reading.name, tuple(tested), status, why)


def _status(claim: Claim, series: Series, tested: Sequence[Tested]) -> Status:
    if claim.expects is Expects.NO_DIFFERENCE:
        differs = any(one.is_significant for one in tested)
        return Status.NOT_REPRODUCED if differs else Status.REPRODUCED
    if claim.printed is not None:
        return status_of_gap(tested[0].found.difference, claim.printed)
    if all(one.mean > 0 and one.is_significant for one in tested):
        return Status.REPRODUCED
    return Status.IN_DIRECTION if _is_in_direction(claim, series, tested) else Status.NOT_REPRODUCED


def _is_in_direction(claim: Claim, series: Series, tested: Sequence[Tested]) -> bool:
    """Whether each ordering holds in the mean; or what is less than claimed does, surely."""
    if not claim.weaker:
        return all(one.mean > 0 for one in tested)
    return all(
        _against_zero(series.of(series.figure(claim), weak)).difference.low > 0 for weak in claim.weaker
    )


def status_of_gap(ours: Interval, printed: tuple[float, float]) -> Status:
    """Compare a difference with the printed interval of it, all of which is above zero."""
    low, high = printed
    if ours.low <= 0:
        return Status.NOT_REPRODUCED
    return Status.REPRODUCED if ours.low <= high and ours.high >= low else Status.IN_DIRECTION


def _why(claim: Claim, tested: Sequence[Tested]) -> str:
    """Say in a sentence what decided."""
    significant = [one for one in tested if one.is_significant]
    if claim.expects is Expects.NO_DIFFERENCE:
        return f"{len(significant)} of {len(tested)} differ significantly"
    if claim.printed is not None:
        return _side(tested[0].found.difference)
    holding = sum(one.mean > 0 for one in tested)
    sure = sum(one.mean > 0 for one in significant)
    against = len(significant) - sure
    return f"{holding} of {len(tested)} hold, {sure} surely; {against} surely the other way"


def _side(ours: Interval) -> str:
    if ours.low > 0:
        return "surely on the printed side"
    return "surely on the other side" if ours.high < 0 else "no side is sure"
