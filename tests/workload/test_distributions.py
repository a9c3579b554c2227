"""The distributions of the DAS-2 model against theory: exact moments, laws of draws, bounds, refusals."""

import math
from random import Random
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from leasehold.model.errors import InvalidField
from leasehold.simulation.workload.das2 import LONGEST_S, LognormalDurations, TwoStageSizes, WeibullGaps

DRAWS = 20_000
SIZES = TwoStageSizes(0.8, 2.75, 6.0, 0.9, one=0.2, power_of_two=0.5)


@st.composite
def any_sizes(draw: st.DrawFn) -> TwoStageSizes:
    high = draw(st.floats(4.5, 9.0))
    one = draw(st.floats(0.0, 1.0))
    return TwoStageSizes(
        low=draw(st.floats(0.0, 0.9)),
        medium=high - draw(st.floats(1.5, 3.5)),
        high=high,
        low_share=draw(st.floats(0.7, 0.95)),
        one=one,
        power_of_two=draw(st.floats(0.0, 1.0)) * (1.0 - one),
    )


any_durations = st.builds(LognormalDurations, st.floats(-2.0, 11.0), st.floats(0.2, 2.5))
any_gaps = st.builds(WeibullGaps, st.floats(0.1, 100.0), st.floats(0.3, 3.0))


# --- sizes ---


@given(any_sizes(), st.randoms(use_true_random=False))
def test_sizes_stay_between_one_and_the_largest(sizes: TwoStageSizes, random: Random) -> None:
    drawn = {sizes.draw(random) for _ in range(50)}

    assert min(drawn) >= 1
    assert max(drawn) <= 2**sizes.high


@given(any_sizes(), st.randoms(use_true_random=False))
def test_only_sizes_with_a_probability_are_drawn(sizes: TwoStageSizes, random: Random) -> None:
    probabilities = sizes.probabilities()

    assert all(probabilities[sizes.draw(random)] > 0.0 for _ in range(50))


@given(any_sizes())
def test_probabilities_of_sizes_add_up_to_one(sizes: TwoStageSizes) -> None:
    assert math.fsum(sizes.probabilities().values()) == pytest.approx(1.0, abs=1e-12)
    assert min(sizes.probabilities().values()) >= 0.0


@pytest.mark.parametrize("sizes", [SIZES, TwoStageSizes(0.8, 4.5, 8.0, 0.9, one=0.3, power_of_two=0.6)])
def test_drawn_sizes_follow_their_probabilities(sizes: TwoStageSizes) -> None:
    random = Random(5)
    drawn = [sizes.draw(random) for _ in range(DRAWS)]
    likely = {size: share for size, share in sizes.probabilities().items() if share * DRAWS >= 5.0}
    expected = [share * DRAWS for share in likely.values()]
    observed = [drawn.count(size) for size in likely]

    rest = stats.chisquare([*observed, DRAWS - sum(observed)], [*expected, DRAWS - sum(expected)])

    assert rest.pvalue > 0.01


def test_shares_of_one_and_of_powers_of_two_are_shares_of_all_requests() -> None:
    without_others = TwoStageSizes(0.8, 2.75, 6.0, 0.9, one=0.2, power_of_two=0.8).probabilities()

    assert without_others[1] == pytest.approx(0.2)  # log2 is at least 0.8, so no other way leads to a single VM
    assert {size for size, share in without_others.items() if share > 0.0} == {1, 2, 4, 8, 16, 32, 64}


@given(any_sizes())
def test_eq_29_is_the_mean_of_the_exponent(sizes: TwoStageSizes) -> None:
    low_stage = stats.uniform(sizes.low, sizes.medium - sizes.low).mean()
    high_stage = stats.uniform(sizes.medium, sizes.high - sizes.medium).mean()

    mean = sizes.low_share * low_stage + (1.0 - sizes.low_share) * high_stage

    assert sizes.paper_exponent() == pytest.approx(mean)


@given(any_sizes(), any_sizes(), st.integers(0, 2**32))
def test_every_size_takes_the_same_amount_of_randomness(one: TwoStageSizes, other: TwoStageSizes, seed: int) -> None:
    left, right = Random(seed), Random(seed)
    for _ in range(5):
        one.draw(left)
        other.draw(right)

    assert left.random() == right.random()


# --- durations ---


@given(any_durations, st.randoms(use_true_random=False))
def test_durations_are_above_zero_and_below_the_longest(durations: LognormalDurations, random: Random) -> None:
    assert all(0.0 < durations.draw(random) <= LONGEST_S * (1.0 + 1e-9) for _ in range(50))


@given(any_durations)
def test_moments_of_durations_match_the_integral(durations: LognormalDurations) -> None:
    law = stats.norm(durations.log_mean, durations.log_deviation)
    top = math.log(LONGEST_S)
    bottom = durations.log_mean - 12.0 * durations.log_deviation

    def moment(order: int) -> float:
        peak = min(top, durations.log_mean + order * durations.log_deviation**2)
        value, _ = integrate.quad(
            lambda x: math.exp(order * x) * law.pdf(x), bottom, top, points=[peak], limit=200, epsabs=0.0
        )
        return float(value / law.cdf(top))

    assert durations.mean_s() == pytest.approx(moment(1), rel=1e-6)
    assert durations.mean_square_s2() == pytest.approx(moment(2), rel=1e-6)


