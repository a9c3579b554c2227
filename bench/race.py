"""Programs run in turn, each as a whole process: only what they cost beside each other says anything.

The least of some rounds counts. What takes seconds runs in turn with a yardstick, so that a machine that is
busy or slow slows both.
"""

import os
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench.children import Cost, Environment, cost_of

PURE, COMPILED = "pure", "compiled"
_NOT_THEIRS = frozenset({"PYTHONPATH", "PYTHONDONTWRITEBYTECODE"})
Say = Callable[[str], None]


class Skipped(Exception):
    """What a case needs is not here; says what."""


@dataclass(frozen=True, slots=True)
class Setting:
    """How the cases are to run: where files may lie, how large, how often, and with which variants.

    ``yardstick`` is the command that is timed beside whatever takes seconds, ``yardstick_s`` how long it takes
    where the seconds of the thresholds were measured.
    """

    folder: Path
    full: bool
    rounds: int
    variants: dict[str, Environment]
    yardstick: Sequence[str]
    yardstick_s: float
    say: Say
    logs: Path | None = None
    jobs: int | None = None

    def once(self) -> "Setting":
        """The same with one round."""
        return replace(self, rounds=1)

    def at_least(self, rounds: int) -> "Setting":
        """The same with more rounds, for what is short."""
        return replace(self, rounds=max(rounds, self.rounds))

    def pace(self) -> float:
        """Say how many seconds of the thresholds' machine pass in one of this, now."""
        return self.yardstick_s / cost_of(self.yardstick).cpu_s

    def in_turn(self, runs: Mapping[str, tuple[Sequence[str], Environment]]) -> dict[str, Cost]:
        """Run commands in turn, some rounds; returns the least that each cost."""
        least: dict[str, Cost] = {}
        for _ in range(self.rounds):
            for name, (command, environment) in runs.items():
                one = cost_of(command, environment)
                before = least.get(name, one)
                least[name] = Cost(min(one.cpu_s, before.cpu_s), min(one.peak_mb, before.peak_mb))
        return least

    def beside_yardstick(self, runs: Mapping[str, tuple[Sequence[str], Environment]]) -> dict[str, Cost]:
        """Run commands in turn with the yardstick; their times are in seconds of the thresholds' machine."""
        if "yardstick" in runs:
            raise ValueError("yardstick")
        costs = self.in_turn({"yardstick": (self.yardstick, dict(os.environ))} | dict(runs))
        pace = self.yardstick_s / costs.pop("yardstick").cpu_s
        return {name: replace(cost, cpu_s=cost.cpu_s * pace) for name, cost in costs.items()}


def variants(compiled: Path) -> dict[str, Environment]:
    """Return the environments in which Leasehold runs as plain Python and, if `make fast` was run, compiled.

    Everything that knows how a variant is chosen stands here. Modules are compiled to bytecode once, as where they
    were installed, whatever is set here.
    """
    pure = {name: value for name, value in os.environ.items() if name not in _NOT_THEIRS}
    found: dict[str, Environment] = {PURE: pure}
    if compiled.is_dir():
        found[COMPILED] = pure | {"PYTHONPATH": str(compiled.resolve())}
    return found


def machine() -> str:
    """Name the machine as far as its speed goes."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    return f"{os.cpu_count()} x {model or platform.machine()}, Python {platform.python_version()}, {sys.platform}"
