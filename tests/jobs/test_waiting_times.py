"""How long one would wait at a node: measured, promised, used in weights and deadlines, and forgotten in time."""

from hypothesis import given
from hypothesis import strategies as st
from tests.jobs.making import MINUTE, S, Told, seen, site, submitted

from leasehold.jobs.events import AttemptEnded, AttemptFailed, AttemptRuns, AttemptStands, JobTick
from leasehold.jobs.job import AttemptState, Fault
from leasehold.jobs.nodes import NOTICEABLE_MS, WAITS_REMEMBERED, WaitingTimes
from leasehold.jobs.scheduler import JobScheduler
from leasehold.jobs.settings import JobSettings

LASTS_MS = 10 * MINUTE


def waited(ms: int, *nodes: str) -> Told:
    """A site with these nodes; on the first, an attempt waited so long and has ended since."""
    told = Told(site(*(seen(name) for name in nodes)), settings=JobSettings(waits_last_ms=LASTS_MS))
    told.tell(1_000, submitted(1, at_ms=1_000))
    assert told.started == [(1, 1, (nodes[0],))]
    told.tell(1_000 + ms, AttemptRuns(1, 1))
    told.tell(1_001 + ms, AttemptEnded(1, 1, 0))
    return told


class TestWhatWasMeasured:
    def test_makes_a_node_come_after_one_without_a_queue(self) -> None:
        told = waited(MINUTE, "a/1", "a/2")
        told.tell(2 * MINUTE, submitted(2, at_ms=2 * MINUTE))
        assert told.started == [(2, 1, ("a/2",))]

    def test_counts_against_a_deadline(self) -> None:
        told = waited(MINUTE, "a/1")
        late = submitted(2, at_ms=2 * MINUTE, deadline_ms=2 * MINUTE + 50 * S, execution_ms=10 * S)
        told.tell(2 * MINUTE, late)
        assert told.decided == [(2, "tried-again-later", "deadline-behind-queue")]
        in_time = submitted(3, at_ms=2 * MINUTE + 1, deadline_ms=3 * MINUTE + 11 * S, execution_ms=10 * S)
        told.tell(2 * MINUTE + 1, in_time)
        assert told.started == [(3, 1, ("a/1",))]

    def test_is_forgotten_in_time(self) -> None:
        told = waited(MINUTE, "a/1")
        at_ms = 1_000 + MINUTE + LASTS_MS
        told.tell(at_ms, submitted(2, at_ms=at_ms, deadline_ms=at_ms + 50 * S, execution_ms=10 * S))
        assert told.started == [(2, 1, ("a/1",))]

    def test_is_no_queue_where_machines_only_took_a_moment(self) -> None:
        told = waited(NOTICEABLE_MS - 1, "a/1")
        assert told.scheduler.waiting_ms("a/1") == 0

    def test_is_known_after_a_restart(self) -> None:
        told = waited(MINUTE, "a/1")
        again = JobScheduler(JobSettings(waits_last_ms=LASTS_MS))
        again.restore(told.scheduler.snapshot())
        again.handle([site(seen("a/1"))], 2 * MINUTE)
        assert again.waiting_ms("a/1") == MINUTE


class TestWhatGoesOn:
    def test_an_attempt_that_does_not_begin_shows_a_queue(self) -> None:
        told = Told(site(seen("a/1"), seen("a/2")))
        told.tell(0, submitted(1))
        told.tell(30 * S, JobTick())
        assert (told.scheduler.waiting_ms("a/1"), told.scheduler.waiting_ms("a/2")) == (30 * S, 0)
        told.tell(31 * S, AttemptFailed(1, 1, Fault.TAKEN_AWAY))
        assert told.scheduler.waiting_ms("a/1") == 0

    def test_what_a_site_has_promised_is_known_at_once(self) -> None:
        told = Told(site(seen("a/1")))
        told.tell(0, submitted(1))
        told.tell(1, AttemptStands(1, 1, AttemptState.QUEUED, "behind-others", begins_ms=10 * MINUTE))
        told.tell(2, submitted(2, at_ms=2, deadline_ms=5 * MINUTE, execution_ms=S))
        assert told.decided == [(2, "tried-again-later", "deadline-behind-queue")]


@given(st.lists(st.tuples(st.integers(0, 100), st.integers(0, 100)), max_size=20), st.integers(0, 300))
def test_it_is_the_upper_quartile_of_the_last_ones(waits: list[tuple[int, int]], later_s: int) -> None:
    """Three in four of them waited no longer, and it is the least such time; against counting."""
    times, now_ms, kept = WaitingTimes(100 * S), 0, list[tuple[int, int]]()
    for number, (pause_s, wait_s) in enumerate(waits):
        now_ms += pause_s * S
        times.ordered((number, 1), ("a/1",), now_ms - wait_s * S)
        times.begun((number, 1), ("a/1",), now_ms)
        kept = [*kept, (now_ms, wait_s * S)][-WAITS_REMEMBERED:]
        if all(wait_ms < NOTICEABLE_MS for _, wait_ms in kept):
            kept = []
    now_ms += later_s * S
    recent = [wait_ms for at_ms, wait_ms in kept if now_ms - at_ms < 100 * S]
    enough = [each for each in recent if 4 * sum(other <= each for other in recent) >= 3 * len(recent)]
    expected = min(enough, default=0)
    assert times.of("a/1", now_ms) == (expected if expected >= NOTICEABLE_MS else 0)
