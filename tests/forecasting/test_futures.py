"""Futures from a snapshot: what is known comes to pass, what is drawn is drawn from what was seen."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from math import asin, pi
from random import Random
from statistics import mean, stdev

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.forecasting.worlds import Story, past_of, snapshot_after, stories, terms
from tests.searching import examples

from leasehold.forecasting.estimates import correlation
from leasehold.forecasting.futures import Forecast, FutureWorld, simulate, stream
from leasehold.forecasting.learnt import DAY_MS, Arrivals, Coming, RunTimes
from leasehold.forecasting.snapshot import PastRequest, empty_gateway, memory_of
from leasehold.gateway.invariants import Invariants
from leasehold.model.request import LeaseType
from leasehold.simulation.workload.job import WorkloadJob


def _local(at_s: int, vms: int, asked_s: int, home: str = "beta", consumer: str = "ada") -> WorkloadJob:
    return WorkloadJob(at_s * 1000, vms, asked_s * 1000, asked_s * 1000, consumer, site=home)


@settings(max_examples=examples(30))
@given(stories())
def test_a_future_in_which_everything_takes_what_it_asks_for_is_what_comes(story: Story) -> None:
    """Independent oracle: the simulator, which goes on from where the snapshot was taken."""
    made = replace(story.terms, gateway=replace(story.terms.gateway, policy="rr"))
    at_ms = story.jobs[-1].submit_ms
    exact = [replace(job, actual_ms=job.requested_ms, vms=min(job.vms, 3)) for job in story.jobs]
    jobs = [replace(job, site=job.site or "alpha", lease_type=LeaseType.NON_PREEMPTABLE) for job in exact]
    snapshot, world, history = snapshot_after(made, jobs, at_ms)
    for _ in world.run():
        pass
    starts, ends = history.starts_ms(), history.ends()
    (future,) = simulate(snapshot, [lease.id for lease in snapshot.leases], Forecast(replications=1))
    for lease in snapshot.leases:
        fate = future.fates[lease.id]
        assert fate.start_ms == starts[lease.id]
        assert fate.end_ms == 1000 * ends[lease.id][0]


@settings(max_examples=examples(30))
@given(stories())
def test_every_invariant_holds_in_a_future_that_follows_no_plan(story: Story) -> None:
    snapshot, _, _ = snapshot_after(story.terms, list(story.jobs), story.jobs[story.taken_after - 1].submit_ms)
    past = past_of(story)
    future = FutureWorld(snapshot, RunTimes(past), Arrivals(past, snapshot.taken_ms), 1, 0, check=True)
    for instants, _ in enumerate(future.run(snapshot.taken_ms + 300_000)):
        assert instants < 20_000
    assert isinstance(Invariants(future.gateway), Invariants)


def test_the_same_seed_gives_the_same_futures_and_another_seed_others() -> None:
    past = [PastRequest(1000 * n, "beta", 1 + n % 3, 60_000, 1000 * (1 + 7 * n % 60), "ada") for n in range(50)]
    snapshot, _, _ = snapshot_after(terms(), [_local(n, 2, 60) for n in range(40)], 50_000)
    snapshot = replace(snapshot, history=tuple(past))
    about = [lease.id for lease in snapshot.leases]
    first, again, other = (simulate(snapshot, about, Forecast(5, seed)) for seed in (1, 1, 2))
    assert first == again
    assert [one.fates for one in first] != [one.fates for one in other]
    assert len({one.fates[40].start_ms for one in first}) > 1


def test_leftover_run_times_are_conditional_on_the_age() -> None:
    """A user's leases run for 10 % or for 90 % of what they ask for: one that has run for half will run to 90 %."""
    seen = [PastRequest(n, "beta", 1, 100_000, 10_000 if n % 2 else 90_000, "ada") for n in range(200)]
    run_times = RunTimes(seen)
    rng = Random(5)
    young = [run_times.draw("ada", "beta", 100_000, 0, rng) for _ in range(400)]
    old = [run_times.draw("ada", "beta", 100_000, 50_000, rng) for _ in range(400)]
    assert Counter(young).keys() == {10_000, 90_000}
    assert 0.4 < Counter(young)[10_000] / 400 < 0.6
    assert set(old) == {90_000}
    beyond = [run_times.draw("ada", "beta", 100_000, 95_000, rng) for _ in range(50)]
    assert all(95_000 < one <= 100_000 for one in beyond)


