"""Small jobs that look at nodes: sent when it is time, cancelled where they wait, never half believed."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from leasehold.service.drivers.slurm.cluster import Job, Node
from leasehold.service.drivers.slurm.commands import Slurm, SlurmRefused, Step
from leasehold.service.drivers.slurm.instance import tag_of
from leasehold.service.drivers.slurm.job_directory import WORK
from leasehold.service.drivers.slurm.options import SlurmOptions
from leasehold.service.drivers.slurm.probes import BEGINS, ENDS, Probes, probe_comment
from leasehold.service.drivers.slurm.users import JobUser

OWNER, DAY_MS, BEGIN_MS = "0123456789ab", 86_400_000, 1_795_257_816_000
NODE = Node("n1", 4, 2000, flags=("IDLE",), free_cpus=4, booted_ms=BEGIN_MS - DAY_MS)
WHOLE = f"{BEGINS}\nmhz 2000\npackage gcc 12.2\n{ENDS}\n"


class ToldSlurm(Slurm):
    """Takes jobs and runs none of them."""

    def __init__(self) -> None:
        super().__init__(SlurmOptions())
        self.submitted: list[str] = []
        self.cancelled: list[int] = []
        self.refuses = ""

    def submit(
        self,
        script: str,
        given: Mapping[str, str],
        environment: Mapping[str, str],
        *,
        requeue: bool = False,
        no_kill: bool = False,
    ) -> int:
        assert not requeue
        assert not no_kill
        assert script.startswith("#!/bin/sh\n")
        assert not environment
        if self.refuses:
            raise SlurmRefused(self.refuses)
        self.submitted.append(given["nodelist"])
        return len(self.submitted)

    def do(self, step: Step, job_id: int) -> str:
        assert step is Step.CANCEL
        self.cancelled.append(job_id)
        return ""


@dataclass
class Site:
    """Probes whose clock, cluster and nodes are in the hands of a test."""

    folder: Path
    options: SlurmOptions = field(default_factory=SlurmOptions)
    slurm: ToldSlurm = field(default_factory=ToldSlurm)
    now_ms: int = BEGIN_MS
    jobs: list[Job] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.probes = Probes(self.slurm, self.folder, OWNER, self.options, JobUser.of_gateway(), lambda: self.now_ms)
        (self.folder / WORK).mkdir(exist_ok=True)

    def look(self, *nodes: Node, **suspect: int) -> list[str]:
        """Look once; returns the nodes to which probes were sent at that."""
        before = len(self.slurm.submitted)
        self.probes.look(nodes or (NODE,), self.jobs, suspect)
        sent = self.slurm.submitted[before:]
        first = before + 1
        self.jobs += [
            Job(number, ("RUNNING",), uid=os.geteuid(), comment=probe_comment(OWNER, name))
            for number, name in enumerate(sent, first)
        ]
        return sent

    def ends(self, text: str | None = WHOLE, node: str = "n1") -> None:
        """Let all probes end, and one of them leave this."""
        self.jobs.clear()
        if text is not None:
            (self.folder / WORK / node).write_text(text)
            os.utime(self.folder / WORK / node, ns=(self.now_ms * 10**6, self.now_ms * 10**6))

    def software(self, node: Node = NODE, suspect_ms: int = 0) -> frozenset[tuple[str, str]]:
        report, _ = self.probes.report(node, suspect_ms)
        return report.software if report else frozenset()

    @property
    def missing(self) -> str:
        """What is said of a node of which nothing is known."""
        return self.probes.report(NODE)[1]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_a_node_is_looked_at_once_and_again_after_a_day(site: Site) -> None:
    assert site.missing == "its software: no probe has run yet"
    assert site.look() == ["n1"]
    assert site.look() == []
    site.now_ms += 1_000
    site.ends()
    assert site.look() == []
    assert site.software() == {("gcc", "12.2")}
    assert site.missing == ""
    site.now_ms += DAY_MS
    assert site.look() == ["n1"]
    assert site.software() == {("gcc", "12.2")}  # that is what is known until it is told anew


def test_who_comes_back_after_a_crash_asks_nobody_again(site: Site) -> None:
    site.look()
    site.now_ms += 1_000
    site.ends()
    later = replace(site, slurm=ToldSlurm())
    assert later.look() == []
    assert later.software() == {("gcc", "12.2")}


def test_nobody_is_asked_where_that_is_not_wanted(tmp_path: Path) -> None:
    site = Site(tmp_path, SlurmOptions(probe_every_ms=0))
    assert site.look() == []
    assert site.missing == ""


@pytest.mark.parametrize("node", [replace(NODE, takes_jobs=False), replace(NODE, free_cpus=0)], ids=["drained", "full"])
def test_no_probe_waits_for_a_node_that_takes_none_now(site: Site, node: Node) -> None:
    assert site.look(node) == []


def test_one_that_does_not_start_soon_is_cancelled_and_sent_again_later(site: Site) -> None:
    site.look()
    site.jobs = [Job(1, ("PENDING",), uid=os.geteuid(), comment=probe_comment(OWNER, "n1"))]
    site.look()
    assert site.slurm.cancelled == []
    site.now_ms += 31_000
    site.look()
    assert site.slurm.cancelled == [1]
    site.ends(None)
    assert site.look() == []
    assert site.missing == "its software: its probe, job 1, has ended without a report"
    site.now_ms += 300_000
    assert site.look() == ["n1"]


def test_one_that_was_left_by_a_crash_is_waited_for_and_then_cancelled(site: Site) -> None:
    site.jobs = [Job(7, ("PENDING",), uid=os.geteuid(), comment=probe_comment(OWNER, "n1"))]
    assert site.look() == []
    site.now_ms += 31_000
    assert site.look() == []
    assert site.slurm.cancelled == [7]


def test_those_of_another_site_are_none_of_ours(site: Site) -> None:
    site.jobs = [Job(7, ("PENDING",), uid=os.geteuid(), comment=probe_comment("another", "n1"))]
    assert site.look() == ["n1"]


def test_few_are_under_way_at_a_time(site: Site) -> None:
    nodes = [replace(NODE, name=f"n{number}") for number in range(20)]
    assert site.look(*nodes) == [f"n{number}" for number in range(8)]
    assert site.look(*nodes) == []


@pytest.mark.parametrize("text", ["", WHOLE[:-20], "Segmentation fault\n"])
def test_what_cannot_be_read_is_said_and_nothing_is_believed_of_it(site: Site, text: str) -> None:
    site.look()
    site.now_ms += 1_000
    site.ends(text)
    assert site.look() == []
    assert site.software() == frozenset()
    assert site.missing.startswith("its software: a probe ")
    site.now_ms += 300_000
    assert site.look() == ["n1"]


def test_a_link_that_somebody_put_there_is_not_followed(site: Site, tmp_path: Path) -> None:
    site.look()
    secret = tmp_path / "secret"
    secret.write_text(WHOLE)
    (tmp_path / "n1").symlink_to(secret)
    site.ends(None)
    site.look()
    assert site.software() == frozenset()


def test_what_was_so_before_a_node_was_started_anew_is_not_so(site: Site) -> None:
    site.look()
    site.ends()
    site.look()
    rebooted = replace(NODE, booted_ms=site.now_ms + 60_000)
    site.now_ms += 120_000
    assert site.software(rebooted) == frozenset()
    assert site.look(rebooted) == ["n1"]


def test_what_has_proved_wrong_is_not_believed_until_somebody_has_looked_again(site: Site) -> None:
    site.look()
    site.ends()
    site.look()
    site.now_ms += 1_000
    assert site.software(suspect_ms=site.now_ms) == frozenset()
    assert site.look(n1=site.now_ms) == ["n1"]
    site.now_ms += 1_000
    site.ends()
    assert site.software(suspect_ms=site.now_ms - 1_000) == {("gcc", "12.2")}


def test_what_slurm_does_not_take_is_said(site: Site) -> None:
    site.slurm.refuses = "sbatch: error: AssocMaxSubmitJobLimit"
    assert site.look() == []
    assert site.missing.endswith("its probe was not accepted: sbatch: error: AssocMaxSubmitJobLimit")


def test_a_probe_is_no_lease() -> None:
    assert tag_of(Job(1, ("RUNNING",), name="leasehold-probe-n1", comment=probe_comment(OWNER, "n1"))) is None
