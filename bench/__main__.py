"""How fast, how large: ``make bench``, or ``python -m bench [--quick] [--json FILE]``.

Leasehold is measured beside `by_hand`, the scheduler that a user would write in an evening, on logs that
`make_log` makes: 256 processors at load 0.85, conservative backfilling. Each replays the whole log as a
process of its own, in turn; only ratios of runs of the same benchmark say anything. Nothing is asserted.

What both do: read the log, plan with requested times, end jobs when they end, plan again when room comes
free early. The script writes one line for each job. Leasehold knows lease types, guests and preemption (no
guest comes here), checks what it reads, gives a reason for every decision, writes leases, segments and
decisions as Parquet, and reads them again for the summary that it prints.

The live gateway is measured beside its disk (`service`); a few runs of the published evaluation of routing
say how long all of it would take (`evaluation`).
"""

import argparse
import json
import os
import platform
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.children import answer_of
from bench.evaluation import evaluation, show_evaluation
from bench.growth import Growth, growth
from bench.matching import as_json as matching_as_json
from bench.matching import matching, show_matching
from bench.race import PROCS, Race, race
from bench.service import service, show_service
from bench.table import show
from bench.waiting import show_waiting_jobs, waiting_jobs

ROUNDS = 3
HELD = (1_000, 10_000, 100_000)


def main() -> None:
    """Measure, print, and write the numbers down where asked to."""
    parser = argparse.ArgumentParser(
        prog="python -m bench", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="smaller logs: under a minute, rougher numbers")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything measured to this file")
    given = parser.parse_args()
    with TemporaryDirectory(prefix="leasehold-bench-") as folder:
        races, grown, latencies = measure(Path(folder), quick=given.quick)
    served = service((1_000, 10_000), 2_000, say) if given.quick else service(HELD, 20_000, say)
    say("jobs and nodes")
    matched = matching(100, 1_000, 100) if given.quick else matching()
    waited = waiting_jobs(100, 8) if given.quick else waiting_jobs()
    say("a few runs of the evaluation of routing")
    evaluated = evaluation(5, 2) if given.quick else evaluation(19, 12)
    show_races(races)
    show_growth(grown)
    show_latencies(latencies)
    show_service(served)
    show_matching(matched)
    show_waiting_jobs(waited)
    show_evaluation(evaluated)
    if given.json is not None:
        told = as_json(races, grown, latencies) | {
            "service": asdict(served),
            "matching": matching_as_json(matched),
            "waiting": asdict(waited),
            "evaluation": asdict(evaluated) | {"whole_days": evaluated.whole_days},
        }
        given.json.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")


def measure(folder: Path, *, quick: bool) -> tuple[list[Race], list[Growth], list[dict[str, Any]]]:
    """Run everything, one after the other."""
    jobs, lengths = (10_000, (10_000, 40_000)) if quick else (100_000, (25_000, 100_000, 400_000))
    effort = ["--horizon-s", "21600", "--draws", "50"] if quick else []
    races = [race(folder, estimates, jobs, ROUNDS, say) for estimates in ("exact", "loose")]
    grown = [growth(folder, length, say) for length in lengths]
    say("single decisions")
    single = answer_of("bench.decisions", *effort)
    return races, grown, single + answer_of("bench.sharing", *(["--draws", "10000"] if quick else []))


def say(text: str) -> None:
    """Tell how far it is, beside the results."""
    print(text, file=sys.stderr, flush=True)


def show_races(races: Sequence[Race]) -> None:
    """Print who did how many jobs, and whether they did the same."""
    print(f"\nA log of {races[0].jobs:,} jobs on {PROCS} processors; median of {ROUNDS} runs each\n")
    speeds = ["jobs per CPU-second", "by hand", "leasehold", "ratio", "least", "most"]
    show(speeds, [_speeds(r) for r in races])
    show(["peak memory, MiB", "by hand", "leasehold"], [_peaks(r) for r in races])
    show(["same start, mean wait in s", "jobs", "same", "by hand", "leasehold"], [_starts(r) for r in races])


def _speeds(run: Race) -> list[str]:
    scripted, ours = run.speeds()
    ratios = run.ratios()
    middle = ratios[len(ratios) // 2]
    figures = [f"{ratio:.2f}" for ratio in (middle, ratios[0], ratios[-1])]
    return [_name(run), f"{scripted:,.0f}", f"{ours:,.0f}", *figures]


def _peaks(run: Race) -> list[str]:
    return [_name(run), *(f"{peak:,.0f}" for peak in run.peaks_mib())]


def _starts(run: Race) -> list[str]:
    found = run.agreement
    waits = (found["by_hand_wait_s"], found["leasehold_wait_s"])
    return [_name(run), f"{found['jobs']:,}", f"{found['same_start']:,}", *(f"{wait:,.0f}" for wait in waits)]


def _name(run: Race) -> str:
    return f"{run.estimates} estimates"


def show_growth(grown: Sequence[Growth]) -> None:
    """Print how memory grows with the log."""
    rows = [[f"{g.jobs:,} jobs", f"{g.simulating_mib:,.0f}", f"{g.command_mib:,.0f}"] for g in grown]
    show(["peak memory, MiB", "simulating", "with its summary"], rows)


def show_latencies(latencies: Sequence[dict[str, Any]]) -> None:
    """Print how long single decisions take."""
    rows = [
        [one["what"], f"{one['count']:,}", f"{one['median_us']:,.0f}", f"{one['p99_us']:,.0f}"] for one in latencies
    ]
    show(["one decision, microseconds", "times", "median", "99 %"], rows)


def as_json(races: Sequence[Race], grown: Sequence[Growth], latencies: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Put together everything measured, with where."""
    where = {"python": platform.python_version(), "machine": platform.machine(), "cpus": os.cpu_count()}
    return {
        "where": where,
        "races": [one.as_json() for one in races],
        "growth": [asdict(one) for one in grown],
        "decisions": list(latencies),
    }


if __name__ == "__main__":
    main()
