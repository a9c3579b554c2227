"""Physical or virtual: every way that a job can go, by hand."""

from dataclasses import replace

import pytest
from tests.matching.making import make_job, make_node

from leasehold.matching.choice import Choice, Chooser, JobRefused, MachineMaking, Physical, Retrying, TryAgain, Virtual
from leasehold.matching.images import BuildSource, Image, ImageCatalogue, Recipe
from leasehold.matching.needs import Amounts, Job
from leasehold.matching.nodes import EvaluationTime, Link, Network, Node
from leasehold.matching.software import installed
from leasehold.matching.verdict import Verdict, Why, never, wait
from leasehold.model.errors import InvalidField

R = {"r": "4.3"}
WITH_R = Image("with-r", installed(R.items()), 1_000_000, Amounts(0, 50, 100), frozenset({"near"}))
LARGER = Image("larger", installed({**R, "gcc": "12"}.items()), 2_000_000)
BASE = Image("base", frozenset(), 500_000)
CATALOGUE = ImageCatalogue([LARGER, WITH_R], [BuildSource(BASE, (("julia", "1.9"),))])
NETWORK = Network(Link(100, 1_000_000))
NONE_FREE = Amounts(0, 0, 0)


def choose(job: Job, nodes: list[Node], hosts: list[Node] | None = None, now_ms: int = 0) -> Choice:
    return Chooser(nodes, hosts or [], CATALOGUE, NETWORK).choose(job, EvaluationTime(now_ms))


def test_a_node_that_has_what_is_needed_runs_it_and_no_machine_is_built() -> None:
    chosen = choose(make_job(needs="r >= 4"), [make_node("bare"), make_node("with", has=R)], [make_node("host")])
    assert isinstance(chosen, Physical)
    assert [edge.node for edge in chosen.nodes] == ["with"]


def test_one_that_has_it_but_is_in_use_is_waited_for_although_a_machine_could_be_built() -> None:
    busy = make_node("with", has=R, free=NONE_FREE)
    assert choose(make_job(needs="r"), [busy], [make_node("host")]) == TryAgain(120_000, wait(Why.CORES_IN_USE))


def test_where_no_node_has_the_software_a_machine_is_built_with_the_smallest_image() -> None:
    chosen = choose(make_job(needs="r"), [make_node("bare")], [make_node("host")])
    assert isinstance(chosen, Virtual)
    assert (chosen.image, [edge.node for edge in chosen.hosts]) == (WITH_R, ["host"])
    assert chosen.hosts[0].weight_ms == 1_100


def test_a_node_that_is_too_small_for_good_does_not_keep_a_job_from_a_machine() -> None:
    small = make_node("small", memory_mib=99, has=R)
    assert isinstance(choose(make_job(needs="r"), [small], [make_node("host")]), Virtual)


def test_of_hosts_the_one_that_is_ready_first_then_of_less_memory() -> None:
    """Near has the image; of those that have not, the one with less memory free."""
    hosts = [make_node("large", memory_mib=2_000), make_node("fits"), make_node("near", place="near")]
    for expected in ("near", "fits", "large"):
        chosen = choose(make_job(needs="r"), [], hosts)
        assert isinstance(chosen, Virtual)
        assert chosen.hosts[0].node == expected
        hosts = [host for host in hosts if host.name != expected]


def test_a_host_needs_memory_for_the_job_and_for_the_system_of_the_machine() -> None:
    job = make_job(needs="r", memory_mib=100)
    assert isinstance(choose(job, [], [make_node("host", memory_mib=150)]), Virtual)
    refused = choose(job, [], [make_node("host", memory_mib=149)])
    assert isinstance(refused, JobRefused)
    assert refused.verdict == never(Why.NO_HOST)


def test_a_job_of_two_nodes_gets_machines_on_two_hosts() -> None:
    chosen = choose(make_job(needs="r", nodes=2), [make_node("one", has=R)], [make_node("a"), make_node("b")])
    assert isinstance(chosen, Virtual)
    assert [edge.node for edge in chosen.hosts] == ["a", "b"]
    refused = choose(make_job(needs="r", nodes=2), [], [make_node("a")])
    assert isinstance(refused, JobRefused)


def test_hosts_that_are_in_use_are_waited_for() -> None:
    chosen = choose(make_job(needs="r"), [], [make_node("host", free=NONE_FREE)])
    assert chosen == TryAgain(120_000, wait(Why.CORES_IN_USE))


def test_the_time_to_fetch_build_and_boot_counts_towards_the_deadline() -> None:
    """1.1 s to fetch, 30 s to boot, 1 s to run."""
    host = [make_node("host")]
    assert isinstance(choose(make_job(needs="r", deadline_ms=32_101), [], host), Virtual)
    refused = choose(make_job(needs="r", deadline_ms=32_100), [], host)
    assert isinstance(refused, JobRefused)
    assert refused.verdict.why is Why.DEADLINE_TOO_TIGHT


