"""What a site's own users take: the table that is learnt online, against brute force."""

import json
import math
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.searching import examples

from leasehold.routing import demand
from leasehold.routing.demand import AGES_MS, EVERY_AGE, HORIZONS_MS, WEEK_MS, LocalDemand, Tail

SLOTS = 40
STILL = 1 << 62
Held = tuple[int, int, int]

leases = st.lists(st.tuples(st.integers(0, 400_000), st.integers(1, 300_000), st.integers(1, 60)), max_size=25).map(
    lambda drawn: sorted((start, start + span, vms) for start, span, vms in drawn)
)


def watched(table: LocalDemand, history: list[Held], until_ms: int) -> LocalDemand:
    """Show a history to a table, in order of time; of an instant, ends come first."""
    begins = [(start, 1, number, vms) for number, (start, _, vms) in enumerate(history)]
    ends = [(end, 0, number, end - start) for number, (start, end, _) in enumerate(history)]
    for at_ms, begins_here, number, value in sorted(begins + ends):
        if at_ms <= until_ms:
            (table.began if begins_here else table.ended)(number, value, at_ms)
    table.settle(until_ms)
    return table


def peak_vms(starts: Iterable[Held]) -> int:
    """Give the most VMs that these leases (start, end, VMs), in order of their starts, held at the same time."""
    held = peak = 0
    ends: list[tuple[int, int]] = []
    for start_ms, end_ms, vms in starts:
        while ends and ends[0][0] <= start_ms:
            held -= heappop(ends)[1]
        held += vms
        peak = max(peak, held)
        heappush(ends, (end_ms, vms))
    return peak


@given(leases)
def test_a_peak_is_the_most_that_is_held_at_any_start(history: list[Held]) -> None:
    held_at_starts = [
        sum(vms for start, end, vms in history if start <= at < end or start == at) for at, _, _ in history
    ]
    at_same_time = {at: 0 for at, _, _ in history}
    for at in at_same_time:
        at_same_time[at] = sum(vms for start, end, vms in history if start <= at < end)
    assert peak_vms(history) == max(at_same_time.values(), default=0)
    assert not history or peak_vms(history) <= max(held_at_starts)
    still = [(start, STILL, vms) for start, _, vms in history]
    assert peak_vms(still) == sum(vms for _, _, vms in history)


def brute_force(history: list[Held], until_ms: int, scale_ms: int) -> dict[tuple[int, int], dict[int, float]]:
    """Weights of the peaks at each level, by horizon and class of age: every probe on its own."""
    levels, counts = demand._levels(SLOTS), defaultdict[tuple[int, int], Counter[int]](Counter)
    for index, age, end_ms, peak in _probes(history, until_ms, scale_ms):
        for row in (age, EVERY_AGE):
            seen = sum(level <= min(peak, SLOTS) for level in levels)
            counts[index, row][seen] += math.exp(end_ms / WEEK_MS)  # type: ignore[assignment]
    return {key: dict(weights) for key, weights in counts.items()}


def _probes(history: list[Held], until_ms: int, scale_ms: int) -> Iterator[tuple[int, int, int, int]]:
    for index, horizon_ms in enumerate(HORIZONS_MS):
        if not scale_ms * demand.SHORTEST <= horizon_ms < 2 * scale_ms * demand.LONGEST:
            continue
        apart_ms = max(horizon_ms // 4, scale_ms // 8)
        for probe_ms in range(0, until_ms - horizon_ms + 1, apart_ms):
            end_ms = probe_ms + horizon_ms
            ages = [probe_ms - start for start, _, _ in history if start < probe_ms]
            age = bisect_right(AGES_MS, min(ages)) if ages else len(AGES_MS)
            yield index, age, end_ms, peak_vms([one for one in history if probe_ms <= one[0] < end_ms])


@given(leases, st.integers(400_000, 2_000_000))
@settings(max_examples=examples(60))
def test_what_is_counted_is_what_brute_force_counts(history: list[Held], until_ms: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demand, "FIRST_SCALE_WEIGHT", 1e12)  # so that the horizons stay as they are
        table = watched(LocalDemand(SLOTS), history, until_ms)
    counted = {(index, age): dict(weights) for index, age, weights in table.memory()["counts"]}
    expected = brute_force(history, until_ms, demand.FIRST_SCALE_MS)
    assert counted.keys() == expected.keys()
    for key, weights in counted.items():
        assert weights == pytest.approx(expected[key])


@given(leases, st.integers(0, 2_000_000), st.integers(1, 5_000_000))
def test_an_outlook_is_a_distribution_and_looking_changes_nothing(
    history: list[Held], until_ms: int, span_ms: int
) -> None:
    table = watched(LocalDemand(SLOTS), history, until_ms)
    tail = table.outlook(until_ms).within(span_ms)
    chances = [tail.at_least(vms) for vms in range(SLOTS + 2)]
    assert chances[0] == pytest.approx(1)
    assert chances[-1] == 0
    assert all(0 <= low <= high + 1e-12 for high, low in pairwise(chances))
    again = table.outlook(until_ms).within(span_ms)
    assert [again.at_least(vms) for vms in range(SLOTS + 2)] == chances


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20), st.integers(0, 25), st.integers(0, 25))
def test_the_mean_over_several_vms_is_their_mean(chances: list[float], first: int, more: int) -> None:
    tail = Tail(chances)
    each = [tail.at_least(vms) for vms in range(first, first + more + 1)]
    assert tail.mean(first, first + more) == pytest.approx(math.fsum(each) / len(each), abs=1e-12)


