"""Reliability: known numbers, closed forms beside simulation, and what more copies do."""

import math
from collections.abc import Callable
from itertools import product
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.matching.reliability import YEAR_S, FailureRate, Tries, at_least
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


Draw = Callable[[Random], bool]


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

        assert agrees(at_least(2, [math.exp(-rate * 0.8) for rate in rates]), self.wins(draw))

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
        assert Tries(1.0, 100.0, 0.5, 3).reliability() == pytest.approx(at_least(1, [math.exp(-0.5)] * 3))

    @given(st.floats(0.1, 3), st.floats(0.1, 9), st.floats(0.05, 3), st.integers(1, 4), st.floats(0, 1))
    def test_more_nodes_or_more_time_are_never_worse(
        self, needs_s: float, time_s: float, rate: float, nodes: int, takeover_s: float
    ) -> None:
        base = Tries(needs_s, time_s, rate, nodes, takeover_s).reliability()
        assert 0 <= base <= 1 + 1e-12
        assert Tries(needs_s, time_s, rate, nodes + 1, takeover_s).reliability() >= base
        assert Tries(needs_s, time_s + 0.3, rate, nodes, takeover_s).reliability() >= base - 1e-9


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