def test_a_user_of_whom_little_was_seen_is_taken_for_one_of_the_pool() -> None:
    pool = [PastRequest(n, "beta", 1, 64_000, 32_000, "many") for n in range(300)]
    run_times = RunTimes([*pool, PastRequest(400, "beta", 1, 64_000, 64_000, "few")])
    rng = Random(5)
    drawn = [run_times.draw("few", "beta", 64_000, 0, rng) for _ in range(2000)]
    own = sum(one == 64_000 for one in drawn) / 2000
    # Three pools of the user's own have one lease each: each is drawn from with 1 / (1 + 3).
    assert own == pytest.approx(1 - 0.75**3, abs=0.05)
    assert RunTimes([]).draw("any", "", 64_000, 10, rng) == 64_000


def test_a_lease_that_still_runs_says_that_some_run_for_longer() -> None:
    """Half of those seen ran for 10 %; the others have run for 50 % and are not over, and one ran for 80 %."""
    over = [PastRequest(n, "beta", 1, 100_000, 10_000, "ada") for n in range(100)]
    over.append(PastRequest(200, "beta", 1, 100_000, 80_000, "ada"))
    running = [PastRequest(300 + n, "beta", 1, 100_000, 50_000, "ada") for n in range(100)]
    rng = Random(5)
    known = RunTimes(over).with_running(running)
    drawn = Counter(known.draw("ada", "beta", 100_000, 0, rng) for _ in range(2000))
    assert drawn[10_000] / 2000 == pytest.approx(0.5, abs=0.05)
    assert drawn[80_000] / 2000 > 0.4  # what is not over yet ends as those did that ran for longer
    assert min(drawn) == 10_000
    assert all(ran == 10_000 or ran > 50_000 for ran in drawn)
    only_over = RunTimes(over)
    alone = Counter(only_over.draw("ada", "beta", 100_000, 0, rng) for _ in range(2000))
    assert alone[10_000] / 2000 > 0.95


def _campaigns(rng: Random, leases: int, length: int, users: int = 4) -> list[PastRequest]:
    """Requests of users whose leases run for a part of their time that is drawn once for each ``length`` of them."""
    parts: dict[int, int] = {}
    past = []
    for n in range(leases):
        user = n % users
        if n // users % length == 0:
            parts[user] = rng.randrange(1_000, 100_000)
        past.append(PastRequest(n, "beta", 1, 100_000, parts[user], f"user {user}"))
    return past


@settings(max_examples=examples(10), deadline=None)
@given(st.integers(0, 10_000))
def test_leases_that_run_for_themselves_share_no_chance_and_campaigns_do(seed: int) -> None:
    """Oracle: of runs of n equal ones, n - 1 of n neighbours are the same, the others independent."""
    rng = Random(seed)
    assert RunTimes(_campaigns(rng, 2_000, 1)).shared < 0.1
    assert RunTimes(_campaigns(rng, 2_000, 4)).shared == pytest.approx(0.75, abs=0.12)
    assert RunTimes(_campaigns(rng, 48, 4)).shared < 0.3  # little was seen
    assert RunTimes(PastRequest(n, "beta", 1, 100_000, 30_000, "ada") for n in range(500)).shared == 0


@settings(max_examples=examples(10), deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([0, 30_000]), st.booleans())
def test_a_draw_alone_is_the_same_whatever_is_shared(seed: int, age_ms: int, some_run: bool) -> None:  # noqa: FBT001
    """Oracle: draws of which nothing is shared."""
    rng, count = Random(seed), 4_000
    past = [replace(one, consumer="ada") for one in _campaigns(rng, 400, 8, users=1)]
    learnt = RunTimes(past)
    if some_run:
        learnt = learnt.with_running([PastRequest(900 + n, "beta", 1, 100_000, 250 * n, "ada") for n in range(1, 200)])
    assert learnt.shared > 0.5
    drawn = sorted(learnt.draw("ada", "beta", 100_000, age_ms, rng, rng.gauss(0.0, 1.0)) for _ in range(count))
    learnt._together._product = 0.0
    assert learnt.shared == 0
    alone = sorted(learnt.draw("ada", "beta", 100_000, age_ms, rng) for _ in range(count))
    critical = 1.95 * (2 / count) ** 0.5  # of Kolmogorov and Smirnov, for one in a thousand
    assert _apart(drawn, alone) < 1.3 * critical


def _apart(one: list[int], other: list[int]) -> float:
    """Say how far two samples of a size are apart at most (Kolmogorov and Smirnov)."""
    at = sorted({*one, *other})
    return max(abs(bisect_right(one, value) - bisect_right(other, value)) for value in at) / len(one)


def test_two_leases_of_a_user_go_together_in_a_future_as_much_as_was_seen() -> None:
    rng = Random(3)
    learnt = RunTimes(replace(one, consumer="ada") for one in _campaigns(rng, 400, 4, users=1))
    pairs = []
    for _ in range(3_000):
        common = rng.gauss(0.0, 1.0)
        pairs.append([learnt.draw("ada", "beta", 100_000, 0, rng, common) for _ in range(2)])
    first, second = zip(*pairs, strict=True)
    # The rank correlation of a Gaussian copula (Kruskal 1958), but for the few draws from wider pools.
    assert correlation(first, second) == pytest.approx(6 / pi * asin(learnt.shared / 2), abs=0.05)