@pytest.mark.parametrize("durations", [LognormalDurations(4.595, 1.7), LognormalDurations(11.0, 1.7)])
def test_drawn_durations_follow_the_cut_lognormal(durations: LognormalDurations) -> None:
    random = Random(11)
    drawn = [durations.draw(random) for _ in range(DRAWS)]
    whole = stats.lognorm(durations.log_deviation, scale=math.exp(durations.log_mean))

    fit = stats.kstest(drawn, lambda x: whole.cdf(x) / whole.cdf(LONGEST_S))

    assert fit.pvalue > 0.01


def test_inversion_gives_the_law_of_drawing_again() -> None:
    durations = LognormalDurations(11.0, 1.7)
    ours, theirs = Random(1), Random(2)

    def redrawn() -> float:
        while (value := theirs.lognormvariate(11.0, 1.7)) > LONGEST_S:
            pass
        return value

    fit = stats.ks_2samp([durations.draw(ours) for _ in range(DRAWS)], [redrawn() for _ in range(DRAWS)])

    assert fit.pvalue > 0.01


def test_eq_30_knows_no_longest_duration() -> None:
    durations = LognormalDurations(5.5, 1.7)

    assert durations.paper_mean_s() == pytest.approx(stats.lognorm(1.7, scale=math.exp(5.5)).mean())
    assert durations.mean_s() < durations.paper_mean_s()


# --- gaps ---


@given(any_gaps)
def test_rate_is_one_over_the_mean_of_the_weibull_law(gaps: WeibullGaps) -> None:
    law = stats.weibull_min(gaps.shape, scale=gaps.scale_s)

    assert gaps.mean_s() == pytest.approx(law.mean())
    assert gaps.rate_per_s() == pytest.approx(1.0 / law.mean())


@given(st.floats(1e-3, 10.0), st.floats(0.3, 3.0))
def test_gaps_can_be_made_for_a_rate(rate: float, shape: float) -> None:
    assert WeibullGaps.with_rate(rate, shape).rate_per_s() == pytest.approx(rate)


def test_drawn_gaps_follow_the_weibull_law_and_are_not_cut_to_seconds() -> None:
    gaps, random = WeibullGaps(2.0, 0.35), Random(3)
    drawn = [gaps.draw(random) for _ in range(DRAWS)]

    assert stats.kstest(drawn, stats.weibull_min(0.35, scale=2.0).cdf).pvalue > 0.01
    assert fmean(gap % 1.0 == 0.0 for gap in drawn) < 0.01


# --- refusals ---


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("m", (0.8, 2.4, 6.0, 0.9, 0.2, 0.5)),
        ("m", (0.8, 4.6, 6.0, 0.9, 0.2, 0.5)),
        ("l", (2.75, 2.75, 6.0, 0.9, 0.2, 0.5)),
        ("l", (-0.1, 2.75, 6.0, 0.9, 0.2, 0.5)),
        ("q", (0.8, 2.75, 6.0, 0.96, 0.2, 0.5)),
        ("q", (0.8, 2.75, 6.0, 0.69, 0.2, 0.5)),
        ("h", (0.8, 2.75, math.nan, 0.9, 0.2, 0.5)),
        ("h", (0.8, 2.75, math.inf, 0.9, 0.2, 0.5)),
        ("p_one", (0.8, 2.75, 6.0, 0.9, 1.1, 0.0)),
        ("p_pow2", (0.8, 2.75, 6.0, 0.9, 0.6, 0.5)),
    ],
)
def test_sizes_outside_the_model_are_refused_by_name(
    field: str, values: tuple[float, float, float, float, float, float]
) -> None:
    with pytest.raises(InvalidField) as refusal:
        TwoStageSizes(*values)

    assert refusal.value.field == field


@pytest.mark.parametrize(
    ("field", "log_mean", "log_deviation", "longest_s"),
    [
        ("a", 12.5, 1.7, LONGEST_S),
        ("a", math.nan, 1.7, LONGEST_S),
        ("b", 5.0, 0.0, LONGEST_S),
        ("b", 5.0, -1.0, LONGEST_S),
        ("longest_s", 5.0, 1.7, 0.0),
    ],
)
def test_durations_outside_the_model_are_refused_by_name(
    field: str, log_mean: float, log_deviation: float, longest_s: float
) -> None:
    with pytest.raises(InvalidField) as refusal:
        LognormalDurations(log_mean, log_deviation, longest_s)

    assert refusal.value.field == field


@pytest.mark.parametrize(
    ("field", "scale", "shape"), [("alpha", 0.0, 0.5), ("alpha", math.inf, 0.5), ("beta", 1.0, 0.0)]
)
def test_gaps_outside_the_model_are_refused_by_name(field: str, scale: float, shape: float) -> None:
    with pytest.raises(InvalidField) as refusal:
        WeibullGaps(scale, shape)

    assert refusal.value.field == field
