"""Jobs with needs in the simulated world: their scheduler and the gateway decide together, as in the service."""

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.searching import examples
from tests.simulation.worlds import swf

from leasehold.analysis.run import load
from leasehold.analysis.validation import validate
from leasehold.configuration.declaration import Plain
from leasehold.forecasting.world import Handler
from leasehold.gateway.gateway import Gateway, Routing
from leasehold.gateway.invariants import Invariants
from leasehold.jobs.job import JobRecord, JobRequest, JobState
from leasehold.jobs.offers import OfferTerms
from leasehold.jobs.settings import JobSettings
from leasehold.matching.choice import MachineMaking, Retrying
from leasehold.matching.images import Image
from leasehold.matching.needs import Amounts, Job, Needs
from leasehold.matching.nodes import NodeCapabilities
from leasehold.matching.reliability import at_least
from leasehold.matching.software import software
from leasehold.model.errors import InvalidField
from leasehold.model.request import LeaseType, Request
from leasehold.routing.registry import routing_policy
from leasehold.simulation.events.jobs import JobScenario, JobsOnNodes, SimulatedJob
from leasehold.simulation.kernel import SimulatedWorld
from leasehold.simulation.run import RunResult, run_scenario
from leasehold.simulation.scenario.parse import scenario_from_dict
from leasehold.simulation.workload.combine import numbered
from leasehold.simulation.workload.job import WorkloadJob
from leasehold.testing.worlds import site

S = 1_000
GCC = frozenset({("gcc", "12")})
SMALL = NodeCapabilities(name="a/n1", total=Amounts(2, 2_048, 10_000), cpu_mhz=2_000, place="a")
WITH_GCC = replace(SMALL, name="a/n2", software=GCC)
FIRST_LEASE = 1_000
"""The first lease of an attempt; those of other users have the numbers below."""


class Watch:
    """Keeps what becomes of jobs, and records no leases."""

    handlers: Mapping[type, Handler] = {}

    def __init__(self) -> None:
        self.began_s: dict[int, float] = {}
        self.over: dict[int, tuple[JobRecord, float]] = {}
        self.machines = self.images = 0

    def submitted(self, request: Request, job: WorkloadJob) -> None:
        pass

    def machines_made(self, record: JobRecord, number: int) -> None:  # noqa: ARG002 - how many is enough
        self.machines += number

    def image_built(self) -> None:
        self.images += 1

    def began(self, job_id: int, now_ms: int) -> None:
        self.began_s.setdefault(job_id, now_ms / S)

    def closed(self, record: JobRecord, now_ms: int) -> None:
        self.over[record.id] = (record, now_ms / S)

    def outcome(self, job_id: int) -> tuple[str, float]:
        record, at_s = self.over[job_id]
        return record.state.value, at_s

    def tried(self, job_id: int) -> list[tuple[tuple[str, ...], str]]:
        return [(one.nodes, one.state.value) for one in self.over[job_id][0].attempts]


def job(number: int, at_s: float, runs_s: float, *needed: str, cores: int = 1, **said: Any) -> SimulatedJob:
    needs = Needs(
        amounts=Amounts(cores, 256, 0),
        execution_ms=round(runs_s * S),
        software=tuple(software(one) for one in needed),
    )
    request = Job(job_id=number, submitted_ms=round(at_s * S), needs=needs)
    return SimulatedJob(JobRequest(job=request, command=("run",), **said), round(runs_s * S))


def own(at_s: float, vms: int, lasts_s: float) -> WorkloadJob:
    """A request of a user of the site itself."""
    return WorkloadJob(round(at_s * S), vms, round(lasts_s * S), round(lasts_s * S), site="a")


