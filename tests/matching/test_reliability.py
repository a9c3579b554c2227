"""Reliability: known numbers, closed forms beside quadrature and simulation, and what more copies do."""

import math
from collections.abc import Callable, Sequence
from itertools import product
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.matching.reliability.cold import (
    cold_by_quadrature,
    cold_of_like,
    cold_of_unlike,
    mean_life_of_cold_s,
)
from leasehold.matching.reliability.hot import at_least, hot
from leasehold.matching.reliability.learning import YEAR_S, FailureRate
from leasehold.matching.reliability.lifetimes import Exponential, Lifetime, Weibull
from leasehold.matching.reliability.mean_life import mean_life_of_like_s, mean_life_of_unlike_s
from leasehold.matching.reliability.quadrature import integrate, mean_life_by_quadrature_s
from leasehold.matching.reliability.restart import Tries
from leasehold.model.errors import InvalidField

RATES = st.lists(st.floats(0.05, 5), min_size=1, max_size=5)
TIMES = st.floats(0, 5)
DRAWS = 20_000


def agrees(chance: float, wins: int, draws: int = DRAWS) -> bool:
    """Within four standard deviations of what was drawn, and a little for chances near 0 or 1."""
    return abs(wins / draws - chance) <= 4 * math.sqrt(chance * (1 - chance) / draws) + 1e-3


class TestHot:
    @pytest.mark.parametrize(
        ("needed", "by_q"),
        [
            (1, {0.1: 0.999, 0.3: 0.973, 0.5: 0.875, 0.7: 0.657, 0.9: 0.271}),
            (2, {0.1: 0.972, 0.3: 0.784, 0.5: 0.5, 0.7: 0.216}),
            (3, {0.1: 0.729, 0.3: 0.343, 0.5: 0.125, 0.7: 0.027}),
        ],
    )
    def test_three_units_by_hand(self, needed: int, by_q: dict[float, float]) -> None:
        """1 - q^3; p^3 + 3 p^2 q; p^3."""
        for q, expected in by_q.items():
            assert at_least(needed, [1 - q] * 3) == pytest.approx(expected)

    def test_more_and_more_nodes_by_hand(self) -> None:
        assert [at_least(1, [0.5] * m) for m in range(1, 5)] == [0.5, 0.75, 0.875, 0.9375]
        assert [round(at_least(2, [0.7] * m), 3) for m in range(2, 7)] == [0.49, 0.784, 0.916, 0.969, 0.989]

    @given(st.lists(st.floats(0, 1), min_size=1, max_size=6), st.integers(1, 6))
    def test_it_is_the_sum_over_all_outcomes(self, survivals: list[float], needed: int) -> None:
        needed = min(needed, len(survivals))
        outcomes = product([True, False], repeat=len(survivals))
        summed = math.fsum(
            math.prod(p if lasts else 1 - p for p, lasts in zip(survivals, outcome, strict=True))
            for outcome in outcomes
            if sum(outcome) >= needed
        )
        assert at_least(needed, survivals) == pytest.approx(summed, abs=1e-12)

    @given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.floats(0, 1), st.integers(1, 8))
    def test_a_further_copy_is_never_less_reliable(self, survivals: list[float], more: float, needed: int) -> None:
        needed = min(needed, len(survivals))
        assert at_least(needed, [*survivals, more]) >= at_least(needed, survivals) - 1e-12

    def test_more_needed_than_there_are_is_refused(self) -> None:
        with pytest.raises(InvalidField, match="from 1 to the number of nodes, 2"):
            at_least(3, [0.5, 0.5])


class TestMeanLife:
    def test_of_three_like_nodes_by_hand(self) -> None:
        """1 + 1/2 + 1/3; 1/2 + 1/3; 1/3."""
        found = [mean_life_of_like_s(needed, 3, 1.0) for needed in (1, 2, 3)]
        assert found == pytest.approx([11 / 6, 5 / 6, 1 / 3])

    def test_of_two_unlike_nodes_by_hand(self) -> None:
        """1/1 + 1/3 - 1/(1 + 3)."""
        assert mean_life_of_unlike_s(1, [1.0, 3.0]) == pytest.approx(13 / 12)

    @given(RATES, st.integers(1, 5))
    def test_the_closed_form_is_the_integral(self, rates: list[float], needed: int) -> None:
        needed = min(needed, len(rates))
        lifetimes = [Exponential(rate) for rate in rates]
        closed = mean_life_of_unlike_s(needed, rates)
        assert closed == pytest.approx(mean_life_by_quadrature_s(lambda t: hot(needed, lifetimes, t), closed), rel=1e-5)

    @given(st.integers(1, 9), st.integers(1, 9), st.floats(0.01, 10))
    def test_like_nodes_are_a_case_of_unlike_ones(self, needed: int, nodes: int, rate: float) -> None:
        needed = min(needed, nodes)
        assert mean_life_of_like_s(needed, nodes, rate) == pytest.approx(
            mean_life_of_unlike_s(needed, [rate] * nodes), rel=1e-6
        )

    def test_of_weibull_nodes_the_integral_gives_the_gamma_function(self) -> None:
        one = Weibull(2.0, 3.0)
        assert mean_life_by_quadrature_s(one.survival, 3.0) == pytest.approx(3 * math.gamma(1.5), rel=1e-6)

    def test_too_many_that_differ_are_refused(self) -> None:
        with pytest.raises(InvalidField, match="at most 12"):
            mean_life_of_unlike_s(1, [1.0] * 13)


