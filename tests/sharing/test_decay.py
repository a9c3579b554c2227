"""Equation 1 of Dumitrescu et al. 2007, by hand: DU = U0 + U1 F1(S1) + U2 F1(S1) F2(S2) + ..."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from leasehold.model.agreement import MILLION, UsageDecay
from leasehold.sharing.limits import PastUse, decayed_ppm, past_windows_ms, step_factor_ppm, weights_ppm

STEPS = UsageDecay(300_000, 600_000).steps


def du_ppm(used: list[int], weights: list[int], whole: int, *, normalise: bool = False) -> int:
    """DU of what was used in each window, the present one first, and the weights of the past ones."""
    return decayed_ppm(used[0], PastUse.of(used[1:], weights), whole, normalise=normalise)


class TestEquation1:
    def test_a_consumer_that_used_40_30_20_and_10_percent_of_a_half_busy_provider(self) -> None:
        used = [40_000, 30_000, 20_000, 10_000]  # unit-ms of windows with 100,000
        weights = weights_ppm([500_000, 500_000, 500_000])
        # .40 + .30 * .5 + .20 * .25 + .10 * .125 = .6125
        assert du_ppm(used, weights, 100_000) == 612_500

    def test_factors_differ_with_how_busy_each_window_was(self) -> None:
        busy_ppm = [1_000_000, 500_000, 150_000]
        factors = [step_factor_ppm(s, STEPS) for s in busy_ppm]
        assert factors == [1_000_000, 500_000, 100_000]
        weights = weights_ppm(factors)
        # .10 + .20 * 1 + .40 * 1 * .5 + .80 * 1 * .5 * .1 = .54
        assert du_ppm([10, 20, 40, 80], weights, 100) == 540_000

    def test_what_was_used_in_an_idle_window_is_forgotten_with_all_before_it(self) -> None:
        factors = [step_factor_ppm(s, STEPS) for s in (50_000, 1_000_000)]
        assert weights_ppm(factors) == [0, 0]

    def test_normalised_steady_use_weighs_as_much_as_it_is(self) -> None:
        weights = weights_ppm([800_000, 500_000])
        assert du_ppm([30, 30, 30], weights, 100, normalise=True) == 300_000

    @given(st.integers(0, MILLION), st.lists(st.integers(0, 1_000), min_size=1, max_size=6))
    def test_a_constant_factor_is_the_ordinary_geometric_decay(self, k_ppm: int, used: list[int]) -> None:
        weights = weights_ppm([k_ppm] * (len(used) - 1))
        k = Fraction(k_ppm, MILLION)
        exact = sum(u * k**i for i, u in enumerate(used)) * MILLION / 1_000
        ours = du_ppm(used, weights, 1_000)
        assert exact - len(used) * len(used) - 1 <= ours <= exact  # rounded down by less than a ppm each


class TestSteps:
    def test_a_step_holds_until_the_next_one(self) -> None:
        assert [step_factor_ppm(s, STEPS) for s in (999_999, 500_000, 499_999, 200_000, 99_999)] == [
            *(500_000, 500_000, 200_000, 200_000, 0),
        ]

    @given(st.integers(0, MILLION), st.integers(0, MILLION))
    def test_a_busier_window_fades_no_faster(self, one: int, other: int) -> None:
        less, more = sorted((one, other))
        assert step_factor_ppm(less, STEPS) <= step_factor_ppm(more, STEPS)


class TestWindows:
    def test_they_are_aligned_the_latest_first(self) -> None:
        assert past_windows_ms(1_200, 600, 2) == [(600, 1_200), (0, 600)]
