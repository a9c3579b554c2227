"""Images at peers, over one hop and over two: used, built once, and refused with a reason, whoever dies or lies."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs
from tests.searching import examples
from tests.service.engine.job_worlds import job
from tests.service.messages.builders import DEBIAN, GROMACS, Builder
from tests.service.peers.build_peers import HOSTS, BuildPeers
from tests.service.peers.triangle import site_of

from leasehold.gateway.peering import AskWhen
from leasehold.jobs.job import AttemptState, JobReason, JobState
from leasehold.matching.needs import Amounts, Job, Needs
from leasehold.matching.software import software
from leasehold.matching.verdict import Why
from leasehold.service.commands import MessageBatch, RemovePeer
from leasehold.service.drivers.facts import Buildable
from leasehold.service.engine.images import MOST_ORDERED, NOTHING_BUILT, NOWHERE
from leasehold.service.jobs import OWN_FIRST, verdicts
from leasehold.service.messages.about_jobs import (
    MOST_PARTS,
    MOST_PARTS_OF_A_PEER,
    BuildableTold,
    BuildTold,
    BuildWanted,
    ImagesTold,
    ImageTold,
)
from leasehold.service.messages.endpoints import asking
from leasehold.service.messages.site_status import MOST_IMAGES

SAYS = ("sh", "-c", "echo 42; sleep 2")
AT_B, AT_C = ("b:debian", "b:site-b", "there"), ("b:c:debian", "b:c:site-c", "there")
KEY_AT_B, KEY_AT_C = "b:debian+gromacs=2022.5", "b:c:debian+gromacs=2022.5"
RING = tuple(permutations(HOSTS, 2))

Make = Callable[..., BuildPeers]


@pytest.fixture
def worlds(tmp_path: Path) -> Iterator[Make]:
    """Make worlds in which these build images."""
    made: list[BuildPeers] = []

    def make(builders: dict[str, Builder], **said: object) -> BuildPeers:
        folder = tmp_path / str(len(made))
        folder.mkdir()
        made.append(BuildPeers(folder, builders, **said))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def world(worlds: Make) -> BuildPeers:
    """Hosts and images one hop away, and two."""
    return worlds({"b": Builder(), "c": Builder()})


@pytest.fixture
def near(worlds: Make) -> BuildPeers:
    """Only the next one builds images, and a build lasts until a test says so."""
    return worlds({"b": Builder(waits=True)})


@pytest.fixture
def afar(worlds: Make) -> BuildPeers:
    """The same two hops away."""
    return worlds({"c": Builder(waits=True)})


def wants(world: BuildPeers, needs: str = "gromacs", at: str = "a") -> int:
    return world.submit_job(*SAYS, needs=needs, at=at)


def is_asked(world: BuildPeers, by: str, at: str) -> list[BuildWanted]:
    """What one asks a peer to build, and that does not know yet."""
    bodies = [row.body for row in world.stores[by].messages(at, 0, 100)]
    return [BuildWanted.model_validate_json(body) for body in bodies if json.loads(body)["kind"] == "build"]


def is_answered(world: BuildPeers, by: str, to: str) -> list[BuildTold]:
    """What one says to a peer about builds, and that has not heard yet."""
    bodies = [row.body for row in world.stores[by].messages(asking(to), 0, 100)]
    return [BuildTold.model_validate_json(body) for body in bodies if json.loads(body)["kind"] == "built"]


class TestImages:
    def test_those_of_peers_are_known_and_those_of_their_peers(self, world: BuildPeers) -> None:
        assert world.images() == [AT_C, AT_B]
        assert {name: row.is_host for name, row in world.nodes().items()} == {
            "site-a/n1": False, "b:site-b/h1": True, "b:site-b/h2": True, "b:c:site-c/h1": True
        }  # fmt: skip

    @pytest.mark.parametrize(("builder", "at"), [("b", "b"), ("c", "c")], ids=["one hop", "two hops"])
    def test_a_job_runs_in_a_machine_where_its_image_is_and_its_result_comes_back(
        self, worlds: Make, builder: str, at: str
    ) -> None:
        world = worlds({builder: Builder()})
        world.submit_job("sh", "-c", "echo 42; sleep 2; exit 3", needs="python3")
        assert world.attempts()[0].attempt.image == {"b": "b:debian", "c": "b:c:debian"}[at]
        world.to_and_fro(8)
        assert (world.state(), world.job().exit_status) == (JobState.FAILED, 3)
        wrote = world.output()
        assert wrote is not None
        assert (wrote.text, wrote.is_whole) == ("42\n", True)
        where, row = world.where_it_ran(world.attempts()[0].lease_id or 0)
        assert (where, row.lease.site, row.metadata.constraints.image) == (at, site_of(at), "debian")

    def test_the_nearest_one_is_used(self, world: BuildPeers) -> None:
        wants(world, "python3")
        assert world.attempts()[0].attempt.image == "b:debian"

    @pytest.mark.parametrize("there", [[DEBIAN], []], ids=["it is there", "it is built"])
    def test_ones_own_come_first_even_if_they_have_to_be_built(self, worlds: Make, there: list[object]) -> None:
        """The image that the peer has is no reason to go there."""
        ready = replace(DEBIAN, name="ready", software=DEBIAN.software | GROMACS)
        world = worlds({"a": Builder(), "b": Builder(there=[DEBIAN, ready])})
        wants(world, "python3" if there else "gromacs")
        assert {nodes for nodes, _, _ in world.tried()} == {("site-a/n1",)}
        world.check_the_end("42\n")

    def test_with_terms_that_say_so_peers_are_asked_as_soon_as_ones_own_hosts_are_used(self, worlds: Make) -> None:
        for ask, second in ((AskWhen.NONE_CAN, JobState.WAITING), (AskWhen.NONE_CAN_NOW, JobState.STARTING)):
            world = worlds({"a": Builder(), "b": Builder()}, ask=ask)
            world.submit_job("sleep", "60", needs="python3", cores=2, runs_s=60)
            world.submit_job("true", needs="python3")
            assert (world.tried()[0][0], world.state(2)) == (("site-a/n1",), second)

    def test_an_image_of_the_same_name_is_another_one(self, worlds: Make) -> None:
        """What the peer has put into its own is not in ours."""
        richer = replace(DEBIAN, software=DEBIAN.software | GROMACS)
        world = worlds({"a": Builder(buildable=None), "b": Builder(there=[richer])})
        wants(world)
        assert (world.tried()[0][0], world.attempts()[0].attempt.image) == (("b:site-b/h1",), "b:debian")

    def test_an_image_of_ones_own_that_is_called_like_one_of_a_peer_is_none_of_that(self, worlds: Make) -> None:
        richer = replace(DEBIAN, software=DEBIAN.software | GROMACS)
        world = worlds({"a": Builder(None, [replace(richer, name="b:debian")]), "b": Builder(None)})
        [image] = world.gateways["a"].engine.jobs.scheduler._state.images.catalogue.find((software("gromacs"),))
        assert image.places == {"site-a"}
        wants(world)
        assert world.tried()[0][0] == ("site-a/n1",)

    def test_no_further_than_the_terms_of_both_ends_allow(self, worlds: Make) -> None:
        world = worlds({"b": Builder(), "c": Builder()}, hops=1)
        assert world.images() == [AT_B]
        world.hops = 2
        for name, other in (("b", "a"), ("b", "c"), ("c", "b")):
            world.agree(name, other)
        world.to_and_fro(4)
        assert world.images() == [AT_B], "the terms of the first allow one hop"
        world.agree("a", "b")
        world.to_and_fro(4)
        assert world.images() == [AT_C, AT_B], "all of it is told once more"
        assert world.gateways["a"].engine.jobs.images.buildable.at("b:c:site-c") == Buildable("b:c:debian", GROMACS)
        world.hops = 1
        world.agree("a", "b")
        world.to_and_fro(2)
        assert world.images() == [AT_B]
        assert {row.site for row in world.stores["a"].buildable()} == {"b:site-b"}

    def test_nobody_hears_of_its_own_and_the_shortest_way_is_taken(self, worlds: Make) -> None:
        world = worlds({"b": Builder(None), "c": Builder()}, ways=RING, hops=7)
        for name in HOSTS:
            assert not any(site.endswith(f":{site_of(name)}") for _, site, _ in world.images(name))
        assert ("b:c:debian", "b:c:site-c", "there") in world.images()
        wants(world)
        assert world.job().record.what == "c:debian+gromacs=2022.5"
        world.check_the_end("42\n")
        assert world.tried()[0][0] == ("c:site-c/h1",)

    def test_one_that_is_gone_is_refused_with_why_and_the_job_goes_elsewhere(self, world: BuildPeers) -> None:
        world.builders["b"].there = []
        world.see_images()  # and nobody is told, yet
        wants(world, "python3")
        assert world.attempts()[0].attempt.image == "b:debian"
        world.to_and_fro(10)
        first = world.attempts()[0].attempt
        assert first.state is AttemptState.FENCED
        assert "placed.image" in first.detail
        assert "an image that is at site-b" in first.detail
        assert (world.state(), world.job().record.restarts) == (JobState.COMPLETED, 0)
        assert world.attempts()[-1].attempt.image == "b:c:debian"
        assert world.images() == [AT_C]

    def test_one_that_is_gone_further_away_is_refused_there(self, afar: BuildPeers) -> None:
        afar.builders["c"].there = []
        afar.see_images()
        wants(afar, "python3")
        afar.exchange("b", "a")
        afar.exchange("c", "b")
        afar.to_and_fro(4)
        assert "an image that is at" in afar.attempts()[0].attempt.detail
        assert (afar.state(), afar.job().record.what) == (JobState.REFUSED, "no-image: python3")

    @pytest.mark.parametrize("who", HOSTS)
    def test_nothing_is_lost_when_one_is_killed(self, world: BuildPeers, who: str) -> None:
        before = {name: world.images(name) for name in HOSTS}
        world.pass_time(1_000)
        world.restart(who)
        world.to_and_fro(4)
        assert {name: world.images(name) for name in HOSTS} == before
        wants(world)
        world.to_and_fro(10)
        assert world.state() is JobState.COMPLETED

    def test_images_that_went_while_one_was_away_are_known_no_more(self, world: BuildPeers) -> None:
        world.builders["b"].there, world.builders["b"].buildable = [], None
        world.restart("b")
        world.to_and_fro(4)
        assert world.images() == [AT_C]
        assert world.gateways["a"].engine.jobs.images.buildable.at("b:site-b") is None

    def test_only_what_has_changed_is_told_and_one_message_at_a_time(self, world: BuildPeers) -> None:
        world.to_and_fro(3)
        for number in range(3):
            world.builders["b"].there.append(replace(DEBIAN, name=f"more-{number}"))
            world.see_images()
        bodies = [json.loads(row.body) for row in world.stores["b"].messages(asking("a"), 0, 100)]
        [left] = [body for body in bodies if body["kind"] == "images"]
        assert [image["name"] for image in left["images"]] == ["site-b/more-0"]
        world.to_and_fro(3)
        assert ("b:more-2", "b:site-b", "there") in world.images()
        for _ in range(20):
            world.exchange_all()
        assert not any(
            world.stores[by].messages(to, 0, 10) for by in HOSTS for other in HOSTS for to in (other, asking(other))
        )

    def test_what_cannot_be_told_is_not_and_the_rest_is(self, worlds: Make) -> None:
        odd = [replace(DEBIAN, name=name) for name in ("", "a\nb", "x" * 195)]
        world = worlds({"b": Builder(there=[*odd, DEBIAN])})
        assert world.images() == [AT_B]

    def test_no_more_than_so_many_are_told(self, worlds: Make) -> None:
        many = [replace(DEBIAN, name=f"i{number:04}") for number in range(MOST_IMAGES + 5)]
        world = worlds({"b": Builder(there=many)})
        world.to_and_fro(2)
        assert [name for name, _, _ in world.images()] == [f"b:i{number:04}" for number in range(MOST_IMAGES)]

    def test_a_peer_that_is_removed_has_none(self, world: BuildPeers) -> None:
        both = frozenset({"b", "a", asking("a"), asking("b")})
        world.do("a", RemovePeer("b", both, "operator"))
        assert world.images() == []
        assert world.stores["a"].buildable() == []
        wants(world)
        assert (world.state(), world.job().record.what) == (JobState.REFUSED, "no-image: gromacs")

    def test_so_has_one_whose_peer_has_removed_it(self, world: BuildPeers) -> None:
        both = frozenset({"b", "c", asking("b"), asking("c")})
        world.do("b", RemovePeer("c", both, "operator"))
        world.exchange("b", "a")
        world.exchange("b", "a")
        assert world.images() == [AT_B]
        assert {row.site for row in world.stores["a"].buildable()} == {"b:site-b"}

    def test_a_site_that_takes_nothing_now_is_waited_for(self, afar: BuildPeers) -> None:
        afar.drain_or_resume("c")
        afar.to_and_fro(3)
        wants(afar, "python3")
        assert (afar.state(), afar.job().record.reason) == (JobState.WAITING, JobReason.NODES_DOWN)
        afar.drain_or_resume("c")
        afar.to_and_fro(12)
        assert afar.state() is JobState.COMPLETED

    def test_hosts_say_whether_their_machines_can_have_the_software(self, worlds: Make) -> None:
        """One's own come first only where they can."""
        world = worlds({"a": Builder(buildable=None), "b": Builder()})

        def said(needs: str) -> dict[str, tuple[str, Why]]:
            wanted = Needs(amounts=Amounts(1, 256, 0), execution_ms=1, software=(software(needs),))
            groups = verdicts(world.gateways["a"].engine, Job(job_id=1, submitted_ms=0, needs=wanted))
            return {one.site: (one.says.problem, one.says.as_host.why) for one in groups if one.says.as_host}

        assert said("python3") == {"site-a": ("", Why.FITS), "b:site-b": (OWN_FIRST, Why.FITS)}
        assert said("gromacs") == {"site-a": ("", Why.NO_IMAGE), "b:site-b": ("", Why.FITS)}
        assert said("julia") == {"site-a": ("", Why.NO_IMAGE), "b:site-b": ("", Why.NO_IMAGE)}