def test_before_anything_was_seen_more_is_less_likely_and_nothing_counts_as_learnt() -> None:
    outlook = LocalDemand(100).outlook(0)
    assert [round(outlook.within(60_000).at_least(vms), 3) for vms in (0, 1, 9, 99)] == [1, 0.5, 0.1, 0.01]
    assert not outlook.is_learnt
    assert outlook.scale_ms == demand.FIRST_SCALE_MS


def test_a_quiet_site_is_believed_to_stay_quiet_and_a_busy_one_busy() -> None:
    quiet, busy = LocalDemand(SLOTS), LocalDemand(SLOTS)
    for number in range(2_000):
        at_ms = 20_000 * number
        busy.began(number, 8, at_ms)
        busy.ended(number, 10_000, at_ms + 10_000)
        quiet.advance(at_ms)
    now_ms = 40_000_000
    assert quiet.outlook(now_ms).within(60_000).at_least(1) < 0.01
    soon = busy.outlook(now_ms).within(60_000)
    assert soon.at_least(8) > 0.95
    assert soon.at_least(9) < 0.01
    assert busy.outlook(now_ms).is_learnt


def test_whether_a_peak_stays_within_a_round_number_is_known_exactly() -> None:
    for slots in (1, 5, 64, 100, 256, 5_000):
        levels = demand._levels(slots)
        assert levels == sorted(set(levels))
        assert set(range(1, min(slots, 64) + 1)) <= set(levels)
        assert all(2**power + 1 in levels for power in range(20) if 2**power < slots)
    assert len(demand._levels(256)) < 130


def test_the_scale_is_how_long_local_leases_hold_their_vms_whatever_was_told_before() -> None:
    table = LocalDemand(SLOTS)
    for number in range(3_000):
        table.began(number, 1, 60_000 * number)
        table.ended(number, 30_000, 60_000 * number + 30_000)
    assert table.scale_ms == pytest.approx(30_000, rel=0.02)


def test_what_was_seen_months_ago_is_forgotten() -> None:
    table = LocalDemand(SLOTS)
    for number in range(1_000):
        table.began(number, SLOTS, 60_000 * number)
        table.ended(number, 30_000, 60_000 * number + 30_000)
    assert table.outlook(60_000_000).within(60_000).at_least(SLOTS) > 0.5
    for half_hour in range(1, 7 * 48):
        table.advance(60_000_000 + half_hour * WEEK_MS // (7 * 48))
    for day in range(7, 7 * 13):
        table.advance(60_000_000 + day * WEEK_MS // 7)
    late = table.outlook(60_000_000 + 13 * WEEK_MS)
    assert late.within(60_000).at_least(1) < 0.001


def test_memory_does_not_grow_with_the_number_of_leases() -> None:
    table = LocalDemand(SLOTS)
    for number in range(20_000):
        table.began(number, 1, number)  # nobody ever ends
    assert len(table._starts_ms) <= demand.MOST_STARTS
    assert len(table._changes) <= demand.MOST_STARTS
    assert len(table._place) <= demand.MOST_STARTS


@given(leases, st.integers(0, 2_000_000))
@settings(max_examples=examples(40))
def test_a_table_that_is_recalled_says_the_same(history: list[Held], until_ms: int) -> None:
    table = watched(LocalDemand(SLOTS), history, until_ms)
    twin = LocalDemand.recalled(json.loads(json.dumps(table.memory())), SLOTS)
    assert twin.scale_ms == table.scale_ms
    one, other = table.outlook(until_ms), twin.outlook(until_ms)
    for span_ms in HORIZONS_MS[:8]:
        for vms in (1, 5, SLOTS):
            assert one.within(span_ms).at_least(vms) == pytest.approx(other.within(span_ms).at_least(vms), 0.2)


def test_a_site_of_another_size_begins_anew() -> None:
    table = watched(LocalDemand(SLOTS), [(0, 10_000, 3)], 5_000_000)
    assert table.outlook(5_000_000).is_learnt
    assert not LocalDemand.recalled(table.memory(), 7).is_learnt
