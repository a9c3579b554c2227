"""Images in the making: one build for all that need the same, and what follows when it fails."""

from tests.jobs.making import MINUTE, S, Told, catalogue, image, seen, site, submitted

from leasehold.jobs.events import AttemptEnded, ImageBuilt, ImageFailed, JobCancelled, JobTick
from leasehold.jobs.settings import JobSettings

KEY = "base+r=4.3"
R = image("with-r", {"r": "4.3"})


def building(**wishes: int) -> Told:
    told = Told(site(seen("a/1", is_host=True, at_ms=1)), catalogue(buildable={"r": "4.3"}))
    return told.tell(1, submitted(1, needs="r", at_ms=1, **wishes))


def test_a_job_waits_until_an_image_with_its_software_is_built() -> None:
    told = building()
    assert told.built == [KEY]
    assert told.decided == [(1, "image-is-built", KEY)]

    told.tell(5 * MINUTE, ImageBuilt(KEY, R))

    assert told.started == [(1, 1, ("a/1",))]
    assert told.decided == [(1, "runs-in-machines", "")]


def test_one_build_serves_all_that_need_the_same() -> None:
    told = building().tell(2, submitted(2, needs="r >= 4", at_ms=2))
    assert told.built == []

    told.tell(3, ImageBuilt(KEY, R))

    assert [job for job, _, _ in told.started] == [1, 2]


def test_the_tries_of_a_job_are_counted_from_when_its_image_is_there() -> None:
    told = building()
    told.tell(8 * MINUTE, site(seen("a/1", is_host=True, free_cores=0, at_ms=8 * MINUTE)))

    told.tell(9 * MINUTE, ImageBuilt(KEY, R))

    assert told.decided == [(1, "tried-again-later", "cores-in-use")]
    assert told.scheduler.records[1].next_ms == 11 * MINUTE


def test_a_build_that_fails_for_good_ends_its_jobs_with_the_reason() -> None:
    told = building().tell(9, ImageFailed(KEY, "no package r: see r.log"))

    assert told.decided == [(1, "image-failed", "no package r: see r.log")]
    assert told.closed == [(1, "refused", "image-failed", 0)]


def test_a_build_that_may_succeed_later_is_tried_again_in_time_and_then_given_up() -> None:
    told = building().tell(9, ImageFailed(KEY, "the repository does not answer", again=True))
    assert told.decided == [(1, "image-failed", "the repository does not answer")]
    assert told.built == []

    assert told.tell(2 * MINUTE + 1, JobTick()).built == [KEY]
    told.tell(6 * MINUTE + 2, ImageFailed(KEY, "the repository does not answer", again=True))
    assert told.closed == [(1, "refused", "image-failed", 0)]


def test_a_job_that_is_cancelled_or_too_late_waits_for_no_image() -> None:
    assert building().tell(2, JobCancelled(1)).closed == [(1, "cancelled", "cancelled-by-user", 0)]

    late = building(deadline_ms=400 * S, execution_ms=10 * S)
    assert late.tell(390 * S, JobTick()).closed == [(1, "refused", "too-late", 0)]
    assert late.tell(400 * S, ImageBuilt(KEY, R)).effects == []


def test_an_image_that_somebody_else_has_built_serves_as_well() -> None:
    told = building().tell(2, catalogue(R, buildable={"r": "4.3"}))

    assert told.started == [(1, 1, ("a/1",))]


def test_an_image_that_is_being_built_is_waited_for_whatever_can_be_built_then() -> None:
    for buildable in ({"r": "4.4"}, {}):
        told = building().tell(2, catalogue(buildable=buildable))
        assert (told.built, told.closed, told.started) == ([], [], [])
        assert told.tell(3, ImageBuilt(KEY, R)).started == [(1, 1, ("a/1",))]


def test_a_host_where_a_machine_with_the_image_is_still_warm_comes_first() -> None:
    """Without that the first by name does."""
    hosts = site(seen("a/1", is_host=True, at_ms=1), seen("a/2", is_host=True, at_ms=1))
    for warm_for_ms, host in ((0, "a/1"), (60 * S, "a/2")):
        told = Told(hosts, catalogue(R), settings=JobSettings(queue="fcfs", warm_for_ms=warm_for_ms))
        told.tell(1, submitted(1, needs="r", cores=4), submitted(2, needs="r", cores=4))
        told.tell(2, JobCancelled(1), AttemptEnded(2, 1, 0))

        assert told.tell(3, submitted(3, needs="r")).started == [(3, 1, (host,))]
        told.tell(4, JobCancelled(3))
        assert told.tell(62 * S, submitted(4, needs="r", at_ms=62 * S)).started == [(4, 1, ("a/1",))]


def test_an_image_that_has_not_what_it_was_built_for_is_not_built_for_ever() -> None:
    told = Told(site(seen("a/1", is_host=True, runs=False, at_ms=1)), catalogue(buildable={"r": "4"}))
    [key] = told.tell(1, submitted(at_ms=1, needs="r >= 4")).built

    told.tell(2, ImageBuilt(key, image(key, {"r": "3"})))

    assert told.built == []
    assert told.closed == [(1, "refused", "image-failed", 0)]
