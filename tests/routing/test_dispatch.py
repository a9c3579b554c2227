"""Sequences that keep to given shares: at random, and as a billiard ball does."""

from collections import Counter
from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from leasehold.model.errors import InvalidField
from leasehold.model.request import LeaseType
from leasehold.routing.proportional import Bernoulli, Billiard, Rtdp, ShareDispatcher
from leasehold.routing.queueing import normalised

SHARES = (0.171, 0.607, 0.222)


def imbalance(proportions: Sequence[float], sequence: Sequence[int]) -> float:
    """Give the largest distance, at any time, between what a cluster got and its share."""
    counts = [0] * len(proportions)
    worst = 0.0
    for n, chosen in enumerate(sequence, start=1):
        counts[chosen] += 1
        worst = max(worst, *(abs(c - p * n) for c, p in zip(counts, proportions, strict=True)))
    return worst


def argmin_sequence(proportions: Sequence[float], fastest: int, length: int) -> list[int]:
    """Follow eq 20 of JPDC 2012 word for word, looking at every cluster each time."""
    turns = [float(i == fastest) for i in range(len(proportions))]
    chosen = []
    for _ in range(length):
        quotients = [(t / p, i) for i, (t, p) in enumerate(zip(turns, proportions, strict=True)) if p > 0]
        best = min(quotients)[1]
        turns[best] += 1
        chosen.append(best)
    return chosen


@pytest.mark.parametrize(("fastest", "bound"), [(2, 1.25), (-1, 1.2)])
def test_a_billiard_sequence_never_strays_far_from_its_shares(fastest: int, bound: float) -> None:
    billiard = Billiard(SHARES, fastest)
    sequence = [billiard.next() for _ in range(5_000)]
    assert 0.5 < imbalance(SHARES, sequence) < bound


def test_random_draws_stray_much_further() -> None:
    bernoulli = Bernoulli(SHARES, Random(1))
    assert imbalance(SHARES, [bernoulli.next(LeaseType.CANCELABLE) for _ in range(5_000)]) > 10


weights = st.lists(st.integers(0, 30), min_size=1, max_size=8).filter(any)


@given(weights, st.data())
def test_billiard_is_the_argmin_of_eq_20_with_ties_to_the_lowest(counts: list[int], data: st.DataObject) -> None:
    proportions = normalised(counts)
    fastest = data.draw(st.integers(0, len(counts) - 1))
    billiard = Billiard(proportions, fastest)
    assert [billiard.next() for _ in range(200)] == argmin_sequence(proportions, fastest, 200)


@given(weights, st.integers(0, 7))
def test_billiard_counts_stay_within_half_the_number_of_clusters_and_one(counts: list[int], fastest: int) -> None:
    proportions = normalised(counts)
    billiard = Billiard(proportions, fastest)
    assert imbalance(proportions, [billiard.next() for _ in range(300)]) <= len(counts) / 2 + 1


def test_equal_shares_are_round_robin_and_the_fastest_joins_one_turn_later() -> None:
    thirds = (1 / 3, 1 / 3, 1 / 3)
    billiard = Billiard(thirds, fastest=0)
    assert [billiard.next() for _ in range(8)] == [1, 2, 0, 1, 2, 0, 1, 2]


def test_rtdp_plays_one_sequence_per_type_each_from_the_start() -> None:
    rtdp, alone = Rtdp(SHARES, 1), Billiard(SHARES, 1)
    expected = [alone.next() for _ in range(400)]
    types = Random(5).choices(list(LeaseType), k=1_600)
    chosen: dict[LeaseType, list[int]] = {kind: [] for kind in LeaseType}
    for kind in types:
        chosen[kind].append(rtdp.next(kind))
    for sequence in chosen.values():
        assert len(sequence) > 300
        assert sequence[:300] == expected[:300]


def test_random_draws_follow_the_shares_and_repeat_with_their_seed() -> None:
    def draws(seed: int) -> list[int]:
        dispatcher = Bernoulli(SHARES, Random(seed))
        return [dispatcher.next(LeaseType.SUSPENDABLE) for _ in range(20_000)]

    counts = Counter(draws(7))
    assert chisquare([counts[i] for i in range(3)], [20_000 * p for p in SHARES]).pvalue > 0.01
    assert draws(7) == draws(7) != draws(8)


@pytest.mark.parametrize("dispatcher", [Bernoulli((0.0, 1.0, 0.0), Random(1)), Rtdp((0.0, 1.0, 0.0), 0)])
def test_all_to_one_cluster_is_the_same_by_either_dispatch(dispatcher: ShareDispatcher) -> None:
    assert {dispatcher.next(kind) for kind in LeaseType for _ in range(50)} == {1}


def test_shares_that_are_all_zero_are_refused() -> None:
    with pytest.raises(InvalidField, match="at least one share above 0"):
        Bernoulli((0.0, 0.0), Random(1))
    with pytest.raises(InvalidField, match="at least one share above 0"):
        Billiard((), 0)


class AlmostOne(Random):
    """A generator at the very end of its range."""

    def random(self) -> float:
        return 1 - 2**-53


@given(st.lists(st.floats(1e-300, 1e300), min_size=1, max_size=9))
def test_a_draw_at_the_end_of_its_range_is_the_last_cluster_with_a_share(shares: list[float]) -> None:
    assert Bernoulli([*shares, 0.0], AlmostOne()).next(LeaseType.CANCELABLE) < len(shares)