class TestBuilding:
    def test_one_is_built_at_the_next_peer(self, near: BuildPeers) -> None:
        wants(near)
        record = near.job().record
        assert (record.state, record.reason, record.what) == (JobState.BUILDING, JobReason.IMAGE_IS_BUILT, KEY_AT_B)
        [wanted] = is_asked(near, "a", "b")
        assert (wanted.site, wanted.base, wanted.packages) == ("site-b", "debian", (("gromacs", "2022.5"),))
        assert near.images() == [AT_B, (KEY_AT_B, "b:site-b", "building")]
        near.to_and_fro(2)
        assert ("debian+gromacs=2022.5", "site-b", "building") in near.images("b")
        near.finish("b")
        near.exchange("b", "a")
        assert near.images() == [AT_B, ("b:debian-gromacs", "b:site-b", "there")]
        assert near.attempts()[0].attempt.image == "b:debian-gromacs"
        near.check_the_end("42\n")
        near.check_that_nothing_is_left()
        assert (near.state(), near.builders["b"].built) == (JobState.COMPLETED, [GROMACS])

    def test_one_is_built_over_two_hops_and_each_asks_the_next(self, afar: BuildPeers) -> None:
        wants(afar)
        assert (afar.state(), afar.job().record.what) == (JobState.BUILDING, KEY_AT_C)
        afar.exchange("b", "a")
        [wanted] = is_asked(afar, "b", "c")
        assert (wanted.site, wanted.base) == ("site-c", "debian")
        assert [row.asked for row in afar.image_rows("b") if row.state == "building"] == [((asking("a"), KEY_AT_C),)]
        afar.to_and_fro(2)
        afar.finish("c")
        afar.check_the_end("42\n")
        afar.check_that_nothing_is_left()
        assert (afar.state(), afar.builders["c"].built) == (JobState.COMPLETED, [GROMACS])
        assert ("b:c:debian-gromacs", "b:c:site-c", "there") in afar.images()
        assert ("debian-gromacs", "site-c", "there") in afar.images("c")

    def test_all_jobs_that_need_the_same_wait_for_one_build_wherever_they_are(self, afar: BuildPeers) -> None:
        for at in ("a", "a", "b"):
            wants(afar, at=at)
        afar.gateways["c"].do(job("gromacs"))
        afar.errands()
        afar.to_and_fro(3)
        afar.finish("c")
        afar.to_and_fro(16)
        assert [afar.state(1), afar.state(2), afar.job(1, "b").record.state] == [JobState.COMPLETED] * 3
        assert afar.builders["c"].built == [GROMACS]
        afar.check_that_nothing_is_left()

    def test_after_ones_own_and_before_those_further_away(self, world: BuildPeers) -> None:
        for builder in world.builders.values():
            builder.waits = True
        wants(world)
        assert world.job().record.what == KEY_AT_B
        world.builders["b"].flaw = "no space left"
        world.to_and_fro(2)
        world.finish("b")
        world.to_and_fro(2)
        record = world.job().record
        assert (record.state, record.reason, record.what) == (
            JobState.REFUSED, JobReason.IMAGE_FAILED, "no space left",
        )  # fmt: skip
        assert is_asked(world, "a", "c") == []

    @pytest.mark.parametrize("which", ["near", "afar"])
    @pytest.mark.parametrize(
        ("buildable", "why"),
        [
            (Buildable("rocky", GROMACS), "images are built from rocky, not from debian"),
            (Buildable("debian", frozenset()), "gromacs 2022.5 cannot be put into an image"),
            (None, NOTHING_BUILT),
        ],
    )
    def test_what_can_no_more_be_built_when_it_is_asked_for_is_tried_again(
        self, worlds: Make, which: str, buildable: Buildable | None, why: str
    ) -> None:
        who = {"near": "b", "afar": "c"}[which]
        world = worlds({who: Builder()})
        wants(world)
        world.builders[who].buildable = buildable
        world.see_images()
        world.to_and_fro(3)
        record = world.job().record
        assert (record.state, record.reason) == (JobState.WAITING, JobReason.IMAGE_FAILED)
        assert record.what.replace("c:", "") == why
        world.builders[who].buildable = Buildable("debian", GROMACS)
        world.see_images()
        world.check_the_end("42\n")
        assert world.state() is JobState.COMPLETED

    def test_each_peer_has_no_more_than_so_many_at_once(self, worlds: Make) -> None:
        packages = frozenset((f"p{number}", "1") for number in range(MOST_ORDERED + 1))
        world = worlds({"b": Builder(Buildable("debian", packages), waits=True)})
        for number in range(MOST_ORDERED + 1):
            wants(world, f"p{number}")
        wants(world, "p0", at="c")
        world.to_and_fro(3)
        waiting = [world.job(number).record for number in range(1, MOST_ORDERED + 2)]
        [turned_away] = [one for one in waiting if one.state is JobState.WAITING]
        assert turned_away.what == f"more than {MOST_ORDERED} images are wanted at once"
        assert world.job(1, "c").record.state is JobState.BUILDING, "one does not wait for what another wants"

    def test_nor_by_other_keys_for_the_same(self, near: BuildPeers) -> None:
        for number in range(MOST_ORDERED + 1):
            near.ask("a", "b", BuildWanted(key=f"k{number}", site="site-b", base="debian", packages=tuple(GROMACS)))
        [row] = [row for row in near.image_rows("b") if row.state == "building"]
        assert len(row.asked) == MOST_ORDERED

    def test_asked_for_twice_it_is_answered_once(self, near: BuildPeers) -> None:
        for _ in range(2):
            near.ask("a", "b", BuildWanted(key="k", site="site-b", base="debian", packages=tuple(GROMACS)))
        near.finish("b")
        assert [told.key for told in is_answered(near, "b", "a")] == ["k"]

    @pytest.mark.parametrize(
        ("by", "at", "site", "why"),
        [
            ("a", "b", "site-x", "site-x is not a site that was told with its nodes"),
            ("a", "b", "", "this is not a site that was told with its nodes"),
            ("a", "b", "a:site-a", "a:site-a is not a site that was told with its nodes"),
            ("b", "a", "b:site-b", "b:site-b is not a site that was told with its nodes"),
        ],
        ids=["unknown", "unnamed", "its own", "in a circle"],
    )
    def test_at_a_site_that_it_was_not_told_nothing_is_built(
        self, near: BuildPeers, by: str, at: str, site: str, why: str
    ) -> None:
        self._is_refused(near, by, at, site, why)

    def test_nor_beyond_the_hop_limit(self, worlds: Make) -> None:
        world = worlds({"b": Builder(), "c": Builder()}, hops=1)
        self._is_refused(world, "a", "b", "c:site-c", "c:site-c is not a site that was told with its nodes")

    def test_nor_where_nothing_is_lent(self, near: BuildPeers) -> None:
        near.agree("b", "a", max_vms=0)
        self._is_refused(near, "a", "b", "site-b", "site-b: its site takes no leases now")
        near.agree("b", "a")
        near.drain_or_resume("b")
        self._is_refused(near, "a", "b", "site-b", "site-b: its site takes no leases now")

    def test_nor_at_a_site_that_is_silent(self, afar: BuildPeers) -> None:
        afar.fall_silent("b", "c")
        why = "c:site-c: its site takes no leases now"
        self._is_refused(afar, "a", "b", "c:site-c", why)

    def _is_refused(self, world: BuildPeers, by: str, at: str, site: str, why: str) -> None:
        base = "c:debian" if site.startswith("c:") else "debian"
        jobs = world.remote_jobs(at)
        wanted = BuildWanted(key="k", site=site, base=base, packages=tuple(GROMACS))
        jobs.build_wanted(wanted, asking(by), world.gateways[at].now_ms)
        world.gateways[at].do()
        [answer] = is_answered(world, at, by)
        assert (answer.key, answer.site, answer.problem, answer.again) == ("k", site, why, True)
        assert not [row for row in world.image_rows(at) if row.state == "building"]
        world.to_and_fro(2)
        world.check_that_nothing_is_left()

    def test_a_peer_that_falls_silent_fails_what_it_builds_for_now_and_may_still_answer(self, near: BuildPeers) -> None:
        wants(near)
        near.to_and_fro(2)
        near.fall_silent("a", "b")
        record = near.job().record
        assert (record.state, record.reason) == (JobState.WAITING, JobReason.IMAGE_FAILED)
        assert record.what == "b does not answer: its gateway does not call"
        near.finish("b")
        near.to_and_fro(2)
        assert ("b:debian-gromacs", "b:site-b", "there") in near.images()
        near.check_the_end("42\n")
        assert near.builders["b"].built == [GROMACS]
        near.check_that_nothing_is_left()

    def test_one_further_away_that_falls_silent_is_told(self, afar: BuildPeers) -> None:
        wants(afar)
        afar.to_and_fro(2)
        afar.fall_silent("b", "c")
        afar.exchange("b", "a")
        record = afar.job().record
        assert (record.reason, record.what) == (
            JobReason.IMAGE_FAILED,
            "c does not answer: its gateway does not call",
        )
        afar.finish("c")
        afar.check_the_end("42\n")
        assert afar.state() is JobState.COMPLETED
        afar.check_that_nothing_is_left()

    def test_one_further_away_that_is_removed_fails_it_for_now(self, afar: BuildPeers) -> None:
        wants(afar)
        afar.to_and_fro(2)
        both = frozenset({"b", "c", asking("b"), asking("c")})
        afar.do("b", RemovePeer("c", both, "operator"))
        [answer] = is_answered(afar, "b", "a")
        assert (answer.key, answer.problem, answer.again) == (KEY_AT_C, NOWHERE, True)
        afar.exchange("b", "a")
        assert (afar.job().record.reason, afar.job().record.what) == (JobReason.IMAGE_FAILED, NOWHERE)

    def test_who_has_removed_its_asker_builds_on_and_answers_nobody(self, near: BuildPeers) -> None:
        wants(near)
        near.to_and_fro(2)
        near.do("b", RemovePeer("a", frozenset({"a", asking("a")}), "operator"))
        near.finish("b")
        assert near.stores["b"].messages(asking("a"), 0, 10) == []
        near.gateways["b"].restart()
        assert ("debian-gromacs", "site-b", "there") in near.images("b")

    def test_who_gives_the_job_up_lets_the_image_be_built_for_others(self, afar: BuildPeers) -> None:
        wants(afar)
        afar.to_and_fro(1)
        afar.cancel_job(1)
        afar.to_and_fro(2)
        afar.finish("c")
        afar.to_and_fro(3)
        assert ("b:c:debian-gromacs", "b:c:site-c", "there") in afar.images()
        afar.check_that_nothing_is_left()

    def test_a_job_that_is_to_be_sure_gets_one_built_and_runs_there(self, world: BuildPeers) -> None:
        deadline_ms = world.gateways["a"].now_ms + 600_000
        world.submit_job(*SAYS, needs="gromacs", reliability=0.9, deadline_ms=deadline_ms)
        assert (world.state(), world.job().record.what) == (JobState.BUILDING, KEY_AT_B)
        world.check_the_end("42\n")
        assert world.state() is JobState.COMPLETED
        assert {row.attempt.image for row in world.attempts()} == {"b:debian-gromacs"}

    def test_one_whose_name_cannot_be_told_on_has_failed(self, worlds: Make) -> None:
        """It is longer by a name at each hop."""
        package = ("x" * 185, "1")
        world = worlds({"c": Builder(Buildable("debian", frozenset({package})))})
        wants(world, package[0])
        world.to_and_fro(4)
        assert world.job().record.what == "the image was built, but its name cannot be told"
        assert world.state() is JobState.REFUSED
        world.check_that_nothing_is_left()


