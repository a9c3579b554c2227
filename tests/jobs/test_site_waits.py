"""Nodes are free and their site is not: a job begins where its lease waits least by the plans of the sites."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from tests.jobs.making import BASE, MINUTE, S, Told, catalogue, image, seen, site, submitted

from leasehold.jobs.events import SeenNode
from leasehold.jobs.job import Place, names_of, site_of
from leasehold.jobs.settings import JobSettings, Matching
from leasehold.jobs.site_waits import PlannedWait
from leasehold.matching.needs import InputFile, Job
from leasehold.matching.nodes import Link, Network

GCC = {"gcc": "12.2"}
SITES = "abc"


def waits(**known_ms: int | None) -> PlannedWait:
    """So long does a lease wait at these sites; nowhere else."""
    return lambda place, _job, _ordered_vms, _now_ms: known_ms.get(_site(place), 0)


def _site(place: Place) -> str:
    return site_of(names_of(place)[0])


def _at(place: str, node: SeenNode) -> SeenNode:
    """Files that lie at this place are at the node."""
    return replace(node, node=replace(node.node, capabilities=replace(node.node.capabilities, place=place)))


def two_sites(planned_wait: PlannedWait, settings: JobSettings | None = None) -> Told:
    """Sites a and b with two nodes each."""
    sites = [site(*(seen(f"{name}/{number}") for number in (1, 2)), name=name) for name in "ab"]
    return Told(*sites, settings=settings, planned_wait=planned_wait)


class TestOfSeveralSites:
    def test_that_one_is_taken_where_the_lease_starts_now(self) -> None:
        told = two_sites(waits(a=4 * MINUTE))
        told.tell(1, submitted())
        assert told.started == [(1, 1, ("b/1",))]

    def test_that_one_is_taken_where_the_leases_of_all_nodes_start_now(self) -> None:
        told = two_sites(waits(a=4 * MINUTE))
        told.tell(1, submitted(nodes=2))
        assert told.started == [(1, 1, ("b/1", "b/2"))]

    def test_that_one_is_taken_where_it_waits_least_if_it_waits_everywhere(self) -> None:
        told = two_sites(waits(a=4 * MINUTE, b=3 * MINUTE))
        told.tell(1, submitted())
        assert told.started == [(1, 1, ("b/1",))]

    def test_one_of_which_it_is_only_known_that_it_waits_comes_last(self) -> None:
        told = two_sites(waits(a=None, b=60 * MINUTE))
        told.tell(1, submitted())
        assert told.started == [(1, 1, ("b/1",))]

    def test_a_wait_is_added_to_the_transfer_of_files(self) -> None:
        network = Network(ways={("a", "b"): Link(2 * MINUTE, 10**9)})
        nodes = [site(_at(name, seen(f"{name}/1")), name=name) for name in "ab"]
        files = InputFile("data", 1_000, "a")
        for wait_ms, node in ((MINUTE, "a/1"), (3 * MINUTE, "b/1")):
            told = Told(*nodes, network=network, planned_wait=waits(a=wait_ms))
            told.tell(1, submitted(inputs=(files,)))
            assert told.started == [(1, 1, (node,))]

    def test_no_machine_is_built_where_nodes_only_have_to_be_waited_for(self) -> None:
        host = site(seen("b/1", is_host=True, runs=False), name="b")
        told = Told(site(seen("a/1", has=GCC)), host, catalogue(image("i", GCC)), planned_wait=waits(a=4 * MINUTE))
        told.tell(1, submitted(needs="gcc"))
        assert told.decided == [(1, "runs-on-nodes", "")]

    def test_no_image_is_built_where_a_machine_only_has_to_be_waited_for(self) -> None:
        hosts = [site(seen(f"{name}/1", is_host=True), name=name) for name in "ab"]
        told = Told(*hosts, catalogue(image("i", GCC), BASE), planned_wait=waits(a=4 * MINUTE))
        told.tell(1, submitted(needs="gcc"))
        assert told.started == [(1, 1, ("b/1",))]
        assert told.built == []


def test_jobs_that_are_matched_together_do_not_wait_where_others_start_now() -> None:
    told = two_sites(waits(a=4 * MINUTE), JobSettings(matching=Matching.OPTIMAL))
    told.tell(1, submitted(1), submitted(2))
    assert [site_of(node) for _, _, nodes in told.started for node in nodes] == ["b", "b"]


def test_a_forecast_is_what_comes_true() -> None:
    told = two_sites(waits(a=4 * MINUTE))
    job = submitted()
    [foreseen] = told.scheduler.forecast(job.request, 1).places
    told.tell(1, job)
    assert told.started == [(1, 1, names_of(foreseen))]


@given(st.fixed_dictionaries({name: st.integers(0, 3) for name in SITES}), st.integers(1, 12))
def test_no_job_waits_at_a_site_while_another_has_room(slots: Mapping[str, int], jobs: int) -> None:
    """Sites have 12 nodes each and lend fewer; what this instant has ordered counts; against counting."""

    def planned(place: Place, job: Job, ordered_vms: int, _now_ms: int) -> int | None:
        return 0 if ordered_vms + job.needs.nodes <= slots[_site(place)] else 60 * S

    sites = [site(*(seen(f"{name}/{number}") for number in range(12)), name=name) for name in SITES]
    told = Told(*sites, planned_wait=planned)
    told.tell(1, *(submitted(number) for number in range(1, jobs + 1)))
    started = Counter(site_of(nodes[0]) for _, _, nodes in told.started)
    assert started.total() == jobs
    lent = sum(min(started[name], slots[name]) for name in SITES)
    assert lent == min(jobs, sum(slots.values()))
