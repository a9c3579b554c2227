"""Whoever is killed between any two steps, or cannot write, decides about jobs as if nothing had been."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.searching import examples
from tests.service.engine.conftest import NewStore
from tests.service.engine.job_worlds import S, Shop, facts, job, nodes
from tests.service.engine.test_atomicity import failing

from leasehold.jobs.job import Backup
from leasehold.jobs.state import NodeHistory
from leasehold.service.commands import CancelJob, Drain, JobOutput, JobSiteSilent, Observed, Undrain
from leasehold.service.drivers.facts import Output
from leasehold.service.drivers.protocol import Phase
from leasehold.service.errors import Unavailable
from leasehold.service.store.filters import EVERYTHING, JobFilter

SHARED_STORES = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
DEAD = facts(problem="is down", fault="node-died")
Step = Callable[[Shop], object]


def reports(number: int, phase: Phase, **said: Any) -> Step:
    """The machines of the newest attempt of a job say something, where it has one."""

    def step(shop: Shop) -> None:
        for attempt in shop.attempts(number)[-1:]:
            if attempt.lease_id is not None:
                shop.see(attempt.lease_id, phase, **said)

    return step


def fetched(number: int) -> Step:
    """What the attempts of a job wrote arrives, as far as it is wanted."""

    def step(shop: Shop) -> None:
        for attempt in shop.attempts(number):
            if attempt.end and attempt.lease_id is not None:
                shop.do(JobOutput(attempt.lease_id, Output(f"{number}.{attempt.attempt.number}")))

    return step


STEPS: list[Step] = [
    lambda shop: shop.do(nodes(facts(), facts("n2")), nodes(facts("m1"), site="b")),
    lambda shop: shop.do(job(cores=3, runs_s=30)),
    lambda shop: shop.do(job(cores=3, backup=Backup.COLD, runs_s=30, key="k", request_hash="h")),
    reports(1, Phase.RUNNING),
    lambda shop: shop.do(job(cores=2, backup=Backup.HOT, runs_s=40), job(cores=4, runs_s=20)),
    reports(2, Phase.RUNNING),
    lambda shop: shop.do(nodes(DEAD, facts("n2")), nodes(facts("m1"), site="b")),
    reports(3, Phase.ENDED, exit_status=0),
    reports(1, Phase.RUNNING),
    lambda shop: shop.do(Drain("b", "operator")),
    fetched(3),
    reports(2, Phase.ENDED, exit_status=0),
    lambda shop: shop.do(nodes(facts(), facts("n2"))),
    lambda shop: shop.do(Undrain("b", "operator"), job(cores=1, count=2, runs_s=10)),
    fetched(2),
    reports(1, Phase.FAILED, detail="went away"),
    lambda shop: shop.do(JobSiteSilent("b", "no answer")),
    reports(4, Phase.ENDED, exit_status=4),
    lambda shop: shop.do(CancelJob(5)),
    fetched(4),
    lambda shop: shop.do(nodes(facts("m1"), site="b"), job(cores=1, runs_s=10)),
    reports(1, Phase.ENDED, exit_status=0),
    fetched(1),
]


def play(shop: Shop, interrupt: Callable[[Shop], object], moments: set[int]) -> dict[str, Any]:
    """Go through all of it, seven seconds a step; at these steps something comes in between."""
    for number, step in enumerate(STEPS):
        if number in moments:
            interrupt(shop)
        step(shop)
        shop.pass_time(7 * S)
        shop.engine.check()
        shop.engine.jobs.scheduler.check()
    shop.pass_time(600 * S)
    rows = shop.store.jobs(JobFilter(EVERYTHING), 100)
    numbers = [row.record.id for row in rows]
    return {
        "jobs": rows,
        "attempts": shop.store.attempts(numbers),
        "nodes": shop.store.nodes(),
        "outputs": [shop.store.output(number, n) for number in numbers for n in range(1, 5)],
        "delivered": sorted(row.record.id for row in rows if row.record.delivered),
    }


def _restart(shop: Shop) -> None:
    shop.restart()
    shop.pass_time(0)


def _fail(shop: Shop) -> None:
    with failing(shop.store), pytest.raises(Unavailable):
        shop.do(job(cores=1), CancelJob(1), nodes(), Observed("a", ()))


@pytest.mark.parametrize("interrupt", [_restart, _fail])
@settings(max_examples=examples(8), suppress_health_check=SHARED_STORES, deadline=None)
@given(moments=st.sets(st.integers(0, len(STEPS) - 1), min_size=1))
def test_whatever_comes_in_between_changes_no_decision(
    new_store: NewStore, interrupt: Callable[[Shop], object], moments: set[int]
) -> None:
    with new_store() as store, new_store() as other:
        disturbed = play(Shop(store), interrupt, moments)
        undisturbed = play(Shop(other), interrupt, set())
        assert disturbed == undisturbed
        assert undisturbed["delivered"]


def test_how_often_nodes_failed_outlives_a_restart_and_is_written_only_with_news_of_nodes(
    new_store: NewStore,
) -> None:
    with new_store() as store:
        shop = Shop(store)
        shop.do(nodes(facts(), facts("n2")))
        shop.pass_time(7 * S)
        shop.do(nodes(DEAD, facts("n2")))
        watched = shop.engine.jobs.scheduler.failures.all()
        assert watched["a/n1"] == NodeHistory(1, 7 * S, -1)
        kept = store.nodes()
        assert [(row.charged, row.watched_ms, row.well_ms) for row in kept] == [
            (1, 7 * S, -1),
            (0, 7 * S, shop.now_ms),
        ]
        shop.do(job(cores=1, runs_s=30))
        assert store.nodes() == kept
        shop.restart()
        assert shop.engine.jobs.scheduler.failures.all() == watched
        shop.pass_time(7 * S)
        shop.do(nodes(facts(), facts("n2")))
        assert store.nodes() != kept
