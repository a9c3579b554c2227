"""How close ``sim`` comes to a real Slurm: jobs are run by one, and its accounting is simulated.

``python -m bench.slurm_waits --jobs 2000 --out docs/results/validation-slurm.md`` starts a private Slurm cluster with
accounting (as root; see `leasehold.testing.slurm`), lets users submit jobs in scaled time - what takes a user of a real
cluster an hour takes seconds here - and writes the page. The jobs sleep: what is compared is scheduling.

They take whole nodes, of which there are many with one CPU each. Slurm's backfill keeps for each interval the set of
nodes that are free (``node_space`` in its ``sched/backfill``): where jobs share nodes, the reservation of a job that
waits keeps all CPUs of its nodes from whatever would end later, which the simulation does not.
"""

import argparse
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl

from leasehold.analysis.recorded import RecordedWaits, recorded_waits, waits_of_each
from leasehold.analysis.run import load
from leasehold.simulation.run import run_scenario
from leasehold.simulation.scenario.from_log import LogOptions, read_accounting, scenario_for_log
from leasehold.simulation.workload.slurm import FIELDS
from leasehold.testing.slurm import SlurmCluster, accounted_cluster

NODES = 160
POLICIES = ("conservative", "easy", "fcfs")
PATIENT = {"SlurmdTimeout": "300", "MessageTimeout": "30", "TreeWidth": "100"}
"""So many nodes are not asked every second whether they are there."""
SCHEDULING = (
    "bf_interval=2,bf_max_time=60,bf_resolution=1,bf_continue,bf_max_job_test=5000,bf_window=2880,"
    "sched_interval=2,batch_sched_delay=0,sched_min_interval=0,default_queue_depth=5000"
)
"""As Slurm plans by default, but as often as the jobs are short: by default every 30 s, in steps of 60 s."""

_LOAD = 1.0
_WIDTHS = (1, 2, 4, 8, 16)
_WEIGHTS = (6, 4, 4, 3, 2)
_PATIENCE_S = 900


@dataclass(frozen=True, slots=True)
class Submission:
    """A job that a user submits; seconds after the first."""

    at_s: float
    cpus: int
    runs_s: int
    limit_min: int