class TestLies:
    """`b` says to `a` what is not so."""

    def test_images_of_sites_that_it_does_not_tell_are_none(self, near: BuildPeers) -> None:
        near.to_and_fro(2)
        before = near.images()
        names = ["site-x/debian", "site-a/debian", "a:site-a/debian", "debian", "site-b/", "/debian", "../site-a/x"]
        images = tuple(_image(name=name) for name in names)
        near.say("b", "a", ImagesTold(images=images, names=("site-b/debian", *names)))
        assert near.images() == before
        near.say("b", "a", _listed(site="site-x"), _listed(site=""), _listed(site="a:site-a"))
        assert {row.site for row in near.stores["a"].buildable()} == {"b:site-b"}
        near.check()

    def test_images_that_it_does_not_list_are_none(self, near: BuildPeers) -> None:
        near.say("b", "a", ImagesTold(images=(_image(name="site-b/more"),), names=("site-b/debian",)))
        assert near.images() == [AT_B]

    @pytest.mark.parametrize(
        ("lie", "why"),
        [
            ({"kind": "images", "images": [], "names": ["n"] * (MOST_IMAGES + 1)}, "1000"),
            ({"kind": "images", "images": [], "names": ["site-b/a\nb"]}, "names"),
            ({"kind": "images", "images": [], "names": ["x" * 201]}, "200"),
            ({"kind": "images", "images": [{"name": "site-b/i", "size_bytes": -1}], "names": []}, "images"),
            ({"kind": "buildable", "site": "s", "listing": 1, "part": 1, "parts": 1, "base": ""}, "no such part"),
            ({"kind": "buildable", "site": "s\0", "listing": 1, "part": 0, "parts": 1, "base": ""}, "site"),
            ({"kind": "built", "site": "site-b", "key": "k"}, "either an image or a problem"),
        ],
    )
    def test_what_makes_no_sense_is_not_understood(self, near: BuildPeers, lie: dict[str, object], why: str) -> None:
        _, received = near.stores["a"].message_numbers("b")
        near.call("b", "a")
        call = near.on_the_line.pop()
        said = tuple(one for one in call.mail.messages if one[0] <= received)
        mail = MessageBatch("b", (*said, (received + 1, json.dumps(lie))), call.mail.acknowledged, call.mail.status)
        answer = near.do("a", mail)
        assert isinstance(answer, Exception)
        assert why in str(answer)

    def test_no_more_parts_are_believed_than_a_peer_may_tell(self, worlds: Make) -> None:
        world = worlds({"b": Builder(), "c": Builder()})
        most = MOST_PARTS_OF_A_PEER // MOST_PARTS
        engine = world.gateways["a"].engine
        buildable = engine.jobs.images.buildable
        for number in range(most + 1):
            site = f"b:site-{number}"
            parts = [BuildableTold(listing=7, part=part, parts=MOST_PARTS, base="d") for part in range(MOST_PARTS)]
            with capture_logs() as logs:
                told = [buildable.hear(site, part, "b:d") for part in parts]
            assert told[-1] == (number < most - 1), "two other sites have told one part each"
        assert logs[0]["why"] == f"more than {MOST_PARTS_OF_A_PEER} parts of the sites of a peer"
        engine.jobs.images.forget("b")
        assert not buildable.sites_of("b")

    def test_an_image_without_what_was_asked_for_has_failed(self, near: BuildPeers) -> None:
        wants(near)
        near.say("b", "a", BuildTold(key=KEY_AT_B, site="site-b", image=_image(name="debian-gromacs")))
        record = near.job().record
        assert (record.state, record.reason) == (JobState.REFUSED, JobReason.IMAGE_FAILED)
        assert record.what == "b:site-b says that it has built b:debian-gromacs, and gromacs 2022.5 is not in it"

    @pytest.mark.parametrize(
        ("key", "site"),
        [("debian+julia=1.9", "site-b"), (KEY_AT_B, "site-x"), (KEY_AT_B, ""), (KEY_AT_B, "c:site-c")],
    )
    def test_what_nobody_has_asked_for_says_nothing_but_that(self, near: BuildPeers, key: str, site: str) -> None:
        wants(near)
        before = near.images()
        image = _image(name="other", software=tuple(GROMACS))
        for told in (BuildTold(key=key, site=site, image=image), BuildTold(key=key, site=site, problem="no")):
            with capture_logs() as logs:
                near.say("b", "a", told)
            assert [line["event"] for line in logs] == ["nobody has asked for the image that was built"]
        assert near.images() == before
        near.check_the_end("42\n")
        assert near.state() is JobState.COMPLETED

    def test_an_image_that_it_was_not_told_is_not_given(self, near: BuildPeers) -> None:
        """Nor one of another name, as that of the image of another site."""
        near.submit_job(*SAYS, needs="python3")
        [row] = [row for row in near.stores["a"].messages("b", 0, 10) if '"offer"' in row.body]
        body = json.loads(row.body)
        body["placed"]["image"] = "secret"
        assert near.do("b", MessageBatch(asking("a"), ((row.seq, json.dumps(body)),), 0)) is None
        near.exchange("b", "a")
        near.exchange("b", "a")
        assert near.tried()[0][1] is AttemptState.FENCED
        assert "placed.image: got 'secret', expected an image that is at site-b" in near.attempts()[0].attempt.detail


