"""Plans of requests that a site with a manager of its own would decide on: it is asked."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
from tests.service.messages.pair import Pair
from tests.waiting import until

from leasehold.client import Client, Lease, LeasePlan, LeaseSpec


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """The gateway's own site is full: guests go to the manager's, of which it holds half."""
    with Pair.open(tmp_path_factory.mktemp("pair")) as here:
        submit(here.client, type=None, local=True, site="near", vms=4)
        with owner_of(here) as owner:
            submit(owner, type=None, local=True, site="far", vms=2)
        until(lambda: asked(here, vms=1).elsewhere)
        yield here


def owner_of(pair: Pair) -> Client:
    return Client(pair.manager.url, pair.manager.token())


def submit(client: Client, **said: object) -> Lease:
    return client.leases.submit(LeaseSpec.of(duration_s=3_600, **said))


def asked(pair: Pair, **said: object) -> LeasePlan:
    return pair.client.leases.plan(LeaseSpec.of(**{"type": "suspendable", "duration_s": 600, **said}))


def test_what_would_start_there_now_is_said_to(pair: Pair) -> None:
    plan = asked(pair, vms=2)
    assert plan.elsewhere is not None
    said = plan.elsewhere.answer
    assert said is not None
    assert (plan.elsewhere.name, said.state.value) == ("far", "starting")
    assert said.starts_at is not None
    assert said.ends_at is not None
    assert abs(said.ends_at - said.starts_at - timedelta(seconds=1_200)) < timedelta(seconds=5)  # on half as fast ones


def test_what_would_wait_there_is_told_until_when_and_nothing_is_left_behind(pair: Pair) -> None:
    before = [lease.id for lease in pair.client.leases.list()]
    plan = asked(pair, vms=4)
    assert plan.elsewhere is not None
    said = plan.elsewhere.answer
    assert said is not None
    assert said.state.value == "waiting"
    assert said.starts_at is not None
    with owner_of(pair) as owner:
        [held] = owner.leases.list()
    assert held.ends_at is not None
    assert abs(said.starts_at - held.ends_at) < timedelta(seconds=5)
    assert [lease.id for lease in pair.client.leases.list()] == before


def test_a_manager_that_does_not_answer_is_not_waited_for(pair: Pair) -> None:
    pair.manager.kill()
    try:
        plan = asked(pair, vms=2)
    finally:
        pair.manager.start()
    assert plan.elsewhere is not None
    assert plan.elsewhere.answer is None
