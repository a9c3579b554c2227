"""What did a program cost? It runs as a whole process, and the kernel says afterwards.

The parent stays small on purpose: on some systems a child's peak of memory counts what forked it. So
everything that needs memory (logs, tables, simulations in-process) is done in children.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
_BYTES = 1 if sys.platform == "darwin" else 2**10
"""macOS counts the peak in bytes, Linux in KiB."""

Environment = dict[str, str]


@dataclass(frozen=True, slots=True)
class Cost:
    """User and system time of all threads of a process, and the most memory that it held."""

    cpu_s: float
    peak_mb: float


def cost_of(command: Sequence[str], environment: Environment | None = None) -> Cost:
    """Run a program to its end, its output unread; in our environment, unless there is another.

    Raises CalledProcessError if it fails.
    """
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return Cost(usage.ru_utime + usage.ru_stime, usage.ru_maxrss * _BYTES / 1e6)


def answer_of(module: str, *arguments: str, environment: Environment | None = None) -> Any:  # noqa: ANN401 - whatever it answers
    """Run one module of this benchmark in a process of its own, and read the JSON that it prints."""
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=HERE.parent, env=environment)
    return json.loads(done.stdout)


def log_of(folder: Path, jobs: int, estimates: str) -> Path:
    """Make a log of the benchmark (`make_log`) in this folder."""
    path = folder / f"{estimates}-{jobs}.swf"
    command = [sys.executable, str(HERE / "make_log.py"), str(path), "--jobs", str(jobs)]
    subprocess.run([*command, "--estimates", estimates], check=True)
    return path


def by_hand(log: Path, procs: int, table: Path) -> list[str]:
    """The command that replays a log with the plain script."""
    return [sys.executable, str(HERE / "by_hand.py"), str(log), str(procs), str(table)]


def leasehold(*arguments: str) -> list[str]:
    """A command of Leasehold."""
    return [sys.executable, "-m", "leasehold.cli.main", *arguments]


def sim_run(scenario: str, run: Path, *flags: str) -> list[str]:
    """The command that simulates something into this run folder."""
    return leasehold("sim", "run", scenario, *flags, "--quiet", "--force", "--out", str(run))