def _image(**said: object) -> ImageTold:
    return ImageTold.model_validate({"software": (), "size_bytes": 5, "least_memory_mib": 1, **said})


def _listed(**said: object) -> BuildableTold:
    return BuildableTold.model_validate({"listing": 7, "part": 0, "parts": 1, "base": "debian", "packages": (), **said})


STEPS = 14
"""More exchanges than it takes until an image is built two hops away, and the job has run in a machine with it."""


@pytest.mark.storm
@pytest.mark.parametrize("who", HOSTS)
@pytest.mark.parametrize("lost", [False, True], ids=["killed", "cut-off"])
@pytest.mark.parametrize("is_over_at", [5, 9])
def test_whoever_is_killed_at_whatever_step_an_image_is_built_and_the_job_is_done_once(
    tmp_path: Path,
    who: str,
    lost: bool,  # noqa: FBT001 - it is a case
    is_over_at: int,
) -> None:
    for number in range(STEPS):
        folder = tmp_path / str(number)
        folder.mkdir()
        world = BuildPeers(folder, {"c": Builder(waits=True)})
        wants(world)
        for step in range(STEPS):
            if step == is_over_at:
                world.finish("c")
            way = world.ways[step % len(world.ways)]
            if step == number:
                world.interrupt(who, way, lost=lost)
            else:
                world.exchange(*way)
            world.pass_time(500)
            world.check()
        world.check_the_end("42\n")
        assert world.state() is JobState.COMPLETED
        assert world.job().record.restarts == 0, (
            "nothing has failed, but who came back may have lent nothing for a moment"
        )
        assert world.builders["c"].built == [GROMACS], "it was built once"
        world.check_that_nothing_is_left()
        world.close()