def play(*jobs: SimulatedJob, owners: tuple[WorkloadJob, ...] = (), seed: int = 1, **said: Any) -> Watch:
    """Run all to the end, with every invariant checked."""
    watch = Watch()
    usual: dict[str, Any] = {"nodes": (SMALL, WITH_GCC), "settings": JobSettings()}
    around = JobScenario(jobs=jobs, **(usual | said))
    cores = sum(node.total.cores for node in around.nodes)
    gateway = Gateway([site("a", cores)], Routing(routing_policy("rr")(Random(1)), learns=False))
    source = JobsOnNodes(gateway, around, watch, Random(seed), first_lease_id=FIRST_LEASE)
    world = SimulatedWorld(gateway, numbered(iter(owners)), watch, Invariants(gateway), [source])
    for _ in world.run():
        source.scheduler.check()
    assert not gateway.leases
    return watch


def test_a_job_runs_on_a_node_that_has_what_it_needs() -> None:
    watch = play(job(1, 10, 60, "gcc"), job(2, 10, 30))
    assert watch.tried(1) == [(("a/n2",), "succeeded")]
    assert (watch.outcome(1), watch.outcome(2)) == (("completed", 70), ("completed", 40))


def test_jobs_of_which_there_is_room_for_one_run_one_after_the_other() -> None:
    watch = play(job(1, 0, 60, "gcc", cores=2), job(2, 5, 60, "gcc", cores=2))
    assert (watch.began_s, watch.outcome(2)) == ({1: 0, 2: 60}, ("completed", 120))


def test_a_machine_is_built_for_want_of_nodes() -> None:
    base = Image("base", frozenset(), 0, Amounts(0, 128, 100), frozenset({"a"}))
    making = JobSettings(making=MachineMaking(5 * S, "a"), build_ms=100 * S)
    watch = play(
        job(1, 0, 60, "gcc"), nodes=(SMALL,), settings=making, base=base, buildable=(("gcc", "12"),), boot_ms=5 * S
    )
    assert (watch.images, watch.machines) == (1, 1)
    assert watch.outcome(1) == ("completed", 100 + 5 + 60)


def test_a_job_that_can_run_nowhere_is_refused() -> None:
    assert play(job(1, 0, 60, "julia")).outcome(1) == ("refused", 0)


def test_the_own_users_of_the_site_come_first_and_the_job_goes_on_later() -> None:
    """The lease of its attempt is suspended for them: the command takes up its work where it was."""
    watch = play(job(1, 0, 1_000), owners=(own(500, 4, 2_000),))
    [attempt] = watch.over[1][0].attempts
    state, at_s = watch.outcome(1)
    assert (state, attempt.state.value) == ("completed", "succeeded")
    assert at_s > 3_000


def test_a_job_whose_lease_may_only_be_ended_begins_again() -> None:
    watch = play(job(1, 0, 1_000, lease_type=LeaseType.CANCELABLE), owners=(own(500, 4, 100),))
    assert [state for _, state in watch.tried(1)] == ["failed", "succeeded"]
    assert watch.outcome(1) == ("completed", 1_600)


def test_a_job_waits_where_the_own_users_have_the_room() -> None:
    watch = play(job(1, 100, 60), owners=(own(0, 4, 300),))
    assert watch.outcome(1) == ("completed", 360)


def test_a_job_in_a_hurry_is_not_queued_behind_one_that_its_site_has_promised_a_later_time() -> None:
    """The nodes are free, and will not be by then: the site's own user comes at 60 s for five minutes."""
    soon = WorkloadJob(0, 2, 300 * S, 300 * S, site="a", ready_ms=60 * S)
    hurried = job(2, 20, 50)
    request = replace(hurried.request, job=replace(hurried.request.job, deadline_ms=200 * S))
    watch = play(job(1, 10, 100), replace(hurried, request=request), owners=(soon,), nodes=(SMALL,))
    assert watch.outcome(1) == ("completed", 460)
    assert (watch.outcome(2)[0], watch.tried(2)) == ("refused", [])


