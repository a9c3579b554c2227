"""What did a program cost? It runs as a whole process, and the kernel says afterwards.

The parent stays small on purpose: on some systems a child's peak of memory counts what forked it. So
everything that needs memory (logs, tables, simulations in-process) is done in children.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
_MAXRSS_PER_MIB = 2**20 if sys.platform == "darwin" else 2**10
"""macOS counts the peak in bytes, Linux in KiB."""


@dataclass(frozen=True, slots=True)
class Cost:
    """User and system time of all threads of a process, and the most memory that it held."""

    cpu_s: float
    peak_mib: float


def cost_of(command: Sequence[str], environment: Mapping[str, str] | None = None) -> Cost:
    """Run a program to its end, its output unread; in our environment, unless there is another.

    Raises CalledProcessError if it fails.
    """
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return Cost(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / _MAXRSS_PER_MIB)


def answer_of(module: str, *arguments: str) -> Any:  # noqa: ANN401 - whatever it answers
    """Run one module of this benchmark in a process of its own, and read the JSON that it prints."""
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=HERE.parent)
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


def leasehold(log: Path, procs: int, run: Path) -> list[str]:
    """The command that replays it with Leasehold: run folder and summary, no report and no exports."""
    command = [sys.executable, "-m", "leasehold.cli.main", "sim", "run", str(log), "--procs", str(procs)]
    return [*command, "--no-report", "--no-export", "--quiet", "--force", "--out", str(run)]


def simulation_alone(log: Path, procs: int, run: Path) -> list[str]:
    """The command that makes the same run folder and does not read it again."""
    return [sys.executable, str(HERE / "simulate.py"), str(log), str(procs), str(run)]