def happen(world: BuildPeers, action: str, which: int) -> None:
    """Let one thing happen; ``which`` says to what, where there are several."""
    what, _, name = action.partition(" ")
    match what:
        case "look":
            world.look(name)
            world.see_images()
        case "finish":
            world.finish(name)
        case "fails":
            world.builders[name].flaw = "" if world.builders[name].flaw else "no space left"
        case "buildable":
            found = [Buildable("debian", GROMACS), Buildable("debian", GROMACS | {("bc", "1")}), None]
            world.builders[name].buildable = found[which % 3]
        case "image":
            there = world.builders[name].there
            if len(there) > 1:
                there.pop()
        case "job":
            wants(world, ["gromacs", "python3"][which % 2], at="ab"[which % 3 == 0])
        case "cancel":
            world.cancel_job(1)
        case "drain":
            world.drain_or_resume(name)
        case _:
            world.happen(action, which)


_ACTIONS = st.sampled_from(
    [
        *("call", "call", "call", "deliver", "deliver", "deliver again", "lose", "job", "cancel"),
        *(f"kill {name}" for name in HOSTS),
        *(f"{what} {name}" for what in ("look", "finish", "fails", "buildable", "image", "drain") for name in "bc"),
        *("silent", "terms", "pass 100", "pass 1000", "pass 130000"),
    ]
)