class TestCold:
    def test_three_nodes_by_hand(self) -> None:
        """(1 + 1 + 1/2) / e at lambda t = 1, where hot copies would give 1 - (1 - 1/e)^3."""
        assert cold_of_like(1, 3, 1.0, 1.0) == pytest.approx(2.5 / math.e)
        assert round(hot(1, [Exponential(1.0)] * 3, 1.0), 3) == 0.747
        assert mean_life_of_cold_s(1, 3, 0.5) == 6.0

    @given(st.integers(1, 5), st.floats(0.05, 5), TIMES)
    def test_like_nodes_are_a_case_of_unlike_ones(self, nodes: int, rate: float, time_s: float) -> None:
        closed = cold_of_like(1, nodes, rate, time_s)
        assert cold_of_unlike([rate] * nodes, time_s) == pytest.approx(closed, abs=1e-9)

    @given(st.floats(0.1, 2), st.floats(0.1, 2), TIMES)
    def test_two_unlike_nodes_have_a_closed_form_with_differences(self, a: float, b: float, t: float) -> None:
        if abs(a - b) < 1e-3:
            b = a + 0.5
        closed = (b * math.exp(-a * t) - a * math.exp(-b * t)) / (b - a)
        assert cold_of_unlike([a, b], t) == pytest.approx(closed, abs=1e-9)
        assert cold_by_quadrature([Exponential(a), Exponential(b)], t) == pytest.approx(closed, abs=1e-6)

    @pytest.mark.parametrize(("needed", "nodes"), [(1, 3), (2, 3), (2, 5)])
    def test_mean_life_is_the_integral(self, needed: int, nodes: int) -> None:
        closed = mean_life_of_cold_s(needed, nodes, 0.7)
        found = mean_life_by_quadrature_s(lambda t: cold_of_like(needed, nodes, 0.7, t), closed)
        assert found == pytest.approx(closed, rel=1e-6)

    @given(st.integers(1, 4), st.integers(0, 3), st.floats(0.05, 2), TIMES)
    def test_it_is_never_worse_than_hot_and_never_worse_for_a_spare(
        self, needed: int, spares: int, rate: float, time_s: float
    ) -> None:
        nodes = needed + spares
        cold = cold_of_like(needed, nodes, rate, time_s)
        assert cold >= hot(needed, [Exponential(rate)] * nodes, time_s) - 1e-12
        assert cold_of_like(needed, nodes + 1, rate, time_s) >= cold


Draw = Callable[[Random], bool]


def weibull(random: Random) -> float:
    return random.weibullvariate(2.0, 1.5)


class TestAgainstSimulation:
    """Twenty thousand draws each; four standard deviations."""

    @staticmethod
    def wins(draw: Draw) -> int:
        random = Random(7)
        return sum(draw(random) for _ in range(DRAWS))

    def test_two_of_three_unlike_hot_nodes(self) -> None:
        rates = [0.3, 0.6, 1.2]

        def draw(random: Random) -> bool:
            return sum(random.expovariate(rate) > 0.8 for rate in rates) >= 2

        assert agrees(hot(2, [Exponential(rate) for rate in rates], 0.8), self.wins(draw))

    def test_weibull_nodes_hot_and_cold(self) -> None:
        nodes: Sequence[Lifetime] = [Weibull(1.5, 2.0)] * 2

        def draw_hot(random: Random) -> bool:
            return max(weibull(random), weibull(random)) > 2.5

        def draw_cold(random: Random) -> bool:
            return weibull(random) + weibull(random) > 2.5

        assert agrees(hot(1, nodes, 2.5), self.wins(draw_hot))
        assert agrees(cold_by_quadrature(nodes, 2.5), self.wins(draw_cold))

    def test_two_of_four_cold_nodes(self) -> None:
        def draw(random: Random) -> bool:
            return sum(random.expovariate(2 * 0.7) for _ in range(3)) > 1.5

        assert agrees(cold_of_like(2, 4, 0.7, 1.5), self.wins(draw))

    @pytest.mark.parametrize("time_s", [1.0, 1.4, 2.0, 2.6, 4.0])
    def test_a_job_that_begins_anew(self, time_s: float) -> None:
        tries = Tries(needs_s=1.0, time_s=time_s, rate_per_s=0.8, nodes=3, takeover_s=0.2)
        spent: list[float] = []

        def draw(random: Random) -> bool:
            now, used = 0.0, 0.0
            for _ in range(tries.nodes):
                if now + tries.needs_s > tries.time_s:
                    break
                lasts = random.expovariate(tries.rate_per_s)
                used += min(lasts, tries.needs_s)
                if lasts >= tries.needs_s:
                    spent.append(used)
                    return True
                now += lasts + tries.takeover_s
            spent.append(used)
            return False

        assert agrees(tries.reliability(), self.wins(draw))
        assert sum(spent) / DRAWS == pytest.approx(tries.expected_node_s(), rel=0.03)


