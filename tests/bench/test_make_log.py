"""The log of the benchmark: the same seed makes the same file, and the load is what was asked for."""

from pathlib import Path

import pytest

from bench.make_log import make_gpu_log, make_log
from leasehold.simulation.workload.interpretation import LoggedStream, PlacingRule, logged_jobs
from leasehold.simulation.workload.job import WorkloadJob
from leasehold.simulation.workload.log_record import ReadingNotes
from leasehold.simulation.workload.swf import SWF, swf_header

PROCS = 256


def jobs_of(log: Path) -> list[WorkloadJob]:
    return list(logged_jobs(LoggedStream(log, SWF, [PlacingRule(site="home")]), ReadingNotes("log")))


def made(folder: Path, estimates: str, seed: int = 1, jobs: int = 2_000) -> Path:
    log = folder / f"{estimates}-{seed}.swf"
    make_log(log, jobs, PROCS, load=0.85, estimates=estimates, seed=seed)
    return log


def work_of(jobs: list[WorkloadJob]) -> list[tuple[int, int, int]]:
    return [(job.submit_ms, job.vms, job.actual_ms) for job in jobs]


def test_the_same_seed_makes_the_same_file(tmp_path: Path) -> None:
    first = made(tmp_path, "loose").read_bytes()
    assert made(tmp_path, "loose").read_bytes() == first
    assert made(tmp_path, "loose", seed=2).read_bytes() != first


def test_makes_the_jobs_that_it_has_always_made(tmp_path: Path) -> None:
    """Results of one version are compared with those of another."""
    first = jobs_of(made(tmp_path, "loose"))[:3]
    told_s = [(j.submit_ms // 1000, j.vms, j.actual_ms // 1000, j.requested_ms // 1000) for j in first]
    assert told_s == [(27, 8, 484, 1800), (105, 4, 894, 3600), (111, 1, 1210, 3600)]


def test_estimates_change_nothing_but_what_is_asked(tmp_path: Path) -> None:
    exact, loose = jobs_of(made(tmp_path, "exact")), jobs_of(made(tmp_path, "loose"))
    assert work_of(exact) == work_of(loose)
    assert all(job.requested_ms == job.actual_ms for job in exact)
    assert all(job.requested_ms >= job.actual_ms for job in loose)
    assert any(job.requested_ms > job.actual_ms for job in loose)


def test_the_load_comes_out_as_asked(tmp_path: Path) -> None:
    log = made(tmp_path, "exact")
    jobs = jobs_of(log)
    work = sum(job.vms * job.actual_ms for job in jobs)
    assert work / (PROCS * jobs[-1].submit_ms) == pytest.approx(0.85, rel=1e-4)
    assert swf_header(log).max_procs() == PROCS
    assert max(job.vms for job in jobs) <= PROCS // 2


def test_a_gpu_log_loads_its_nodes(tmp_path: Path) -> None:
    make_gpu_log(tmp_path, 200, 10, 1.5)
    rows = (tmp_path / "log.csv").read_text(encoding="utf-8").splitlines()[1:]
    assert len(rows) == 200
    told = [list(map(int, row.split(","))) for row in rows]
    work = sum((end - start) * gpus for _, _, start, end, _, _, _, gpus, _ in told)
    assert work / (10 * 8) / max(submit for _, submit, *_ in told) == pytest.approx(1.5, rel=0.05)
