"""What waits is tried again every two minutes, given up after six, and looked at in the queue's order."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.jobs.making import MINUTE, S, Told, catalogue, image, seen, site, submitted
from tests.searching import examples

from leasehold.jobs.effects import WakeJobsAt
from leasehold.jobs.events import (
    AttemptEnded,
    AttemptNotNow,
    AttemptRuns,
    ImageBuilt,
    ImagesSeen,
    JobCancelled,
    JobTick,
)
from leasehold.jobs.settings import JobSettings, Machines
from leasehold.matching.choice import Retrying

FULL = site(seen("a/1", cores=2, free_cores=0, at_ms=1))


def test_a_job_without_room_is_tried_every_two_minutes_and_given_up_after_six() -> None:
    told = Told(FULL, catalogue()).tell(1, submitted(at_ms=1))
    assert told.decided == [(1, "tried-again-later", "cores-in-use")]
    assert WakeJobsAt(2 * MINUTE + 1) in told.effects

    for minutes in (2, 4):
        told.tell(minutes * MINUTE + 1, JobTick())
        assert told.decided == [(1, "tried-again-later", "cores-in-use")]
    told.tell(6 * MINUTE + 1, JobTick())

    assert told.decided == [(1, "waited-too-long", "cores-in-use")]
    assert told.closed == [(1, "refused", "waited-too-long", 0)]


def test_interval_and_limit_are_settings() -> None:
    told = Told(FULL, settings=JobSettings(retrying=Retrying(30 * S, 30 * S))).tell(1, submitted(at_ms=1))

    told.tell(30 * S + 1, JobTick())

    assert told.closed[0][2] == "waited-too-long"


def test_a_waiting_job_starts_as_soon_as_there_is_room() -> None:
    told = Told(FULL).tell(1, submitted(at_ms=1))

    assert told.tell(2, site(seen("a/1", cores=2, at_ms=2))).started == [(1, 1, ("a/1",))]


def test_or_only_at_its_times_where_the_operator_wants_that() -> None:
    told = Told(FULL, settings=JobSettings(eager=False)).tell(1, submitted(at_ms=1))

    assert told.tell(2, site(seen("a/1", cores=2, at_ms=2))).started == []
    assert told.tell(2 * MINUTE + 1, JobTick()).started == [(1, 1, ("a/1",))]


def test_room_goes_to_the_first_of_the_queue() -> None:
    """Long and urgent first (Table 1), whoever came first."""
    told = Told(FULL, catalogue())
    told.tell(1, submitted(1, at_ms=1, cores=2, execution_ms=S, deadline_ms=10 * MINUTE))
    told.tell(2, submitted(2, at_ms=2, cores=2, execution_ms=100 * S, deadline_ms=4 * MINUTE))

    assert told.tell(3, site(seen("a/1", cores=2, at_ms=3))).started == [(2, 1, ("a/1",))]


@pytest.mark.parametrize(("patience_ms", "first"), [(2_000, 1), (None, 2)])
def test_patience_puts_whoever_waited_that_long_ahead(patience_ms: int | None, first: int) -> None:
    told = Told(FULL, settings=JobSettings(queue="sjf", patience_ms=patience_ms))
    told.tell(1, submitted(1, at_ms=1, cores=2, execution_ms=100 * S))
    told.tell(2_000, submitted(2, at_ms=2_000, cores=2, execution_ms=S))

    assert told.tell(2_001, site(seen("a/1", cores=2, at_ms=3_000))).started[0][0] == first


@given(gap_s=st.integers(1, 9), short=st.integers(1, 5))
@settings(max_examples=examples(20), deadline=None)
def test_nobody_starves_behind_a_stream_of_others(gap_s: int, short: int) -> None:
    """One core, ever shorter jobs that keep it busy: with a patience the long one runs all the same."""
    wanted = JobSettings(queue="sjf", patience_ms=60 * S, retrying=Retrying(10 * S, 10**9))
    told = Told(site(seen("a/1", cores=1, at_ms=1)), settings=wanted)
    told.tell(1, submitted(1, at_ms=1), submitted(2, at_ms=1, execution_ms=1_000 * S))
    running, now_ms = 1, 1
    for job_id in range(3, 3 + 60 // gap_s + 2):
        now_ms += gap_s * S
        told.tell(now_ms, submitted(job_id, at_ms=now_ms, execution_ms=short * S))
        told.tell(now_ms + 1, AttemptEnded(running, 1, 0))
        [(running, _, _)] = told.started
        if running == 2:
            return
    raise AssertionError("the long job never ran")


def test_a_job_is_too_late_when_it_could_not_be_done_in_time_any_more() -> None:
    told = Told(FULL).tell(1, submitted(at_ms=1, execution_ms=30 * S, deadline_ms=90 * S))
    assert told.scheduler.records[1].next_ms == 60 * S

    told.tell(60 * S, JobTick())

    assert told.closed == [(1, "refused", "too-late", 0)]


def test_a_job_that_could_not_even_begin_in_time_is_refused_at_once() -> None:
    told = Told(site(seen("a/1"))).tell(1, submitted(at_ms=1, execution_ms=30 * S, deadline_ms=30 * S))

    assert told.closed == [(1, "refused", "too-late", 0)]


def test_a_plan_that_a_site_does_not_take_is_a_not_now() -> None:
    told = Told(site(seen("a/1"))).tell(1, submitted(at_ms=1))

    told.tell(2, AttemptNotNow(1, 1, "no slot"))

    assert told.decided[0] == (1, "site-said-not-now", "no slot")
    assert told.looked_at == ["a/1"]
    assert told.scheduler.records[1].next_ms == 2 * MINUTE + 1
    assert told.scheduler.records[1].restarts == 0
    # The node is not believed until it is seen again, and the job waits for its time.
    assert told.tell(3, submitted(2, at_ms=3)).decided == [(2, "tried-again-later", "facts-too-old")]
    assert told.tell(4, site(seen("a/1", at_ms=4))).started == [(2, 1, ("a/1",))]
    assert told.tell(2 * MINUTE + 1, JobTick()).started == [(1, 2, ("a/1",))]


def test_facts_that_are_too_old_are_not_relied_upon() -> None:
    told = Told(site(seen("a/1", at_ms=1)), settings=JobSettings(fresh_for_ms=10 * S))

    told.tell(20 * S, submitted(at_ms=20 * S))

    assert told.decided == [(1, "tried-again-later", "facts-too-old")]


def test_a_cancelled_job_is_stopped_and_closed_at_once() -> None:
    told = Told(site(seen("a/1"))).tell(1, submitted(at_ms=1)).tell(2, AttemptRuns(1, 1))

    told.tell(3, JobCancelled(1))

    assert told.stopped == [(1, 1)]
    assert told.closed == [(1, "cancelled", "cancelled-by-user", 0)]
    assert told.tell(4, JobCancelled(1)).effects == []
    assert told.tell(5, AttemptEnded(1, 1, 0)).decided == [(1, "result-fenced", "")]


def test_a_cancelled_job_that_waits_is_closed_too() -> None:
    told = Told(FULL).tell(1, submitted(at_ms=1)).tell(2, JobCancelled(1))

    assert told.closed == [(1, "cancelled", "cancelled-by-user", 0)]


class TestMachinesRatherThanRefuse:
    """A node with all that is needed is in use, and a host has room: what becomes of a job in the end?"""

    BUSY_NODE_AND_HOST = site(
        seen("a/1", cores=2, free_cores=0, has={"r": "4"}, at_ms=1),
        seen("a/2", is_host=True, runs=False, at_ms=1),
    )

    def waited_in_vain(self, machines: Machines, *images: ImagesSeen) -> Told:
        told = Told(self.BUSY_NODE_AND_HOST, *images, settings=JobSettings(machines=machines))
        told.tell(1, submitted(at_ms=1, needs="r"))
        for minutes in (2, 4, 6):
            told.tell(minutes * MINUTE + 1, JobTick())
        return told

    def test_by_the_papers_rule_it_is_refused(self) -> None:
        told = self.waited_in_vain(Machines.FOR_WANT_OF_NODES, catalogue(image("r", {"r": "4"})))
        assert told.closed == [(1, "refused", "waited-too-long", 0)]

    def test_or_a_machine_is_made_at_last(self) -> None:
        told = self.waited_in_vain(Machines.RATHER_THAN_REFUSE, catalogue(image("r", {"r": "4"})))
        assert told.decided[-1][1] == "runs-in-machines"

    def test_of_an_image_that_is_built_for_it_and_used_at_once(self) -> None:
        told = self.waited_in_vain(Machines.RATHER_THAN_REFUSE, catalogue(buildable={"r": "4"}))
        [key] = told.built
        told.tell(7 * MINUTE, ImageBuilt(key, image(key, {"r": "4"})))
        assert told.decided[-1][1] == "runs-in-machines"

    def test_its_refusal_stays_where_no_image_can_be_had(self) -> None:
        told = self.waited_in_vain(Machines.RATHER_THAN_REFUSE, catalogue())
        assert told.closed == [(1, "refused", "waited-too-long", 0)]