def submissions(count: int, seed: int, cpus: int, pace: int) -> list[Submission]:
    """Draw jobs that together ask for most of the cluster, in busy and in quiet phases.

    They run ``pace`` times as long as the shortest that can be compared, and come so much more slowly: what Slurm
    takes to see an end, and to start a job, is as long whatever the pace.
    """
    draw = random.Random(seed)
    jobs = []
    for _ in range(count):
        runs_s = pace * min(max(round(draw.lognormvariate(2.95, 0.7)), 5), 120)
        limit_min = max(1, -(-runs_s * draw.choice([1, 2, 4, 10]) // 60))
        jobs.append((draw.choices(_WIDTHS, _WEIGHTS)[0], runs_s, limit_min))
    work_s = sum(width * runs_s for width, runs_s, _ in jobs)
    gap_s = work_s / (_LOAD * cpus * count)
    at_s, made = 0.0, []
    for number, (width, runs_s, limit_min) in enumerate(jobs):
        is_busy = number * 6 // count % 2 == 0
        at_s += draw.expovariate(1 / (gap_s * (0.6 if is_busy else 1.4)))
        made.append(Submission(at_s, width, runs_s, limit_min))
    return made


def run_jobs(cluster: SlurmCluster, jobs: Sequence[Submission]) -> str:
    """Submit the jobs when it is their time, wait until the last has ended, and give the accounting."""
    begin_s = time.monotonic()
    for job in jobs:
        time.sleep(max(begin_s + job.at_s - time.monotonic(), 0.0))
        # The clock of the accounting is the cluster's own: a submission that is late here is late there.
        options = [f"--ntasks={job.cpus}", f"--time={job.limit_min}", "--output=/dev/null"]
        cluster.run("sbatch", "--parsable", *options, "--wrap", f"exec sleep {job.runs_s}")
    cluster.until(lambda: not cluster.run("squeue", "--noheader").strip(), _PATIENCE_S)
    cluster.until(lambda: _ended(cluster) == len(jobs))
    return _sacct(cluster)


def _sacct(cluster: SlurmCluster) -> str:
    environment = cluster.environment() | {"SLURM_TIME_FORMAT": "%s"}
    command = ["sacct", "--allusers", "--allocations", "--duplicates", "--parsable2", f"--format={FIELDS}"]
    command += ["--starttime=now-1days"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


def _ended(cluster: SlurmCluster) -> int:
    """Count the jobs whose end the accounting has: it learns of it a moment after the queue."""
    ended = ("|COMPLETED|", "|TIMEOUT|")
    return sum(any(state in line for state in ended) for line in _sacct(cluster).splitlines())


@dataclass(frozen=True, slots=True)
class Compared:
    """The waits, and how many jobs started before one that had been submitted earlier: recorded, and simulated."""

    waits: RecordedWaits
    overtook: int
    overtook_simulated: int


def simulated(accounting: Path, procs: int, policy: str) -> Compared:
    """Simulate the accounting without guests, and compare the waits."""
    with TemporaryDirectory() as place:
        folder = Path(place) / "run"
        folder.mkdir()
        log, _ = read_accounting([accounting], folder, UTC, procs)
        scenario = scenario_for_log(log, LogOptions(procs=str(procs), site="slurm"), {"defaults.local_policy": policy})
        run = load(run_scenario(scenario, folder).path)
        waits, pairs = recorded_waits(run), waits_of_each(run)
        submitted = run.log.select("source_id", "submit_ms")
    assert waits is not None, "the run is of this accounting"
    assert pairs is not None
    jobs = pairs.join(submitted, on="source_id").sort("submit_ms", pl.col("source_id").cast(pl.Int64))
    return Compared(waits, _overtaking(jobs, "recorded_ms"), _overtaking(jobs, "simulated_ms"))


def _overtaking(jobs: pl.DataFrame, wait: str) -> int:
    """Count the jobs that started before one that had been submitted earlier."""
    start = jobs["submit_ms"] + jobs[wait]
    return int((start < start.cum_max()).sum())


def page(found: dict[str, Compared], jobs: Sequence[Submission], version: str, command: str) -> Iterator[str]:
    """Write the page."""
    any_one = next(iter(found.values())).waits
    span_s = jobs[-1].at_s
    load = sum(job.cpus * job.runs_s for job in jobs) / (NODES * span_s)
    best = any_one
    yield "# Validation against Slurm"
    yield ""
    yield (
        f"{any_one.jobs:,} jobs were run by a real Slurm cluster ({version}, {NODES} nodes of one CPU, on one "
        "machine), and its accounting was simulated by [`sim from-slurm`](../howto/from-slurm.md) without guests. "
        "This compares the wait of every job, as Slurm recorded it and as simulated."
    )
    yield ""
    yield (
        f"Time is scaled: the jobs sleep for {min(job.runs_s for job in jobs)} to {max(job.runs_s for job in jobs)} s "
        f"and were submitted within {span_s / 60:.0f} min, in busy and quiet phases, {load:.0%} of the cluster in all; "
        "they took from 1 to 16 nodes, and used from a tenth of their time limit up to all of it. Slurm planned every "
        "two seconds (`sched/backfill`, `bf_interval=2`, `bf_resolution=1`) by order of submission (`priority/basic`)."
    )
    yield ""
    yield (
        "| backfilling in the simulation | mean wait | recorded | error | half differ by | 95 % by | started later "
        "| overtook |"
    )
    yield "|---|---|---|---|---|---|---|---|"
    for policy, one in found.items():
        waits = one.waits
        error = "-" if waits.error_pct is None else f"{waits.error_pct:+.1f} %"
        yield (
            f"| `{policy}` | {waits.simulated.mean_s:.1f} s | {waits.recorded.mean_s:.1f} s | {error} | at most "
            f"{waits.median_off_s:.1f} s | at most {waits.p95_off_s:.1f} s | {waits.late_pct:.0f} % of the jobs | "
            f"{one.overtook_simulated:,}, recorded {one.overtook:,} |"
        )
    yield ""
    yield (
        "Slurm's backfill plans a start for every waiting job, as `conservative` does, which is the default. With it, "
        f"the median wait is {best.simulated.median_s:.1f} s, recorded {best.recorded.median_s:.1f} s. *Overtook*: "
        "jobs that started before one that had been submitted earlier, which is what backfilling is. A simulated job "
        "starts at the instant at which there is room; Slurm takes some seconds to see that a job has ended and to "
        "start the next one, the more the busier its machine is, and this one also ran the jobs."
    )
    yield ""
    yield (
        "The jobs take whole nodes, because that is how Slurm's backfill plans: for each interval it keeps the set of "
        "nodes that are free, and a job that waits has certain nodes reserved, which the simulation only counts. Where "
        "jobs share nodes, a reservation keeps all CPUs of its nodes from whatever would end later: there Slurm "
        "backfills still less ([how much](../howto/from-slurm.md#where-jobs-share-nodes)). How much of the error these "
        "nodes explain, and how much the seconds that Slurm takes, was not taken apart."
    )
    yield ""
    yield (
        "What this does not show: priorities by age, fair share and QOS, limits of users, reservations, nodes that "
        "fail, and jobs that share nodes by memory. The simulation has none of them, so accounting of a cluster that "
        "uses them is reproduced less well. `sim from-slurm` prints the same comparison for your own."
    )
    yield ""
    yield f"To repeat it (Debian, as root, some {span_s / 60 + 5:.0f} min):"
    yield ""
    yield "```sh"
    yield command
    yield "```"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the jobs, simulate their accounting, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pace", type=int, default=2, help="let jobs run so many times as long, and come more slowly")
    parser.add_argument("--accounting", type=Path, help="keep what sacct printed here")
    parser.add_argument("--out", type=Path, help="the page; else to standard output")
    given = parser.parse_args(arguments)
    jobs = submissions(given.jobs, given.seed, NODES, given.pace)
    with TemporaryDirectory() as place:
        accounting = given.accounting or Path(place) / "accounting.txt"
        with accounted_cluster("validation", NODES, 1, SchedulerParameters=SCHEDULING, **PATIENT) as cluster:
            version = cluster.run("sinfo", "--version").strip()
            accounting.write_text(run_jobs(cluster, jobs), encoding="utf-8")
        found = {policy: simulated(accounting, NODES, policy) for policy in POLICIES}
    out = " --out docs/results/validation-slurm.md"
    command = f"python -m bench.slurm_waits --jobs {given.jobs} --seed {given.seed} --pace {given.pace}{out}"
    text = "\n".join(page(found, jobs, version, command)) + "\n"
    if given.out is None:
        sys.stdout.write(text)
    else:
        given.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
