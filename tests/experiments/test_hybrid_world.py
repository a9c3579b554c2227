"""The simulated world: what is drawn, and that jobs are served by nodes that have what they need."""

from random import Random

import pytest

from leasehold.experiments.hybrid.plan import JobRun, configuration_named, plan
from leasehold.experiments.hybrid.world import PACKAGES, jobs, measure, nodes, run_all, situation
from leasehold.matching.needs import NOTHING

LOAD = 0.6


def small(way: str, load: float = LOAD) -> JobRun:
    return JobRun("small", "ablation", way=way, load=load, count=60)


def measured(way: str, load: float = LOAD, seed: int = 7) -> dict[str, float]:
    return run_all(situation(small(way, load), seed), Random("fates")).read()


def test_the_same_seed_gives_the_same_nodes_and_jobs_to_every_way() -> None:
    one, other = situation(small("hybrid"), 5), situation(small("virtual-only"), 5)
    assert (one.nodes, one.jobs) == (other.nodes, other.jobs)


def test_jobs_come_as_often_as_the_load_says() -> None:
    there = nodes(Random("nodes"))
    total = sum((node.total for node in there), NOTHING)
    drawn = list(jobs(JobRun("", "", load=LOAD, count=4_000), total, Random("jobs")))
    asked = [one.request.job.needs for one in drawn]
    work_ms = sum(needs.amounts.cores * needs.nodes * needs.execution_ms for needs in asked)
    assert work_ms / (total.cores * drawn[-1].request.job.submitted_ms) == pytest.approx(LOAD, rel=0.15)


@pytest.mark.evaluation
def test_no_machine_is_made_where_nodes_have_what_is_needed() -> None:
    found = measured("hybrid")
    assert found["machines"] > 0
    assert found["needless_machines"] == 0


@pytest.mark.evaluation
def test_without_hosts_no_machine_is_made_and_more_is_refused() -> None:
    physical, hybrid = measured("physical-only"), measured("hybrid")
    assert physical["machines"] == 0
    assert physical["refused_pct"] > hybrid["refused_pct"]


@pytest.mark.evaluation
def test_without_nodes_to_run_on_everything_runs_in_machines() -> None:
    virtual, hybrid = measured("virtual-only"), measured("hybrid")
    assert virtual["machines"] >= virtual["attempts"] > 0
    assert virtual["machines"] > hybrid["machines"]


def test_software_that_nobody_has_is_refused_at_once_everywhere() -> None:
    around = situation(small("hybrid"), 7)
    nowhere = [
        one.request.id
        for one in around.jobs
        if any(each.name not in PACKAGES for each in one.request.job.needs.software)
    ]
    found = run_all(around, Random("fates")).read()
    assert nowhere
    assert found["refused_pct"] >= 100 * len(nowhere) / len(around.jobs)


@pytest.mark.evaluation
def test_a_run_is_the_same_each_time() -> None:
    assert measured("hybrid") == measured("hybrid")


@pytest.mark.evaluation
@pytest.mark.parametrize("name", ["reliability-0.3-0.9-quick", "queues-edf-1.8-360s-quick"])
def test_a_configuration_is_found_by_its_name_and_measured(name: str) -> None:
    assert configuration_named(name) is plan(quick=True).configurations[name]
    found = measure(name, 1)
    assert 0 <= found["in_time_pct"] <= 100


@pytest.mark.evaluation
def test_where_nodes_die_more_copies_make_it_surer() -> None:
    one, three = (measure(f"reliability-0.3-{asked}-quick", 2) for asked in ("0.5", "0.95"))
    assert three["attempts"] > one["attempts"]
    assert three["done_in_time"] > one["done_in_time"]
    assert three["done_in_time"] == pytest.approx(three["sure_by_plan"], abs=0.08)