def waits_s(seed: int, **said: Any) -> float:
    """How long jobs wait in all beside the own users of eight nodes, of whom the scheduler learns by looking alone."""
    random, at_s = Random(seed), 0.0
    jobs, owners = list[SimulatedJob](), list[WorkloadJob]()
    for number in range(1, 61):
        at_s += random.expovariate(1 / 40)
        jobs.append(job(number, at_s, random.uniform(30, 200)))
    until_s, at_s = at_s, 0.0
    while at_s < until_s:
        at_s += random.expovariate(1 / 60)
        owners.append(own(at_s, random.randint(1, 4), random.uniform(60, 300)))
    patient = JobSettings(retrying=Retrying(120 * S, 864_000 * S))
    eight = tuple(replace(SMALL, name=f"a/n{number}") for number in range(1, 9))
    watch = play(*jobs, owners=tuple(owners), nodes=eight, settings=patient, **said)
    assert len(watch.began_s) == len(jobs)
    return sum(watch.began_s[one.request.id] - one.request.job.submitted_ms / S for one in jobs)


@pytest.mark.soak
def test_nodes_that_offer_themselves_let_jobs_wait_less_than_polling_alone() -> None:
    """Every two minutes all nodes are looked at; in between, lightly loaded ones offer themselves, or none does."""
    polled = sum(waits_s(seed, look_every_ms=120 * S) for seed in range(8))
    offered = sum(waits_s(seed, look_every_ms=120 * S, offers=OfferTerms()) for seed in range(8))
    assert offered < 0.9 * polled


@pytest.mark.parametrize("seed", range(3))
def test_a_job_whose_node_fails_runs_elsewhere(seed: int) -> None:
    watch = play(
        *(job(number, number, 500, restarts=100) for number in range(1, 5)),
        seed=seed,
        failures_per_s=1 / 1_000,
        repair_ms=100 * S,
    )
    assert {record.state for record, _ in watch.over.values()} == {JobState.COMPLETED}


class TestScenarios:
    """Files with ``[[job]]`` and ``[[cluster.nodes]]``."""

    values: ClassVar[Plain] = {
        "name": "needs",
        "cluster": [
            {"name": "a", "slots": 4, "nodes": [{"count": 2, "cores": 2, "software": ["gcc 12.2"]}]},
            {"name": "b", "slots": 4, "nodes": [{"cores": 4, "memory_mib": 65_536}]},
        ],
        "job": [
            {"at_s": 0, "every_s": 10, "count": 3, "runs_s": 100, "cores": 2, "software": ["gcc >= 12"]},
            {"at_s": 5, "runs_s": 50, "memory_mib": 32_768},
        ],
    }

    def run(self, folder: Path, **keys: Any) -> RunResult:
        """Run it with every promise checked, and its tables too."""
        result = run_scenario(scenario_from_dict(self.values | keys), folder / "run", check=True)
        assert validate(load(result.path)) == []
        return result

    def leases(self, result: RunResult) -> list[tuple[Any, ...]]:
        found = pl.read_parquet(result.path / "leases.parquet").sort("source_id")
        return found.select("source", "source_id", "site", "state", "first_start_ms", "end_ms").rows()

    def test_each_job_has_a_lease_at_the_cluster_whose_nodes_have_what_it_needs(self, tmp_path: Path) -> None:
        result = self.run(tmp_path)
        assert self.leases(result) == [
            ("job", "1.1", "a", "completed", 0, 100_000),
            ("job", "2.1", "a", "completed", 10_000, 110_000),
            ("job", "3.1", "a", "completed", 100_000, 200_000),
            ("job", "4.1", "b", "completed", 5_000, 55_000),
        ]
        assert result.manifest["events"] == {"job-completed": 4}

    def test_jobs_wait_while_a_cluster_is_drained(self, tmp_path: Path) -> None:
        drain = {"at_s": 0, "kind": "drain", "site": "b", "lasts_s": 77}
        result = self.run(tmp_path, timeline=[drain])
        assert self.leases(result)[-1] == ("job", "4.1", "b", "completed", 77_000, 127_000)

    def test_a_job_for_which_there_is_no_node_is_refused(self, tmp_path: Path) -> None:
        result = self.run(tmp_path, job=[{"at_s": 0, "runs_s": 1, "cores": 8}])
        assert result.manifest["events"] == {"job-refused": 1}

    def test_what_is_submitted_after_the_horizon_does_not_come(self, tmp_path: Path) -> None:
        assert self.run(tmp_path, horizon_s=10).manifest["events"] == {"job-completed": 2}

    def test_own_users_start_when_they_would_without_jobs(self, tmp_path: Path) -> None:
        log = tmp_path / "own.swf"
        log.write_text(swf([(20, 60, 4, 60), (30, 60, 2, 60)]))
        result = self.run(tmp_path, stream=[{"name": "own", "log": str(log), "site": "a"}])
        own = pl.read_parquet(result.path / "leases.parquet").filter(pl.col("origin") == "local")
        assert own.sort("lease_id")["first_start_ms"].to_list() == [20_000, 80_000]
        assert (result.path / "baseline.parquet").exists()
        assert result.manifest["events"]["job-completed"] == 4

    @pytest.mark.parametrize(
        ("keys", "field"),
        [
            ({"cluster": [{"name": "a", "slots": 4}]}, "job"),
            ({"job": [{"at_s": 0, "runs_s": 1, "software": ["gcc >"]}]}, "job[0].software"),
            ({"timeline": [{"at_s": 0, "kind": "node-failure", "site": "a", "lasts_s": 1}]}, "timeline[0].site"),
        ],
    )
    def test_what_makes_no_sense_is_refused_with_its_key(self, keys: Plain, field: str) -> None:
        with pytest.raises(InvalidField, match=f"^{re.escape(field)}"):
            scenario_from_dict(self.values | keys)


