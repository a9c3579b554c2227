"""How fast is matching? In-process, wall time (but for single jobs), 1,000 jobs on 10,000 nodes.

    python -m bench.matching [--jobs N] [--nodes N] [--single N] [--idle-share X]

Nodes are of 40 kinds of software at 8 places, with three sizes of memory, partly in use; jobs ask for one
to four nodes, for software, memory and files. Greedy matching makes the resource set of each job in its
turn, the best matching those of all jobs together; a single job is matched and its nodes are noted as
taken.
"""

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from random import Random
from statistics import median, quantiles
from time import perf_counter_ns, thread_time_ns
from typing import TypeVar

import scipy.sparse.csgraph  # noqa: F401 - what the solver imports when it is used first is not timed

from leasehold.matching.assignment import Assignment, greedy, optimal
from leasehold.matching.needs import Amounts, InputFile, Job, Needs
from leasehold.matching.node_index import NodeIndex
from leasehold.matching.nodes import EvaluationTime, Link, Network, Node, NodeCapabilities
from leasehold.matching.resource_sets import JointResourceSets, SequentialResourceSets
from leasehold.matching.software import installed, software
from leasehold.service.assignment_solver import solve_by_scipy

PLACES = tuple(f"place {number}" for number in range(8))
KINDS = 40
NOW = EvaluationTime(0)

Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class Matching:
    """What was measured, in seconds but for single jobs; ``jobs`` were asked for, ``served`` by each way."""

    jobs: int
    nodes: int
    nodes_wanted: int
    index_s: float
    greedy_s: float
    greedy_served: int
    greedy_mean_weight_s: float
    optimal_s: float
    optimal_served: int
    optimal_mean_weight_s: float
    single_median_us: float
    single_p99_us: float


def matching(jobs: int = 1_000, nodes: int = 10_000, single: int = 1_000, idle_share: float = 0.5) -> Matching:
    """Measure all of it on drawn jobs and nodes, always the same ones; so many nodes have no queue."""
    random = Random(1)
    drawn = [_node(number, random, idle_share) for number in range(nodes)]
    asked = [_job(number, random) for number in range(jobs)]
    wanted = sum(job.needs.nodes for job in asked)
    index, index_s = _timed(lambda: NodeIndex(drawn, _network()))
    in_turn, greedy_s = _timed(lambda: greedy(asked, SequentialResourceSets(index, NOW)))
    best, optimal_s = _timed(lambda: optimal(asked, JointResourceSets(index, NOW, wanted), solve_by_scipy))
    times_us = _single_us(index, [_job(jobs + number, random) for number in range(single)])
    return Matching(
        jobs=jobs,
        nodes=nodes,
        nodes_wanted=wanted,
        index_s=index_s,
        greedy_s=greedy_s,
        greedy_served=len(in_turn.placed),
        greedy_mean_weight_s=_mean_weight_s(in_turn),
        optimal_s=optimal_s,
        optimal_served=len(best.placed),
        optimal_mean_weight_s=_mean_weight_s(best),
        single_median_us=median(times_us),
        single_p99_us=quantiles(times_us, n=100)[98],
    )


def _timed(make: Callable[[], Made]) -> tuple[Made, float]:
    begun_ns = perf_counter_ns()
    made = make()
    return made, (perf_counter_ns() - begun_ns) / 1e9


def _single_us(index: NodeIndex, jobs: Sequence[Job]) -> list[float]:
    """Match jobs one by one, each among what those before it left; processor time, as others may run."""
    times_us = []
    for job in jobs:
        begun_ns = thread_time_ns()
        for edge in list(islice(SequentialResourceSets(index, NOW).edges(job, ()), job.needs.nodes)):
            node = index.node(edge.node)
            index.put(replace(node, free=_left(node.free, job.needs.amounts)))
        times_us.append((thread_time_ns() - begun_ns) / 1e3)
    return times_us


def _left(free: Amounts, used: Amounts) -> Amounts:
    return Amounts(free.cores - used.cores, free.memory_mib - used.memory_mib, free.disk_mib - used.disk_mib)


def _mean_weight_s(found: Assignment) -> float:
    edges = sum(map(len, found.placed.values()))
    return found.weight_ms / edges / 1e3 if edges else 0.0


def _network() -> Network:
    random = Random(2)
    ways = {
        (source, target): Link(random.randrange(5, 80), random.choice([12_500_000, 125_000_000]))
        for source in PLACES
        for target in PLACES
    }
    return Network(ways=ways)


def _node(number: int, random: Random, idle_share: float) -> Node:
    kind = random.randrange(KINDS)
    total = Amounts(
        random.choice([16, 32, 64]),
        random.choice([65_536, 131_072, 262_144]),
        random.choice([500_000, 1_000_000]),
    )
    used = random.choice([0, 0, 1, 2, 3])
    programs = [
        ("gcc", f"{10 + kind % 4}.2"),
        ("python", f"3.{8 + kind % 5}"),
        (f"package-{kind % 10}", "1.0"),
    ]
    able = NodeCapabilities(
        name=f"node-{number:05}",
        total=total,
        cpu_mhz=random.choice([2_200, 2_600, 3_000]),
        software=installed([*programs, ("kind", str(kind))]),
        place=random.choice(PLACES),
        bytes_per_s=random.choice([125_000_000, 1_250_000_000]),
    )
    free = Amounts(total.cores * (4 - used) // 4, total.memory_mib * (4 - used) // 4, total.disk_mib)
    waiting_ms = 0 if random.random() < idle_share else random.randrange(3_600_000)
    return Node(capabilities=able, free=free, waiting_ms=waiting_ms)


def _job(number: int, random: Random) -> Job:
    needed = (
        software(random.choice(["gcc >= 11", "gcc >= 12", "gcc"])),
        software(random.choice(["python >= 3.9", "python", f"package-{random.randrange(10)}"])),
    )
    files = tuple(
        InputFile(f"input-{part}", random.randrange(1_000_000_000), random.choice(PLACES))
        for part in range(random.randrange(3))
    )
    needs = Needs(
        amounts=Amounts(random.choice([1, 4, 8, 16]), random.choice([2_048, 16_384, 60_000, 120_000]), 10_000),
        execution_ms=random.randrange(60_000, 3_600_000),
        nodes=random.choice([1, 1, 1, 1, 2, 4]),
        cpu_mhz=random.choice([0, 2_200, 2_600]),
        software=needed,
        inputs=files,
    )
    return Job(job_id=number, submitted_ms=0, needs=needs)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1_000)
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--single", type=int, default=1_000)
    parser.add_argument("--idle-share", type=float, default=0.5, help="of the nodes; 0 is the hard case")
    given = parser.parse_args()
    print(json.dumps(asdict(matching(given.jobs, given.nodes, given.single, given.idle_share))))