def test_what_else_a_user_asks_for_changes_no_draw() -> None:
    """Common random numbers: there is room for all, so that each starts at once, and only its draw says how long."""
    past = tuple(_campaigns(Random(1), 400, 8))
    jobs = [_local(n, 1, 60, home="alpha", consumer=f"user {n % 2}") for n in range(4)]
    few, _, _ = snapshot_after(terms(), jobs[:3], 10_000)
    many, _, _ = snapshot_after(terms(), jobs, 10_000)
    ends = []
    for snapshot in (few, many):
        futures = simulate(replace(snapshot, history=past), [1, 2, 3], Forecast(8, 5))
        ends.append([[future.fates[number].end_ms for number in (1, 2, 3)] for future in futures])
    assert ends[0] == ends[1]
    assert len({tuple(one) for one in ends[0]}) > 1


def test_futures_of_a_long_queue_disagree_as_much_as_what_one_user_runs_does() -> None:
    """A hundred leases of one user: were each drawn for itself, their sum would hardly differ between futures."""
    rng = Random(2)
    learnt = RunTimes(replace(one, consumer="ada") for one in _campaigns(rng, 500, 10, users=1))
    sums: dict[bool, list[int]] = {True: [], False: []}
    for _ in range(200):
        common = rng.gauss(0.0, 1.0)
        sums[True].append(sum(learnt.draw("ada", "beta", 100_000, 0, rng, common) for _ in range(100)))
        sums[False].append(sum(learnt.draw("ada", "beta", 100_000, 0, rng, rng.gauss(0.0, 1.0)) for _ in range(100)))
    assert stdev(sums[True]) > 5 * stdev(sums[False])


def test_machines_start_within_the_times_that_were_measured() -> None:
    """The plan takes the upper quartile of what was measured, a future any of it."""
    site = replace(terms().sites[0], confirms_starts=True)
    measured = [[1024, 1, took_ms] for took_ms in (1_000, 2_000, 9_000)]
    memory = replace(memory_of(empty_gateway(terms(), Random(1))), overheads={site.name: {"start": measured}})
    made = replace(terms(), sites=(site, *terms().sites[1:]), memory=memory)
    request = PastRequest(0, site.name, 1, 60_000, consumer="ada").again(7, made.taken_ms)
    starts = []
    for seed in range(60):
        world = FutureWorld(made, RunTimes(), Arrivals((), made.taken_ms), seed, 0, extra=[request])
        for _ in world.run(made.taken_ms + 20_000):
            pass
        starts.append(world.gateway.leases[7].first_start_ms - made.taken_ms)
    assert set(starts) == {1_000, 2_000, 9_000}


def test_arrivals_keep_the_hours_of_the_day_and_the_rate() -> None:
    """Requests come from 9 to 17 h on each of 30 days, one each ten minutes."""
    past = [
        PastRequest(day * DAY_MS + 9 * 3_600_000 + n * 600_000, "alpha", 1, 1000, 1000)
        for day in range(30)
        for n in range(48)
    ]
    arrivals = Arrivals(past, 30 * DAY_MS)
    hours: Counter[int] = Counter()
    counts = []
    for seed in range(40):
        day = list(_until(arrivals.draw(stream(seed)), 31 * DAY_MS))
        counts.append(len(day))
        hours.update(int(one.at_ms % DAY_MS // 3_600_000) for one in day)
    assert mean(counts) == pytest.approx(48, rel=0.1)
    inside = sum(hours[hour] for hour in range(8, 18))
    assert inside == hours.total()


def _until(coming: Iterator[Coming], end_ms: int) -> Iterator[Coming]:
    for one in coming:
        if one.at_ms >= end_ms:
            return
        yield one


def test_load_multiplies_what_comes() -> None:
    past = [PastRequest(1000 * n, "alpha", 1, 500, 500) for n in range(1000)]
    snapshot = replace(terms(), taken_ms=1_000_000, history=tuple(past))
    learnt = RunTimes(past), Arrivals(past, 1_000_000)
    counts = {}
    for load in (0.5, 1.0, 2.5):
        world = FutureWorld(snapshot, *learnt, 1, 0, load=load)
        for _ in world.run(1_400_000):
            pass
        counts[load] = sum(world.future.own.values()) / 500
    assert counts[1.0] == pytest.approx(400, rel=0.05)
    assert counts[0.5] == pytest.approx(200, rel=0.3)
    assert counts[2.5] == pytest.approx(1000, rel=0.15)