JOBS = st.lists(
    st.tuples(
        st.integers(0, 100),
        st.integers(1, 100),
        st.sampled_from([(), ("gcc",), ("julia",)]),
        st.integers(1, 3),
        st.sampled_from([LeaseType.SUSPENDABLE, LeaseType.CANCELABLE]),
    ),
    max_size=8,
)
OWNERS = st.lists(st.builds(own, st.integers(0, 200), st.integers(1, 4), st.integers(1, 100)), max_size=6)


@settings(max_examples=examples(40), deadline=None)
@given(drawn=JOBS, owners=OWNERS, fails=st.sampled_from([0.0, 0.002]), seed=st.integers(0, 3))
def test_every_job_comes_to_an_end_and_every_promise_is_kept(
    drawn: list[Any], owners: list[WorkloadJob], fails: float, seed: int
) -> None:
    jobs = [
        job(number, at_s, runs_s, *needed, cores=cores, lease_type=kind)
        for number, (at_s, runs_s, needed, cores, kind) in enumerate(sorted(drawn, key=lambda one: one[0]), 1)
    ]
    in_order = sorted(owners, key=lambda one: one.submit_ms)
    watch = play(*jobs, owners=tuple(in_order), failures_per_s=fails, repair_ms=50 * S, seed=seed)
    assert set(watch.over) == {one.request.id for one in jobs}


@pytest.mark.parametrize(
    ("nodes", "need"), [(3, 2), *(pytest.param(*of, marks=pytest.mark.soak) for of in ((3, 1), (3, 3), (4, 2)))]
)
def test_a_group_is_done_as_often_as_the_formula_of_k_of_n_says(nodes: int, need: int) -> None:
    """Seed 004, section 5: nodes that survive a job with probability p, of which k of n have to."""
    runs_s, failures_per_s, many = 100, 1 / 250, 150
    done = 0
    few = tuple(replace(SMALL, name=f"a/n{number}") for number in range(1, nodes + 1))
    for seed in range(many):
        one = job(1, 0, runs_s, restarts=0)
        needs = replace(one.request.job.needs, nodes=nodes, need=need)
        request = replace(one.request, job=replace(one.request.job, needs=needs))
        said: dict[str, Any] = {"nodes": few, "failures_per_s": failures_per_s, "repair_ms": 100_000 * S}
        watch = play(replace(one, request=request), seed=seed, **said)
        done += watch.over[1][0].state is JobState.COMPLETED
    expected = at_least(need, [math.exp(-failures_per_s * runs_s)] * nodes)
    assert abs(done / many - expected) < 4 * math.sqrt(expected * (1 - expected) / many)
