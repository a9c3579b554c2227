"""Does the compiled decision core do the same, and how much faster? The last step of ``make fast``.

    python -m bench.compiled FOLDER

FOLDER has Leasehold with its core compiled, as ``make fast`` puts it there. The scenario that comes with
Leasehold is run by both, under several rules, each in a process of its own; all tables of both run folders
have to be equal. Exits with 1 where they are not.
"""

import argparse
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl

from bench.children import cost_of
from bench.table import show

SCENARIO = "demo"
RULES = (
    ("pap-rtdp", "moml"),
    ("rr", "mov"),
    ("late-binding", "by-value:pareto"),
    ("selective", "by-value:exact-cover"),
)
"""Routing and victim policies."""
COMPILED = ("leasehold.gateway.gateway", "leasehold.leasing.backfill", "leasehold.simulation.kernel")


@dataclass(frozen=True, slots=True)
class Pair:
    """What both cost under some rules (CPU seconds), and the tables in which they differ."""

    rules: str
    plain_s: float
    compiled_s: float
    differing: tuple[str, ...]


def compare(folder: Path, routing: str, victims: str) -> Pair:
    """Run both, and compare what they wrote."""
    with TemporaryDirectory(prefix="leasehold-compiled-") as scratch:
        plain, compiled = Path(scratch) / "plain", Path(scratch) / "compiled"
        plain_s = run(plain, routing, victims, "")
        compiled_s = run(compiled, routing, victims, folder)
        return Pair(f"{routing}, {victims}", plain_s, compiled_s, differing(plain, compiled))


def run(out: Path, routing: str, victims: str, python_path: Path | str) -> float:
    """Run the scenario in a process of its own; returns its CPU time in seconds."""
    command = [sys.executable, "-m", "leasehold.cli.main", "sim", "run", SCENARIO, "--out", str(out)]
    command += ["--routing", routing, "--victims", victims]
    command += ["--quiet", "--no-report", "--no-export", "--no-baseline"]
    return cost_of(command, environment(python_path)).cpu_s


def environment(python_path: Path | str) -> dict[str, str]:
    """Let Python look here first; nowhere else than usual where that is empty."""
    return os.environ | {"PYTHONPATH": str(python_path and Path(python_path).resolve())}


def differing(one: Path, other: Path) -> tuple[str, ...]:
    """Name the tables that are not the same in both run folders; raises FileNotFoundError for none at all."""
    names = sorted({path.name for folder in (one, other) for path in folder.glob("*.parquet")})
    if not names:
        raise FileNotFoundError(one / "*.parquet")
    return tuple(name for name in names if not _same(one / name, other / name))


def _same(one: Path, other: Path) -> bool:
    if not (one.exists() and other.exists()):
        return False
    return pl.read_parquet(one).equals(pl.read_parquet(other), null_equal=True)


def interpreted(folder: Path) -> list[str]:
    """Name the modules that are still plain Python in this folder, of those that ought not to be."""
    script = f"import importlib; print(*(importlib.import_module(n).__file__ for n in {COMPILED}), sep='\\n')"
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=folder, env=environment(folder))
    return [path for path in done.stdout.split() if path.endswith(".py")]


def main() -> int:
    """Compare, print, and say whether all is well."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    if plain := interpreted(folder):
        print(f"not compiled: {', '.join(plain)}", file=sys.stderr)
        return 1
    pairs = [compare(folder, *rules) for rules in RULES]
    show(["CPU seconds", "plain", "compiled", "ratio", "the same"], [_row(pair) for pair in pairs])
    return 1 if any(pair.differing for pair in pairs) else 0


def _row(pair: Pair) -> list[str]:
    same = f"no: {', '.join(pair.differing)}" if pair.differing else "yes"
    ratio = pair.plain_s / pair.compiled_s
    return [pair.rules, f"{pair.plain_s:.1f}", f"{pair.compiled_s:.1f}", f"{ratio:.2f}", same]


if __name__ == "__main__":
    sys.exit(main())
