"""Let it storm: ``python -m tests.storm --seeds 0-999 --minutes 30``.

Each seed has a process of its own. What breaks a promise is printed with its seed, the last events, and the
command that shows the same again.
"""

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from multiprocessing import get_context

from tests.storm.mutants import MUTANTS
from tests.storm.storm import STORM_S, Outcome, Terms, run
from tests.storm.weather import KINDS

LAST = 25
"""So many events are shown before the first promise was broken."""


def main(argv: list[str]) -> int:
    """Let it storm as often as is asked for; 1 where a promise was broken."""
    asked = _arguments(argv)
    terms = Terms(
        asked.storm_s,
        tuple(filter(None, asked.only.split(","))),
        tuple(filter(None, asked.without.split(","))),
        None if asked.keep is None else frozenset(map(int, filter(None, asked.keep.split(",")))),
        asked.mutant or "",
    )
    failed: list[Outcome] = []
    reach: Counter[str] = Counter()
    virtual_s, seeds, began_s = 0.0, 0, time.monotonic()
    for outcome in storms(_seeds(asked.seeds), terms, asked.jobs, 60 * asked.minutes):
        seeds, virtual_s = seeds + 1, virtual_s + outcome.virtual_s
        reach.update(outcome.reach.keys())
        if asked.trace:
            sys.stdout.writelines(f"{_plain(event)}\n" for event in outcome.events)
        if asked.json:
            told = asdict(outcome)
            del told["events"], told["faults"]
            sys.stdout.write(f"{json.dumps(told)}\n")
        if outcome.violations:
            failed.append(outcome)
            sys.stdout.write(report(outcome, terms))
            if asked.shrink:
                sys.stdout.write(_shrunk(outcome, terms, asked.jobs))
        sys.stdout.flush()
        if failed and asked.first:
            break
    took_s = time.monotonic() - began_s
    summary = f"{seeds} seeds, {virtual_s:.0f} virtual seconds in {took_s:.0f} s: {len(failed)} broke a promise"
    sys.stdout.write(f"{summary}\nseeds that came to it: {json.dumps(dict(sorted(reach.items())))}\n")
    return 1 if failed else 0


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.storm", description=__doc__)
    parser.add_argument("--seeds", default="0-29", help="as 7, 0-999 or 1,5,9")
    parser.add_argument("--minutes", type=float, default=60.0, help="begin no seed later than this")
    parser.add_argument("--jobs", type=int, default=1, help="so many at a time")
    parser.add_argument("--storm-s", type=float, default=STORM_S, help="how long it storms, in virtual seconds")
    parser.add_argument("--only", default="", help=f"these faults only: {','.join(KINDS)}")
    parser.add_argument("--without", default="", help="all but these")
    parser.add_argument("--keep", help="only these faults of the plan, by number")
    parser.add_argument("--mutant", choices=sorted(MUTANTS), help="break the product on purpose")
    parser.add_argument("--trace", action="store_true", help="print every event")
    parser.add_argument("--json", action="store_true", help="print a line for each seed")
    parser.add_argument("--first", action="store_true", help="end with the first seed that fails")
    parser.add_argument("--shrink", action="store_true", help="leave faults out for as long as it still fails")
    return parser.parse_args(argv)


def _seeds(text: str) -> Iterator[int]:
    for part in text.split(","):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def storms(seeds: Iterator[int], terms: Terms, jobs: int, at_most_s: float) -> Iterator[Outcome]:
    """Let it storm for each seed, in a process forked for it alone, until the time is over."""
    until_s = time.monotonic() + at_most_s
    in_time = (seed for seed in seeds if time.monotonic() < until_s)
    with get_context("fork").Pool(jobs, maxtasksperchild=1) as pool:
        running = []
        for seed in in_time:
            running.append(pool.apply_async(run, (seed, terms)))
            if len(running) >= jobs:
                yield running.pop(0).get()
        for one in running:
            yield one.get()


def report(outcome: Outcome, terms: Terms, last: int = LAST) -> str:
    """Say what was broken, how it came to it, and how to see it again."""
    lines = [f"seed {outcome.seed} broke a promise, with digest {outcome.digest}:"]
    lines += [f"  {_plain(violation)[:400]}" for violation in outcome.violations]
    before = next((at for at, event in enumerate(outcome.events, 1) if "VIOLATION" in event), 0)
    lines += [f"  ... {_plain(event)[:200]}" for event in outcome.events[max(0, before - last) : before]]
    return "\n".join([*lines, f"  again: {command(outcome.seed, terms)} --trace", ""])


def command(seed: int, terms: Terms) -> str:
    """Give the command that lets the same storm come again."""
    words = ["python -m tests.storm", f"--seeds {seed}"]
    words += [f"--storm-s {terms.storm_s:g}"] if terms.storm_s != STORM_S else []
    words += [f"--only {','.join(terms.only)}"] if terms.only else []
    words += [f"--without {','.join(terms.without)}"] if terms.without else []
    words += [] if terms.keep is None else [f"--keep {','.join(map(str, sorted(terms.keep)))}"]
    return " ".join(words + ([f"--mutant {terms.mutant}"] if terms.mutant else []))


def _shrunk(outcome: Outcome, terms: Terms, jobs: int) -> str:
    """Leave out faults, halves first, for as long as something is broken still."""
    kept = [fault.number for fault in outcome.faults]
    size, found = len(kept), terms
    while size:
        size = (size + 1) // 2 if size > 1 else 0
        at = 0
        while size and at < len(kept):
            fewer = Terms(
                terms.storm_s,
                terms.only,
                terms.without,
                frozenset(kept[:at] + kept[at + size :]),
                terms.mutant,
            )
            (again,) = storms(iter([outcome.seed]), fewer, jobs, 600)
            if again.violations:
                outcome, found, kept = again, fewer, [*kept[:at], *kept[at + size :]]
            else:
                at += size
    faults = [f"  {fault}" for fault in outcome.faults]
    return "\n".join(["shrunk:", *faults, f"  again: {command(outcome.seed, found)}", *outcome.violations[:3], ""])


def _plain(text: str) -> str:
    """Nothing that a lying machine says reaches a terminal."""
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(code)
