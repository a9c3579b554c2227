"""What a setting changes of a run: what is known, what is asked for, whose the local jobs are."""

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.experiments.beyond import world
from leasehold.experiments.beyond.plan import ContenderRun, Log, plan
from leasehold.experiments.beyond.world import Clairvoyant, StaleKnowledge, as_keys, room_beside
from leasehold.gateway.settings import SiteSettings
from leasehold.leasing.victims.registry import victim_policy
from leasehold.model.errors import InvalidField
from leasehold.model.request import LeaseType, Request
from leasehold.routing.policy import Dispatch, Hold, Refuse, Verdict
from leasehold.routing.view import FixedSources, RoutingView, SiteFacts, SiteHistory, SiteLive, SiteSet
from leasehold.simulation.workload.job import WorkloadJob

S, HOUR = 1_000, 3_600_000
HOURS = 2
NON_PREEMPTABLE, SUSPENDABLE = LeaseType.NON_PREEMPTABLE, LeaseType.SUSPENDABLE


def configuration(setting: str, contender: str) -> ContenderRun:
    return plan(HOURS).configurations[f"beyond-{setting}-{contender}-{HOURS}h"]


# Settings


def test_contenders_differ_in_their_rules_and_in_nothing_else() -> None:
    one, other = (as_keys(configuration("r2", name), 3) for name in ("rr", "most-free"))
    assert one["stream"] == other["stream"]
    assert one["cluster"] == other["cluster"]
    assert (one["gateway"]["policy"], other["gateway"]["policy"]) == ("rr", "most-free")


def test_a_setting_says_what_is_otherwise() -> None:
    assert as_keys(configuration("r2", "rr"), 1)["defaults"]["local_queue"] == "refuse"
    assert as_keys(configuration("r2-queue", "rr"), 1)["defaults"]["local_queue"] == "queue"
    of_log = as_keys(configuration("kth", "rr"), 1)
    assert {cluster["speed_mips"] for cluster in of_log["cluster"]} == {of_log["reference_mips"]}
    assert [stream["name"] for stream in of_log["stream"]] == ["guests"]


def test_foresight_leaves_locals_and_guests_in_peace() -> None:
    """What nobody could know: not one preemption, and no fewer local requests served."""
    usual, foresight = (world.run(configuration("r2", name), 1) for name in ("rr", "clairvoyant"))
    assert usual["vms_preempted"] > 0
    assert foresight["vms_preempted"] == 0
    assert foresight["local_rejection_pct"] <= usual["local_rejection_pct"]
    assert foresight["guest_work_vm_h"] >= usual["guest_work_vm_h"]


# What is known


class Changing:
    """Knowledge whose site changes all the time."""

    federation = "all of it"

    def __init__(self) -> None:
        self.free_vms = 10
        self.own = SiteHistory(in_flight_vms=20)

    def history(self, _site: str) -> SiteHistory:
        return self.own

    def live(self, _site: str, _now_ms: int) -> SiteLive:
        return SiteLive(self.free_vms, earliest_start_ms=lambda *_: 0)


def test_a_stale_state_is_that_of_the_last_report() -> None:
    known = Changing()
    stale = StaleKnowledge(known, 60 * S)  # type: ignore[arg-type]
    assert stale.live("a", 1 * S).free_vms == 10
    known.free_vms = 3
    assert stale.live("a", 59 * S).free_vms == 10
    assert stale.live("a", 60 * S).free_vms == 3
    assert stale.live("a", 60 * S).earliest_start_ms is None
    assert stale.federation == "all of it"


def test_but_of_what_it_did_itself_a_gateway_knows() -> None:
    known = Changing()
    stale = StaleKnowledge(known, 60 * S)  # type: ignore[arg-type]
    assert stale.live("a", 0).free_vms == 10
    known.own.in_flight_vms += 4
    assert stale.live("a", 1 * S).free_vms == 6
    known.own.in_flight_vms -= 7
    assert stale.live("a", 2 * S).free_vms == 13
    assert stale.live("a", 60 * S).free_vms == 10


@given(st.integers(1, 10**7), st.integers(0, 10**6), st.integers(0, 100))
def test_who_overestimates_asks_for_more_and_keeps_its_slack(need_ms: int, slack_ms: int, seed: int) -> None:
    job = WorkloadJob(0, 1, need_ms, need_ms, deadline_ms=need_ms + slack_ms)
    (found,) = world.overestimated(iter([job]), 5.0, seed)
    assert need_ms <= found.requested_ms <= 5 * need_ms
    assert found.actual_ms == need_ms
    assert found.deadline_ms == found.requested_ms + slack_ms


# Foresight