@given(st.booleans(), st.lists(st.tuples(_ACTIONS, st.integers(0, 11)), max_size=30))
@settings(max_examples=examples(20))
def test_whatever_the_lines_do_nobody_waits_for_an_image_for_ever(
    is_ring: bool,  # noqa: FBT001 - a case
    actions: list[tuple[str, int]],
) -> None:
    with TemporaryDirectory() as folder:
        builders = {name: Builder(waits=True) for name in "bc"}
        world = BuildPeers(Path(folder), builders, ways=RING if is_ring else None)
        wants(world)
        for action, which in actions:
            happen(world, action, which)
            world.errands()
            world.check()
        world.see_images()
        world.make_whole()
        world.check()
        world.check_that_nothing_ran_twice()
        assert world.is_quiet()
        world.check_that_nothing_is_left()
        for name in "bc":
            own = {row.name for row in world.image_rows(name) if (row.site, row.state) == (site_of(name), "there")}
            beside = "ac" if name == "b" else "ab" if is_ring else "b"
            for other in beside:
                if other != name:
                    told = {row.name for row in world.image_rows(other) if row.site == f"{name}:{site_of(name)}"}
                    there = {row.name for row in world.image_rows(other) if row.state == "there"} & told
                    assert there == {f"{name}:{one}" for one in own}
        world.close()
