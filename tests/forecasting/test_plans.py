"""A plan against what then happens: own users start when they were told, or earlier, whatever comes and however long
leases run; and the futures that a plan rests on say of the present what the plan says.
"""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.forecasting.worlds import SLOTS, Story, past_of, snapshot_after, stories, terms
from tests.searching import examples

from leasehold.forecasting.calibration import Calibration
from leasehold.forecasting.estimates import foresee
from leasehold.forecasting.futures import Forecast, simulate
from leasehold.forecasting.learnt import Arrivals, RunTimes
from leasehold.forecasting.snapshot import Snapshot, rebuild
from leasehold.gateway.planning import Prospect, plan_request
from leasehold.model.lease import LeaseState
from leasehold.model.request import LeaseType, Request

NUMBER = 999


def _snapshot(story: Story) -> Snapshot:
    """Let the jobs of a story come, and stop there; local requests are planned conservatively."""
    sites = tuple(replace(one, terms=replace(one.terms, local_policy="conservative")) for one in story.terms.sites)
    made = replace(story.terms, sites=sites)
    snapshot, _, _ = snapshot_after(made, story.jobs, story.jobs[-1].submit_ms)
    return snapshot


def _own(snapshot: Snapshot, site: str, vms: int, asked_s: int) -> Request:
    at_ms = snapshot.taken_ms
    return Request(NUMBER, LeaseType.NON_PREEMPTABLE, vms, 1000 * asked_s, at_ms, at_ms, site=site, consumer="own")


def _planned(snapshot: Snapshot, request: Request) -> Prospect:
    return plan_request(rebuild(snapshot), request, snapshot.taken_ms).prospect


@settings(max_examples=examples(250))
@given(
    story=stories(),
    site=st.sampled_from(sorted(SLOTS)),
    vms=st.integers(1, 6),
    asked_s=st.integers(1, 20),
    seed=st.integers(0, 99),
)
def test_own_users_never_start_later_than_planned(story: Story, site: str, vms: int, asked_s: int, seed: int) -> None:
    """In each of four futures: with other run times, more requests of own users and guests, and what these preempt."""
    snapshot = _snapshot(story)
    request = _own(snapshot, site, vms, asked_s)
    planned = _planned(snapshot, request)
    past = past_of(story)
    learnt = RunTimes(past), Arrivals(past, snapshot.taken_ms)
    futures = simulate(snapshot, [NUMBER], Forecast(4, seed, to_the_end=False), extra=[request], learnt=learnt)
    fates = [future.fates[NUMBER] for future in futures]
    if planned.is_refused:
        assert {fate.state for fate in fates} == {planned.state}
        return
    assert planned.start_ms is not None
    assert all(fate.start_ms is not None and fate.start_ms <= planned.start_ms for fate in fates)
    assert {fate.site for fate in fates} == {planned.site}


@settings(max_examples=examples(250))
@given(story=stories(), site=st.sampled_from(sorted(SLOTS)), vms=st.integers(1, 6), asked_s=st.integers(1, 20))
def test_they_start_just_then_if_all_run_for_as_long_as_they_ask(
    story: Story, site: str, vms: int, asked_s: int
) -> None:
    snapshot = _snapshot(story)
    request = _own(snapshot, site, vms, asked_s)
    planned = _planned(snapshot, request)
    learnt = RunTimes(), Arrivals((), snapshot.taken_ms)
    (future,) = simulate(snapshot, [NUMBER], Forecast(1, to_the_end=False), extra=[request], learnt=learnt)
    assert future.fates[NUMBER].start_ms == (None if planned.is_refused else planned.start_ms)


@settings(max_examples=examples(60))
@given(story=stories(), vms=st.integers(1, 3), kind=st.sampled_from([LeaseType.CANCELABLE, LeaseType.SUSPENDABLE]))
def test_a_guest_that_starts_now_by_plan_starts_now_in_every_future(story: Story, vms: int, kind: LeaseType) -> None:
    snapshot = replace(_snapshot(story), history=tuple(past_of(story)))
    at_ms = snapshot.taken_ms
    request = Request(NUMBER, kind, vms, 5_000, at_ms, at_ms, consumer="ada", group="physics")
    # Round robin has no chance of its own: another random stream takes no other turn.
    snapshot = replace(snapshot, gateway=replace(snapshot.gateway, policy="rr"))
    planned = _planned(snapshot, request)
    (found,) = foresee(snapshot, Calibration(), {kind: Forecast(3)}, request)
    assert found.futures == 3
    if planned.is_refused:
        assert found.refused_share == 1
    elif planned.start_ms == at_ms and planned.state is not LeaseState.WAITING:
        assert found.start is not None
        assert (found.start.low_ms, found.start.high_ms) == (at_ms, at_ms)
        assert found.refused_share == 0


def test_a_refused_request_is_refused_in_every_future() -> None:
    snapshot = replace(terms(), taken_ms=5_000)
    request = _own(snapshot, "gamma", SLOTS["gamma"] + 1, 10)
    assert _planned(snapshot, request).is_refused
    (found,) = foresee(snapshot, Calibration(), {LeaseType.NON_PREEMPTABLE: Forecast(2)}, request)
    assert (found.start, found.refused_share, found.preempted_share) == (None, 1, 0)
