"""Make a workload log for the benchmark; the same seed makes the same file on any machine.

    python bench/make_log.py OUT.swf [--jobs N] [--procs N] [--load F] [--estimates exact|loose] [--seed N]

Run times are lognormal (sigma 1.5, mean 600 s), sizes mostly powers of two up to half the machine, and
arrivals bursty (Weibull, shape 0.7), stretched at the end so that the load comes out exactly. Loose
estimates are 1 to 4 times the run time, rounded up to what people type.
"""

import argparse
import math
from bisect import bisect_left
from pathlib import Path
from random import Random

TYPED_S = [60, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 43200, 86400]
WEIGHTS = {1: 22, 2: 14, 4: 16, 8: 16, 16: 14, 32: 10, 64: 5, 128: 3}
LONGEST_S = 86_400
POWERS_OF_TWO = 0.75
SIGMA = 1.5
MEAN_S = 600


def make_log(
    path: Path, jobs: int, procs: int, load: float, estimates: str, seed: int = 1, *, mean_s: int = MEAN_S
) -> None:
    """Write a log of ``jobs`` jobs that loads ``procs`` processors by ``load``."""
    rng = Random(seed)
    drawn, clock = [], 0.0
    for _ in range(jobs):
        run_s = min(LONGEST_S, max(1, round(rng.lognormvariate(math.log(mean_s) - SIGMA**2 / 2, SIGMA))))
        clock += rng.weibullvariate(1.0, 0.7)
        drawn.append((clock, run_s, min(_size(rng), procs // 2), _estimate(rng, run_s, estimates)))
    work = sum(run_s * size for _, run_s, size, _ in drawn)
    stretch = work / (procs * load) / clock
    with path.open("w", encoding="utf-8") as out:
        out.write(f"; Version: 2.2\n; MaxJobs: {jobs}\n; MaxProcs: {procs}\n")
        out.write(f"; Note: seed {seed}, load {load}\n")
        for number, (at, run_s, size, asked_s) in enumerate(drawn, 1):
            out.write(f"{number} {int(at * stretch)} -1 {run_s} {size} -1 -1 {size} {asked_s}")
            out.write(f" -1 1 {number % 64} 1 1 1 1 -1 -1\n")


GPUS, CORES, MEMORY_MIB = 8, 96, 768_000
"""Each node of a GPU log."""
NODES_OF_TEN = (*[1] * 27, 2, 4, 8)


def make_gpu_log(folder: Path, jobs: int, nodes: int, load: float, seed: int = 1) -> None:
    """Write ``log.csv``, ``mapping.toml`` and ``nodes.txt`` of a cluster of GPU nodes, as `sim from-log` reads them.

    Nine jobs of ten are of one node and 1 to 8 GPUs, the others of 2, 4 or 8 whole nodes. Estimates are loose.
    """
    rng = Random(seed)
    drawn = list[tuple[int, int, int, int]]()
    for _ in range(jobs):
        count = rng.choice(NODES_OF_TEN)
        gpus = GPUS if count > 1 else rng.choice((1, 1, 1, 1, 2, 2, 4, 8))
        run_s = min(LONGEST_S, 30 + round(rng.lognormvariate(8.3, 1.3)))
        drawn.append((count, gpus, run_s, _estimate(rng, run_s, "loose")))
    span_s = sum(count * gpus * run_s for count, gpus, run_s, _ in drawn) / (nodes * GPUS * load)
    submitted = sorted(rng.uniform(0, span_s) for _ in drawn)
    with (folder / "log.csv").open("w", encoding="utf-8") as out:
        out.write("job,submit,start,end,limit,cpus,memory,gpus,nodes\n")
        for number, (at, (count, gpus, run_s, asked_s)) in enumerate(zip(submitted, drawn, strict=True), 1):
            cpus, memory_mib = count * gpus * CORES // GPUS, count * gpus * MEMORY_MIB // GPUS
            out.write(f"{number},{int(at)},{int(at)},{int(at) + run_s},{asked_s},{cpus},{memory_mib},")
            out.write(f"{count * gpus},{count}\n")
    seconds = "".join(f'{name} = {{ column = "{name}", unit = "s" }}\n' for name in ("submit", "start", "end", "limit"))
    (folder / "mapping.toml").write_text(
        f'title = "GPU log of the benchmark"\nformat = "csv"\n[columns]\njob = "job"\n{seconds}cpus = "cpus"\n'
        'memory = { column = "memory", unit = "MiB" }\ngpus = "gpus"\nnodes = "nodes"\n',
        encoding="utf-8",
    )
    listed = "".join(f"n{i:04d}|{CORES}|{MEMORY_MIB}|gpu:a100:{GPUS}\n" for i in range(nodes))
    (folder / "nodes.txt").write_text(listed, encoding="utf-8")


def _size(rng: Random) -> int:
    if rng.random() < POWERS_OF_TWO:
        return rng.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
    return max(1, round(math.exp(rng.uniform(0, math.log(128)))))


def _estimate(rng: Random, run_s: int, estimates: str) -> int:
    wanted = run_s * rng.uniform(1, 4)  # drawn in any case: other estimates, the same jobs
    if estimates == "exact":
        return run_s
    return max(run_s, TYPED_S[min(bisect_left(TYPED_S, wanted), len(TYPED_S) - 1)])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--procs", type=int, default=256)
    parser.add_argument("--load", type=float, default=0.85)
    parser.add_argument("--estimates", choices=["exact", "loose"], default="loose")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    make_log(given.out, given.jobs, given.procs, given.load, given.estimates, given.seed)