class TestImages:
    def test_one_that_is_not_there_is_built_from_packages(self) -> None:
        found = CATALOGUE.find(make_job(needs="julia >= 1.9").needs.software)
        assert found == [Recipe(BASE, installed([("julia", "1.9")]), 300_000)]

    @pytest.mark.parametrize("needs", ["julia >= 2", "fortran", "r >= 5"])
    def test_what_nobody_has_is_refused_by_name(self, needs: str) -> None:
        refused = choose(make_job(needs=needs), [make_node("bare")], [make_node("host")])
        assert refused == JobRefused(never(Why.NO_IMAGE, needs), never(Why.SOFTWARE_NOT_THERE, needs))

    def test_without_a_base_nothing_is_built(self) -> None:
        assert ImageCatalogue([]).find(make_job(needs="julia").needs.software) == []

    def test_what_several_places_can_build_is_one_recipe_for_all_of_them(self) -> None:
        sources = [
            BuildSource(BASE, (("julia", "1.9"), ("r", "4.4")), frozenset({"here"})),
            BuildSource(BASE, (("julia", "1.9"), ("r", "4.5")), frozenset({"far"})),
            BuildSource(LARGER, (("julia", "1.9"),), frozenset({"north"})),
        ]
        catalogue = ImageCatalogue([BASE, LARGER], sources)
        found = catalogue.find(make_job(needs="julia").needs.software)
        julia = installed([("julia", "1.9")])
        assert found == [
            Recipe(BASE, julia, 300_000, frozenset({"here", "far"})),
            Recipe(LARGER, julia, 300_000, frozenset({"north"})),
        ]
        newer = catalogue.find(make_job(needs="r > 4.3").needs.software)
        versions = [one.packages for one in newer if isinstance(one, Recipe)]
        assert versions == [installed([("r", "4.4")]), installed([("r", "4.5")])]

    def test_a_larger_image_counts_where_no_smaller_one_can_be(self) -> None:
        near = replace(WITH_R, at=frozenset({"near"}), built_at=frozenset({"here"}))
        for places, found in (({"far"}, [near, LARGER]), ({"near", "here"}, [near])):
            larger = replace(LARGER, at=frozenset(places))
            images = ImageCatalogue([near, larger]).find(make_job(needs="r").needs.software)
            assert [one.name for one in images if isinstance(one, Image)] == [one.name for one in found]

    def test_it_is_built_on_hosts_of_places_that_can_build_it(self) -> None:
        sources = [
            BuildSource(BASE, (("julia", "1.9"),), frozenset({"here"})),
            BuildSource(BASE, (("julia", "1.10"),), frozenset({"far"})),
        ]
        hosts = [make_node("small", cores=2, gets_images=False), make_node("large", place="far", gets_images=False)]

        def chosen(cores: int, *sources: BuildSource) -> Choice:
            job = make_job(needs="julia", cores=cores)
            return Chooser([], hosts, ImageCatalogue([BASE], sources), NETWORK).choose(job, EvaluationTime(0))

        for cores, host, version in ((2, "small", "1.9"), (3, "large", "1.10")):
            made = chosen(cores, *sources)
            assert isinstance(made, Virtual)
            assert isinstance(made.image, Recipe)
            assert [edge.node for edge in made.hosts] == [host]
            assert made.image.packages == installed([("julia", version)])
        refused = chosen(3, sources[0])
        assert isinstance(refused, JobRefused)
        assert refused.verdict == never(Why.NO_HOST)

    def test_names_differ(self) -> None:
        with pytest.raises(InvalidField, match="names that differ"):
            ImageCatalogue([BASE, BASE])


class TestTryingAgain:
    @pytest.mark.parametrize(
        ("now_ms", "next_ms"), [(0, 120_000), (119_999, 120_000), (120_000, 240_000), (240_000, 360_000)]
    )
    def test_at_two_four_and_six_minutes(self, now_ms: int, next_ms: int) -> None:
        assert Retrying().next_ms(5_000, 5_000 + now_ms) == 5_000 + next_ms

    def test_after_six_minutes_it_is_refused_with_what_it_waited_for(self) -> None:
        busy = make_node("with", has=R, free=NONE_FREE)
        refused = choose(make_job(needs="r"), [busy], now_ms=360_000)
        assert refused == JobRefused(never(Why.WAITED_TOO_LONG), wait(Why.CORES_IN_USE))

    def test_both_can_be_set(self) -> None:
        assert Retrying(interval_ms=10, limit_ms=25).next_ms(0, 15) == 20
        assert Retrying(interval_ms=10, limit_ms=25).next_ms(0, 20) is None
        with pytest.raises(InvalidField, match="interval_ms of at least 1"):
            Retrying(interval_ms=0)

    def test_a_machine_takes_its_time(self) -> None:
        assert MachineMaking().boot_ms == 30_000


def test_nodes_that_are_alike_are_judged_once_to_say_what_a_job_waits_for() -> None:
    judged = []

    class Counting(Chooser):
        def judge(self, job: Job, node: Node, moment: EvaluationTime) -> Verdict:
            judged.append(node.name)
            return super().judge(job, node, moment)

    busy = [make_node(f"n{number}", free=NONE_FREE) for number in range(100)]
    chooser = Counting([*busy, make_node("small", cores=1)], [], CATALOGUE)
    assert chooser.physical_verdict(make_job(cores=2, nodes=100), EvaluationTime(0)) == wait(Why.CORES_IN_USE)
    assert len(judged) == 2
    without = frozenset({"n0", "small", "nobody"})
    assert chooser.physical_verdict(make_job(cores=2, nodes=100), EvaluationTime(0), without) == never(
        Why.TOO_FEW_NODES
    )
    assert chooser.physical_verdict(make_job(cores=2, nodes=99), EvaluationTime(0), without) == wait(Why.CORES_IN_USE)
