"""Images built at sites with managers for the gateway's jobs: once, whoever dies and whatever lines do."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs
from tests.searching import examples
from tests.service.engine.job_worlds import job
from tests.service.messages.build_line import BuildWorld
from tests.service.messages.builders import GROMACS, KEY, Builder
from tests.service.messages.line import FAR, HOME

from leasehold.jobs.job import AttemptState, JobReason, JobState
from leasehold.service.commands import MessageBatch
from leasehold.service.drivers.facts import Buildable
from leasehold.service.engine.images import MOST_FAILED, MOST_ORDERED, NOTHING_BUILT, NOWHERE
from leasehold.service.engine.remote_jobs import ONLY_FOR_GATEWAYS
from leasehold.service.job_plans import plan_job
from leasehold.service.messages.about_jobs import (
    MOST_BYTES,
    BuildableTold,
    BuildTold,
    BuildWanted,
    ImagesTold,
    ImageTold,
)
from leasehold.service.messages.endpoints import GATEWAY

SAYS = ("sh", "-c", "echo 42; sleep 2")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[BuildWorld]:
    """Hosts beside both managers, an image of which nothing can be built at the gateway."""
    one = BuildWorld(tmp_path)
    yield one
    one.close()


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[BuildWorld]:
    """Only north builds images, and a build there lasts until a test says so."""
    one = BuildWorld(tmp_path, {"north": Builder(waits=True)})
    yield one
    one.close()


def wants(world: BuildWorld, *command: str, needs: str = "gromacs") -> int:
    return world.submit_job(*(command or SAYS), needs=needs)


def asked_of(world: BuildWorld, site: str) -> list[BuildWanted]:
    """What a site is asked to build, and does not know yet."""
    bodies = [row.body for row in world.gateway.store.messages(site, 0, 100)]
    return [BuildWanted.model_validate_json(body) for body in bodies if json.loads(body)["kind"] == "build"]


def lie(world: BuildWorld, site: str, *bodies: BuildTold | BuildableTold | ImagesTold) -> None:
    """A site says this, after what it has to tell anyway, and the gateway hears it."""
    live = world.sites[site]
    for body in bodies:
        live.engine.remote_sites.jobs._log.send(GATEWAY, body.model_dump(mode="json"), live.now_ms)
    live.do()
    world.exchange(site)


def check_that_it_goes_on(world: BuildWorld) -> None:
    """A job gets its image from north, and comes to its end."""
    number = wants(world)
    world.to_and_fro(1)
    world.finish("north")
    world.to_and_fro(5)
    assert world.state(number) is JobState.COMPLETED


class TestWhatCanBeBuilt:
    def test_it_is_told_with_its_base(self, world: BuildWorld) -> None:
        known = world.gateway.engine.jobs.images.buildable
        assert [known.at(name) for name in (*FAR, HOME)] == [Buildable("debian", GROMACS)] * 2 + [None]

    def test_it_is_told_again_when_it_changes_and_when_nothing_can_be_built_any_more(self, world: BuildWorld) -> None:
        for found in (Buildable("debian", frozenset({("julia", "1.9")})), None):
            world.builders["far"].buildable = found
            world.see_images()
            world.exchange("far")
            world.exchange("far")
            assert world.gateway.engine.jobs.images.buildable.at("far") == found
        assert {row.site for row in world.gateway.store.buildable()} == {"far", "north"}

    def test_a_repository_is_told_in_parts_and_counts_when_all_are_there(self, world: BuildWorld) -> None:
        many = frozenset((f"package-{number}", "1.0-1") for number in range(20_000))
        world.builders["far"].buildable = Buildable("debian", many)
        world.see_images()
        sizes, at = list[int](), world.gateway.engine.jobs.images.buildable.at
        while True:
            waiting = [row.body for row in world.sites["far"].store.messages(GATEWAY, 0, 100)]
            told = [body for body in waiting if json.loads(body)["kind"] == "buildable"]
            if not told:
                break
            assert len(told) == 1, "one at a time"
            sizes += map(len, told)
            assert at("far") == Buildable("debian", GROMACS), "the last that was told whole"
            world.exchange("far")
            if len(sizes) % 2:
                world.restart(GATEWAY)
                at = world.gateway.engine.jobs.images.buildable.at
            world.exchange("far")
        assert len(sizes) == 3
        assert max(sizes) < MOST_BYTES
        assert at("far") == Buildable("debian", many)
        listings = {row.listing for row in world.gateway.store.buildable() if row.site == "far"}
        assert len(listings) == 1, "what was told before is gone"

    def test_a_manager_that_is_killed_meanwhile_begins_again(self, world: BuildWorld) -> None:
        many = frozenset((f"package-{number}", "1.0-1") for number in range(10_000))
        world.builders["far"].buildable = Buildable("debian", many)
        world.see_images()
        world.exchange("far")
        world.restart("far")
        for _ in range(8):
            world.exchange("far")
        assert world.gateway.engine.jobs.images.buildable.at("far") == Buildable("debian", many)

    def test_what_cannot_be_told_is_not_and_the_rest_is(self, world: BuildWorld) -> None:
        odd = frozenset({("a\0", "1"), ("", "1"), ("long", "1" * 500), ("b\nc", "2"), ("fine", "1")})
        world.builders["far"].buildable = Buildable("debian", odd)
        world.see_images()
        world.exchange("far")
        world.exchange("far")
        found = world.gateway.engine.jobs.images.buildable.at("far")
        assert found == Buildable("debian", frozenset({("fine", "1")}))

    def test_a_gateway_that_is_killed_knows_it_and_the_images_still(self, world: BuildWorld) -> None:
        world.restart(GATEWAY)
        world.exchange_all()  # nothing of it is told again
        wants(world)
        assert world.state() is JobState.BUILDING

    def test_a_site_that_is_forgotten_builds_nothing(self, world: BuildWorld) -> None:
        world.gateway.engine.jobs.forget_site("far")
        world.gateway.do()
        assert world.gateway.engine.jobs.images.buildable.at("far") is None
        assert {row.site for row in world.gateway.store.buildable()} == {"north"}


class TestBuilding:
    def test_an_image_is_built_where_a_manager_can_and_the_job_runs_in_a_machine_with_it(
        self, alone: BuildWorld
    ) -> None:
        wants(alone)
        record = alone.job().record
        assert (record.state, record.reason, record.what) == (JobState.BUILDING, JobReason.IMAGE_IS_BUILT, KEY)
        [wanted] = asked_of(alone, "north")
        assert (wanted.base, wanted.packages) == ("debian", (("gromacs", "2022.5"),))
        assert alone.images() == [("debian", "north", "there"), (KEY, "north", "building")]
        alone.to_and_fro(2)
        assert alone.images("north") == [("debian", "north", "there"), (KEY, "north", "building")]
        alone.finish("north")
        alone.exchange("north")
        assert alone.images() == [("debian", "north", "there"), ("debian-gromacs", "north", "there")]
        assert [node for node, *_ in alone.tried()] == ["north/n1"]
        assert alone.attempts()[0].attempt.image == "debian-gromacs"
        alone.check_the_end("42\n")
        alone.check_that_nothing_is_left()
        assert alone.state() is JobState.COMPLETED
        assert alone.builders["north"].built == [GROMACS]

    def test_it_is_built_at_each_site_that_can_and_the_first_serves(self, world: BuildWorld) -> None:
        world.builders["far"].waits = True
        wants(world)
        assert [len(asked_of(world, name)) for name in FAR] == [1, 1]
        world.to_and_fro(2)
        assert [node for node, *_ in world.tried()] == ["north/n1"]
        assert (KEY, "far", "building") in world.images()
        world.check_the_end("42\n")
        world.check_that_nothing_is_left()
        assert sorted(world.images()) == [
            (name, site, "there") for name in ("debian", "debian-gromacs") for site in ("far", "north")
        ]

    def test_all_jobs_that_need_the_same_wait_for_one_build(self, alone: BuildWorld) -> None:
        for _ in range(3):
            wants(alone)
        assert len(asked_of(alone, "north")) == 1
        alone.to_and_fro(1)
        alone.finish("north")
        alone.to_and_fro(12)
        assert [alone.state(number) for number in (1, 2, 3)] == [JobState.COMPLETED] * 3
        assert alone.builders["north"].built == [GROMACS]

    def test_a_job_of_the_site_itself_waits_for_the_same_build(self, alone: BuildWorld) -> None:
        alone.sites["north"].do(job("gromacs"))
        alone.errands()
        wants(alone)
        alone.to_and_fro(2)
        [row] = [row for row in alone.image_rows("north") if row.state == "building"]
        assert row.asked == ((GATEWAY, KEY),)
        alone.finish("north")
        alone.to_and_fro(6)
        assert alone.builders["north"].built == [GROMACS]
        assert alone.state() is JobState.COMPLETED
        own = alone.sites["north"].store.job(1)
        assert own is not None
        assert own.record.state is not JobState.BUILDING

    def test_an_image_that_the_gateway_could_build_is_not_asked_of_who_has_it_in_another_version(
        self, tmp_path: Path
    ) -> None:
        other = frozenset({("gromacs", "2023.1")})
        world = BuildWorld(tmp_path, {HOME: Builder(), "north": Builder(Buildable("debian", other))})
        wants(world)
        assert asked_of(world, "north") == []
        assert world.builders[HOME].built == [GROMACS]
        wants(world, needs="gromacs>=2023")
        world.to_and_fro(2)
        assert world.builders["north"].built == [other]
        world.close()

    def test_what_is_too_large_for_hosts_of_the_gateway_is_built_where_it_fits(self, tmp_path: Path) -> None:
        """Whatever could be built at the gateway: its host has two cores."""
        newer = frozenset({("gromacs", "2023.1")})
        world = BuildWorld(tmp_path, {HOME: Builder(), "north": Builder(Buildable("debian", newer))})
        world.submit_job(*SAYS, needs="gromacs", cores=3)
        assert (world.state(), world.job().record.what) == (JobState.BUILDING, "debian+gromacs=2023.1")
        world.see_images()
        assert len(asked_of(world, "north")) == 1
        world.to_and_fro(6)
        assert world.state() is JobState.COMPLETED
        assert (world.builders[HOME].built, world.builders["north"].built) == ([], [newer])
        world.close()

    def test_an_image_of_one_site_is_built_at_another_where_there_is_room(self, world: BuildWorld) -> None:
        world.builders["far"].flaw = "no space left"
        world.submit_job("sleep", "300", needs="gromacs", cores=3, runs_s=300)
        world.to_and_fro(2)
        assert [node for node, *_ in world.tried()] == ["north/n1"]
        world.builders["far"].flaw = ""
        wants(world)
        assert [(node, state) for node, state, _ in world.tried(2)] == [("far/f1", AttemptState.FENCED)]
        assert world.attempts(2)[0].attempt.detail == "far has not the image debian-gromacs yet"
        assert [wanted.key for wanted in asked_of(world, "far")] == ["debian-gromacs"]
        world.to_and_fro(6, 30_000)
        assert ("debian-gromacs", "far", "there") in world.images()
        assert [node for node, *_ in world.tried(2)] == ["far/f1", "far/f1"]
        world.to_and_fro(4)
        assert world.state(2) is JobState.COMPLETED

    def test_a_plan_says_that_it_builds_and_where(self, alone: BuildWorld) -> None:
        plan = plan_job(alone.gateway.engine, job("gromacs"))
        [chosen] = plan.outcome.chosen
        assert plan.outcome.state is JobState.BUILDING
        assert "builds" in plan.outcome.consequences
        assert (chosen.site, chosen.nodes, chosen.builds) == ("north", ("north/n1",), (("gromacs", "2022.5"),))


class TestFailing:
    def test_one_that_cannot_be_built_anywhere_is_refused_with_why(self, world: BuildWorld) -> None:
        for builder in world.builders.values():
            builder.flaw = "gromacs: unmet dependency; see build.log"
        wants(world)
        world.to_and_fro(2)
        record = world.job().record
        assert (record.state, record.reason) == (JobState.REFUSED, JobReason.IMAGE_FAILED)
        assert record.what == "gromacs: unmet dependency; see build.log"
        assert [row.problem for row in world.image_rows() if row.state == "failed"] == [record.what] * 2
        world.check_that_nothing_is_left()

    def test_where_one_site_fails_another_serves(self, world: BuildWorld) -> None:
        world.builders["north"].flaw = "no space left"
        wants(world)
        world.exchange("north")
        world.exchange("north")
        assert world.state() is JobState.BUILDING
        world.check_the_end("42\n")
        assert [node for node, *_ in world.tried()] == ["far/f1"]

    @pytest.mark.parametrize(
        ("buildable", "why"),
        [
            (Buildable("rocky", GROMACS), "images are built from rocky, not from debian"),
            (Buildable("debian", frozenset()), "gromacs 2022.5 cannot be put into an image"),
            (None, NOTHING_BUILT),
        ],
    )
    def test_what_can_no_more_be_built_when_it_is_asked_for_is_tried_again(
        self, alone: BuildWorld, buildable: Buildable | None, why: str
    ) -> None:
        wants(alone)
        alone.builders["north"].buildable = buildable
        alone.see_images()
        alone.to_and_fro(2)
        record = alone.job().record
        assert (record.state, record.reason, record.what) == (JobState.WAITING, JobReason.IMAGE_FAILED, why)
        alone.builders["north"].buildable = Buildable("debian", GROMACS)
        alone.see_images()
        alone.check_the_end("42\n")
        assert alone.state() is JobState.COMPLETED

    def test_a_build_that_is_under_way_comes_to_its_end_whatever_can_be_built_then(self, alone: BuildWorld) -> None:
        wants(alone)
        alone.to_and_fro(2)
        alone.builders["north"].buildable = None
        alone.see_images()
        alone.to_and_fro(2)
        alone.restart(GATEWAY)
        alone.to_and_fro(2)
        assert alone.state() is JobState.BUILDING
        alone.finish("north")
        alone.check_the_end("42\n")
        assert alone.state() is JobState.COMPLETED

    def test_a_site_builds_no_more_than_so_many_at_once_for_its_gateway(self, alone: BuildWorld) -> None:
        packages = frozenset((f"p{number}", "1") for number in range(MOST_ORDERED + 1))
        alone.builders["north"].buildable = Buildable("debian", packages)
        alone.see_images()
        alone.to_and_fro(1)
        for number in range(MOST_ORDERED + 1):
            wants(alone, needs=f"p{number}")
        alone.to_and_fro(3)
        waiting = [alone.job(number).record for number in range(1, MOST_ORDERED + 2)]
        [turned_away] = [one for one in waiting if one.state is JobState.WAITING]
        assert turned_away.what == f"more than {MOST_ORDERED} images are wanted at once"
        for record in waiting:
            if record is not turned_away:
                alone.cancel_job(record.id)
        alone.builders["north"].waits = False
        alone.to_and_fro(7, 30_000)
        assert set(alone.builders["north"].built) == {frozenset([one]) for one in packages}
        alone.check_that_nothing_is_left()

    def test_of_builds_that_failed_the_last_are_remembered(self, alone: BuildWorld) -> None:
        packages = frozenset((f"p{number}", "1") for number in range(MOST_FAILED + 5))
        alone.builders["north"] = replace(
            alone.builders["north"], buildable=Buildable("debian", packages), flaw="no", waits=False
        )
        alone.see_images()
        alone.to_and_fro(1)
        for number in range(MOST_FAILED + 5):
            wants(alone, needs=f"p{number}")
            if number % MOST_ORDERED == MOST_ORDERED - 1:
                alone.to_and_fro(2)
        alone.to_and_fro(2)
        for name in (HOME, "north"):
            assert len([row for row in alone.image_rows(name) if row.state == "failed"]) == MOST_FAILED

    def test_a_manager_that_falls_silent_fails_what_it_builds_for_now_and_may_still_answer(
        self, alone: BuildWorld
    ) -> None:
        wants(alone)
        alone.to_and_fro(2)
        alone.fall_silent("north")
        record = alone.job().record
        assert (record.state, record.reason) == (JobState.WAITING, JobReason.IMAGE_FAILED)
        assert record.what == "north does not answer: its manager does not call"
        alone.finish("north")
        alone.to_and_fro(1)
        assert ("debian-gromacs", "north", "there") in alone.images()
        alone.check_the_end("42\n")
        assert alone.builders["north"].built == [GROMACS]
        alone.check_that_nothing_is_left()

    def test_a_silent_one_is_asked_for_nothing(self, world: BuildWorld) -> None:
        """As long as another can do it; and where none can, nodes are waited for."""
        world.fall_silent("north")
        wants(world)
        assert (len(asked_of(world, "far")), asked_of(world, "north")) == (1, [])
        world.fall_silent("far")
        assert world.job().record.reason is JobReason.IMAGE_FAILED
        wants(world)
        assert (world.state(2), world.job(2).record.reason) == (JobState.WAITING, JobReason.NODES_DOWN)
        world.make_whole()
        assert {world.state(number) for number in (1, 2)} == {JobState.COMPLETED}
        world.check_that_nothing_is_left()

    def test_a_site_that_is_forgotten_meanwhile_fails_it_for_now(self, alone: BuildWorld) -> None:
        wants(alone)
        alone.gateway.engine.jobs.forget_site("north")
        alone.gateway.do()
        assert (alone.job().record.reason, alone.job().record.what) == (JobReason.IMAGE_FAILED, NOWHERE)

    def test_who_gives_the_job_up_lets_the_image_be_built_for_others(self, alone: BuildWorld) -> None:
        wants(alone)
        alone.to_and_fro(1)
        alone.cancel_job(1)
        assert alone.state() is JobState.CANCELLED
        alone.finish("north")
        alone.to_and_fro(2)
        assert ("debian-gromacs", "north", "there") in alone.images()
        alone.check_that_nothing_is_left()


class TestLies:
    def test_an_image_without_what_was_asked_for_has_failed(self, alone: BuildWorld) -> None:
        wants(alone)
        lie(alone, "north", BuildTold(key=KEY, image=_told(name="debian-gromacs", software=())))
        record = alone.job().record
        assert (record.state, record.reason) == (JobState.REFUSED, JobReason.IMAGE_FAILED)
        assert record.what == "north says that it has built debian-gromacs, and gromacs 2022.5 is not in it"
        assert ("debian-gromacs", "north", "there") not in alone.images()

    def test_an_image_of_another_name_that_is_being_built_has_failed(self, alone: BuildWorld) -> None:
        packages = GROMACS | {("julia", "1.9")}
        alone.builders["north"].buildable = Buildable("debian", packages)
        alone.see_images()
        alone.to_and_fro(2)
        wants(alone)
        wants(alone, needs="julia")
        other = _told(name="debian+julia=1.9", software=tuple(GROMACS))
        lie(alone, "north", BuildTold(key=KEY, image=other), ImagesTold(images=(other,), names=("debian", other.name)))
        assert alone.state() is JobState.REFUSED
        assert alone.job().record.what.endswith("and that is what another one is called that it is building")
        assert alone.state(2) is JobState.BUILDING

    @pytest.mark.parametrize("key", ["debian+julia=1.9", "", "debian", "x" * 9_999])
    def test_what_nobody_has_asked_for_says_nothing_but_that(self, alone: BuildWorld, key: str) -> None:
        image = _told(name="debian-julia", software=(("julia", "1.9"),))
        before = alone.images()
        for told in (BuildTold(key=key, image=image), BuildTold(key=key, problem="no space left")):
            with capture_logs() as logs:
                lie(alone, "north", told)
            assert [line["event"] for line in logs] == ["nobody has asked for the image that was built"]
        assert alone.images() == before
        check_that_it_goes_on(alone)

    def test_nor_does_a_second_answer(self, alone: BuildWorld) -> None:
        wants(alone)
        alone.to_and_fro(1)
        alone.finish("north")
        alone.to_and_fro(1)
        before = alone.images()
        lie(alone, "north", BuildTold(key=KEY, problem="it was nothing"))
        assert alone.images() == before
        assert not alone.state().is_final

    def test_a_site_answers_for_itself_alone(self, alone: BuildWorld) -> None:
        wants(alone)
        lie(alone, "far", BuildTold(key=KEY, problem="no space left"))
        assert alone.state() is JobState.BUILDING

    def test_nothing_is_built_from_a_base_that_nobody_has(self, alone: BuildWorld) -> None:
        lie(alone, "far", _listed(base="rocky", packages=(("julia", "1.9"),)))
        wants(alone, needs="julia")
        assert (alone.state(), alone.job().record.what) == (JobState.REFUSED, "no-image: julia")

    @pytest.mark.parametrize(
        "parts",
        [
            [{"part": 1}],
            [{"part": 0}, {"part": 2}],
            [{"part": 0}, {"part": 1, "listing": 8}],
            [{"part": 0}, {"part": 1, "parts": 2}],
            [{"part": 0}, {"part": 1, "base": "rocky"}],
            [{"part": 0}, {"part": 1}, {"part": 1}, {"part": 2, "parts": 4}],
        ],
    )
    def test_parts_that_do_not_follow_each_other_say_nothing(
        self, alone: BuildWorld, parts: list[dict[str, int]]
    ) -> None:
        with capture_logs() as logs:
            lie(alone, "north", *(_listed(**{"parts": 3, **part}) for part in parts))
        assert logs[-1]["why"] == "a part that does not follow the one before"
        assert alone.gateway.engine.jobs.images.buildable.at("north") == Buildable("debian", GROMACS)
        check_that_it_goes_on(alone)

    def test_a_listing_that_was_told_whole_is_not_told_once_more(self, alone: BuildWorld) -> None:
        for packages in ((("julia", "1.9"),), (("julia", "2.0"),)):
            lie(alone, "north", _listed(packages=packages))
        found = alone.gateway.engine.jobs.images.buildable.at("north")
        assert found == Buildable("debian", frozenset({("julia", "1.9")}))

    def test_who_is_not_the_gateway_of_a_site_has_nothing_built_there(self, alone: BuildWorld) -> None:
        wanted = BuildWanted(key="k", base="debian", packages=tuple(GROMACS))
        live = alone.gateway
        _, received = live.store.message_numbers("far")
        live.do(MessageBatch("far", ((received + 1, wanted.model_dump_json()),), 0, alone.about("far")))
        told = [row.body for row in live.store.messages("far", 0, 100) if json.loads(row.body)["kind"] == "built"]
        [answer] = map(BuildTold.model_validate_json, told)
        assert (answer.key, answer.problem, answer.image) == ("k", ONLY_FOR_GATEWAYS, None)
        alone.exchange("far")
        alone.check()


def _told(**said: object) -> ImageTold:
    return ImageTold.model_validate({"software": (), "size_bytes": 5, "least_memory_mib": 1, **said})


def _listed(**said: object) -> BuildableTold:
    return BuildableTold.model_validate({"listing": 7, "part": 0, "parts": 1, "base": "debian", "packages": (), **said})


STEPS = 9
"""More exchanges than it takes until an image is built, and the job has run in a machine with it."""


@pytest.mark.storm
@pytest.mark.parametrize("who", [GATEWAY, "north"])
@pytest.mark.parametrize("lost", [False, True], ids=["killed", "cut-off"])
@pytest.mark.parametrize("is_over_at", [2, 5])
def test_whoever_is_killed_at_whatever_step_an_image_is_built_and_the_job_is_done_once(
    tmp_path: Path,
    who: str,
    lost: bool,  # noqa: FBT001 - it is a case
    is_over_at: int,
) -> None:
    for number in range(STEPS):
        folder = tmp_path / str(number)
        folder.mkdir()
        world = BuildWorld(folder, {"north": Builder(waits=True)})
        wants(world)
        for step in range(STEPS):
            if step == is_over_at:
                world.finish("north")
            if step == number:
                world.interrupt(who, "north", lost=lost)
            else:
                world.exchange("north")
            world.pass_time(700)
            world.check()
        world.check_the_end("42\n")
        assert world.state() is JobState.COMPLETED
        assert len(world.attempts()) == 1
        assert len(world.builders["north"].built) == 1
        world.check_that_nothing_is_left()
        world.close()


def happen(world: BuildWorld, action: str, which: int) -> None:
    """Let one thing happen; ``which`` says to what, where there are several."""
    what, _, name = action.partition(" ")
    match what:
        case "look":
            world.happen(action, which)
            world.see_images()
        case "finish":
            world.finish(name)
        case "fails":
            world.builders[name].flaw = "" if world.builders[name].flaw else "no space left"
        case "buildable":
            found = [Buildable("debian", GROMACS), Buildable("debian", GROMACS | {("bc", "1")}), None]
            world.builders[name].buildable = found[which % 3]
        case "job":
            wants(world)
        case "cancel":
            world.cancel_job(1)
        case _:
            world.happen(action, which)


_ACTIONS = st.sampled_from(
    [
        *("call far", "call north", "deliver", "deliver again", "lose", "job", "cancel"),
        *("kill gateway", "kill far", "kill north", "look far", "look north"),
        *("finish far", "finish north", "fails far", "fails north", "buildable far", "buildable north"),
        *("silent far", "silent north", "pass 100", "pass 1000", "pass 130000"),
    ]
)


@given(st.lists(st.tuples(_ACTIONS, st.integers(0, 9)), max_size=30))
@settings(max_examples=examples(20))
def test_whatever_the_line_does_nobody_waits_for_an_image_for_ever(actions: list[tuple[str, int]]) -> None:
    with TemporaryDirectory() as folder:
        world = BuildWorld(Path(folder), {name: Builder(waits=True) for name in FAR})
        wants(world)
        for action, which in actions:
            happen(world, action, which)
            world.errands()
            world.check()
        world.make_whole()
        world.check()
        world.check_that_nothing_ran_twice()
        assert world.is_quiet()
        world.check_that_nothing_is_left()
        for name in FAR:
            own = {row.name for row in world.image_rows(name) if row.state == "there"}
            assert own == {row.name for row in world.image_rows() if (row.site, row.state) == (name, "there")}
        world.close()