class TestBeginningAnew:
    def test_one_node_has_to_last(self) -> None:
        assert Tries(2.0, 2.0, 0.5, 1).reliability() == pytest.approx(math.exp(-1))
        assert Tries(2.0, 1.9, 0.5, 3).reliability() == 0.0

    def test_with_all_the_time_in_the_world_it_is_as_hot_copies(self) -> None:
        assert Tries(1.0, 100.0, 0.5, 3).reliability() == pytest.approx(hot(1, [Exponential(0.5)] * 3, 1.0))

    @given(st.floats(0.1, 3), st.floats(0.1, 9), st.floats(0.05, 3), st.integers(1, 4), st.floats(0, 1))
    def test_more_nodes_or_more_time_are_never_worse(
        self, needs_s: float, time_s: float, rate: float, nodes: int, takeover_s: float
    ) -> None:
        base = Tries(needs_s, time_s, rate, nodes, takeover_s).reliability()
        assert 0 <= base <= 1 + 1e-12
        assert Tries(needs_s, time_s, rate, nodes + 1, takeover_s).reliability() >= base
        assert Tries(needs_s, time_s + 0.3, rate, nodes, takeover_s).reliability() >= base - 1e-9


class TestLifetimes:
    @given(st.floats(0, 0.999), st.floats(0.2, 5), st.floats(0.1, 10))
    def test_a_quantile_is_where_so_many_have_failed(self, failed: float, shape: float, scale: float) -> None:
        for one in (Exponential(1 / scale), Weibull(shape, scale)):
            assert 1 - one.survival(one.quantile(failed)) == pytest.approx(failed, abs=1e-9)

    @pytest.mark.parametrize("rate", [0, -1, math.inf, math.nan])
    def test_a_rate_that_is_none_is_refused(self, rate: float) -> None:
        with pytest.raises(InvalidField, match="a number above 0"):
            Exponential(rate)


def test_the_quadrature_is_exact_on_cubes_and_close_on_more() -> None:
    assert integrate(lambda x: x**3, 0, 2) == pytest.approx(4)
    assert integrate(math.sqrt, 0, 1) == pytest.approx(2 / 3, abs=1e-6)


class TestLearning:
    def test_by_hand(self) -> None:
        """One failure a year is thought; two more come in half a year: three in one and a half."""
        known = FailureRate().after(2, YEAR_S / 2)
        assert known.mean_per_s * YEAR_S == pytest.approx(2)
        assert known.deviation_per_s * YEAR_S == pytest.approx(math.sqrt(3) / 1.5)

    def test_what_is_unknown_makes_survival_likelier_than_the_mean_says(self) -> None:
        known = FailureRate(2.0, 10.0)
        assert known.survival(5.0) == pytest.approx((1 + 0.5) ** -2)
        assert known.survival(5.0) > math.exp(-known.mean_per_s * 5.0)

    def test_with_time_it_comes_near_the_truth(self) -> None:
        random, known, truth_per_s = Random(3), FailureRate(1.0, 1.0), 0.01
        for _ in range(2_000):
            known = known.after(1, random.expovariate(truth_per_s))
        assert abs(known.mean_per_s - truth_per_s) < 4 * known.deviation_per_s

    def test_its_survival_is_the_mean_over_rates(self) -> None:
        random = Random(5)
        drawn = [math.exp(-random.gammavariate(2.0, 1 / 10.0) * 5.0) for _ in range(DRAWS)]
        assert sum(drawn) / DRAWS == pytest.approx(FailureRate(2.0, 10.0).survival(5.0), rel=0.02)

    def test_nonsense_is_refused(self) -> None:
        with pytest.raises(InvalidField):
            FailureRate(0.0, 1.0)
        with pytest.raises(InvalidField):
            FailureRate().after(-1, 1.0)