class Ahead:
    """One site of 4 VMs; its own users take 3 of them from 100 s to 200 s."""

    def __init__(self, needs_ms: dict[int, int]) -> None:
        settings = [SiteSettings("a", 4, victim_policy("moml"), queues_locals=False)]
        own = [WorkloadJob(100 * S, 3, 100 * S, 100 * S, site="a")]
        self.policy = Clairvoyant(Random(1), room_beside(settings, own, 1), needs_ms)
        federation = SiteSet([SiteFacts("a", 4, 1, 1)])
        self.view = RoutingView(federation, federation.sites, FixedSources(), self.policy.information, 0)

    def ask(self, request: Request, now_ms: int = 0) -> Verdict:
        return self.policy.route(request, self.view, now_ms)


def guest(number: int, vms: int, duration_ms: int, kind: LeaseType, deadline_ms: int | None = None) -> Request:
    return Request(number, kind, vms, duration_ms, 0, 0, deadline_ms)


def test_foresight_waits_for_room_that_lasts() -> None:
    ahead = Ahead({1: 150 * S, 2: 100 * S})
    long = guest(1, 2, 150 * S, SUSPENDABLE)
    assert ahead.ask(long) == Hold(200 * S)
    assert ahead.ask(guest(2, 4, 100 * S, SUSPENDABLE)) == Dispatch("a")
    assert ahead.ask(long, 200 * S) == Dispatch("a")


def test_foresight_refuses_who_cannot_wait() -> None:
    ahead = Ahead({1: 150 * S, 2: 150 * S, 3: 150 * S})
    assert isinstance(ahead.ask(guest(1, 2, 150 * S, NON_PREEMPTABLE)), Refuse)
    late = guest(2, 2, 150 * S, LeaseType.MIGRATABLE, deadline_ms=300 * S)
    assert isinstance(ahead.ask(late), Refuse)
    assert ahead.ask(guest(3, 1, 150 * S, NON_PREEMPTABLE)) == Dispatch("a")


# Logs

DAYS = 10
LINE = "{n} {at} -1 {run} {procs} -1 -1 {procs} {run} -1 1 1 1 -1 1 {partition} -1 -1"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A log of ten days, two jobs an hour: one of all 10 processors at site 1, one of a single one at 2."""
    lines = ["; MaxProcs: 10"]
    for hour in range(24 * DAYS):
        for partition, procs in ((1, 10), (2, 1)):
            number, at = 2 * hour + partition, 3_600 * hour + 60 * partition
            lines.append(LINE.format(n=number, at=at, run=1_800, procs=procs, partition=partition))
    (tmp_path / "small.swf").write_text("\n".join(lines) + "\n")
    return tmp_path


SLOTS = {"small": 5, "large": 40}


def local_jobs(folder: Path, log: Log, replication: int = 1) -> list[WorkloadJob]:
    jobs: Iterator[WorkloadJob] = world.local_jobs(log, folder, SLOTS, 48 * HOUR, replication)
    return list(jobs)


def test_jobs_of_a_log_are_as_wide_as_the_cluster_is_large(folder: Path) -> None:
    jobs = local_jobs(folder, Log("small.swf", procs=10))
    assert {job.vms for job in jobs if job.site == "large"} == {40, 4}
    assert {job.vms for job in jobs if job.site == "small"} == {5, 1}
    assert all(0 <= job.submit_ms < 48 * HOUR for job in jobs)
    assert [job.submit_ms for job in jobs] == sorted(job.submit_ms for job in jobs)
    assert len(jobs) == pytest.approx(2 * 2 * 48, abs=4)


def test_each_cluster_has_a_window_of_its_own_in_each_replication(folder: Path) -> None:
    log = Log("small.swf", procs=10)
    first = {name: [job.source_id for job in local_jobs(folder, log) if job.site == name] for name in SLOTS}
    assert first["small"] != first["large"]
    assert local_jobs(folder, log) == local_jobs(folder, log)
    assert local_jobs(folder, log) != local_jobs(folder, log, replication=2)


def test_sites_of_a_log_are_given_away_up_to_a_load(folder: Path) -> None:
    """Site 1 keeps 5 processors busy, site 2 half a one: the larger has room for both, up to 20."""
    jobs = local_jobs(folder, Log("small.swf", load=0.5))
    assert {job.site for job in jobs} == {"large"}
    assert {job.vms for job in jobs} == {10, 1}


def test_a_log_that_is_too_short_is_refused(folder: Path) -> None:
    with pytest.raises(InvalidField, match="239 h long"):
        list(world.local_jobs(Log("small.swf", procs=10), folder, SLOTS, 480 * HOUR, 1))


@pytest.mark.soak
@pytest.mark.traces
@pytest.mark.parametrize("setting", ["kth", "nasa", "lcg"])
def test_public_logs_bring_local_jobs(workload_log: Callable[[str], Path], setting: str) -> None:
    one = configuration(setting, "most-free")
    assert one.setting.log is not None
    found = world.run(one, 1, workload_log(one.setting.log.file).parent)
    assert found["occupancy_pct"] > 5
    assert found["guest_work_vm_h"] > 0
