"""One Slurm cluster through its own commands, each with a deadline.

A command that fails does not always say why: ``scontrol suspend`` has the same words for a job that it does not
know and for a controller that is down. So whatever is *done* here may or may not have come about, and only
`Slurm.jobs` tells; and a query that fails is never an empty one.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from leasehold.model.errors import LeaseholdError
from leasehold.service.drivers.bounds import whole_in
from leasehold.service.drivers.slurm.cluster import (
    BadReply,
    Job,
    Node,
    memory_is_consumable,
    read_jobs,
    read_nodes,
    read_time_limits,
)
from leasehold.service.drivers.slurm.options import SlurmOptions

Result = TypeVar("Result")

_LAST_JOB = 2**32
_PATH = "/usr/local/bin:/usr/bin:/bin"
_IN_DOUBT = re.compile(
    "unable to contact|socket timed out|connect failure|communication connection|zero bytes|authentication|munge"
    "|backup controller|standby mode",
    re.IGNORECASE,
)
"""What ``sbatch`` says where it cannot know whether the job was accepted."""
_NOT_NOW = re.compile("temporarily|limit|busy|try again|down or not responding", re.IGNORECASE)
"""What it says where the same job may be accepted later."""

_CHANGED_BY = {
    "nodelist": "ReqNodeList",
    "nodes": "NumNodes",
    "mincpus": "MinCPUsNode",
    "mem": "MinMemoryNode",
    "mem-per-cpu": "MinMemoryCPU",
}
"""What ``scontrol update`` calls an option of ``sbatch``."""


class SlurmUnavailable(ConnectionError):
    """The cluster could not be asked, or did not answer in time; whatever was to be done may have been."""


class SlurmRefused(LeaseholdError):
    """The cluster does not accept a job; ``again`` says whether it may accept it later."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.again = _NOT_NOW.search(text) is not None


class Step(StrEnum):
    """One thing to be done to a job.

    SUSPEND  stop its processes, and let its CPUs be given away
    RESUME   continue its processes, even if other jobs have its CPUs meanwhile
    HOLD     keep a pending job from starting
    RELEASE  let a held job wait for its nodes
    REQUEUE  end it, and put it back into the queue, where it is held
    CANCEL   end it, in whatever state it is
    """

    HOLD = "hold"
    RELEASE = "release"
    SUSPEND = "suspend"
    RESUME = "resume"
    REQUEUE = "requeue"
    CANCEL = "cancel"


class Slurm:
    """One cluster, as the options of a site name it. May be used from one thread at a time."""

    def __init__(self, options: SlurmOptions) -> None:
        self._options = options
        self._deadline_s = options.answer_within_ms / 1000
        self._cluster = ["-M", options.cluster] if options.cluster else []

    # queries; each raises SlurmUnavailable

    def jobs(self) -> list[Job]:
        """List every job that the cluster knows, also those that have finished within MinJobAge."""
        return self._read(read_jobs, "squeue", "--json", "--all", "--states=all")

    def nodes(self) -> dict[str, Node]:
        """List the nodes by their names."""
        return self._read(read_nodes, "scontrol", "--oneliner", "show", "node")

    def time_limits(self) -> dict[str, int | None]:
        """List the time limits of the partitions (minutes; None: none) by their names."""
        return self._read(read_time_limits, "scontrol", "--oneliner", "show", "partition")

    def memory_is_consumable(self) -> bool:
        """Whether its configuration makes memory something that jobs hold."""
        return self._read(memory_is_consumable, "scontrol", "show", "config")

    # commands

    def submit(
        self,
        script: str,
        given: Mapping[str, str],
        environment: Mapping[str, str],
        *,
        requeue: bool = False,
        no_kill: bool = False,
    ) -> int:
        """Submit a job with the text of its script and these options of ``sbatch``, and return its number.

        Empty options are left out. With ``no_kill`` it goes on when a node fails. Raises SlurmRefused where the cluster
        does not accept the job, SlurmUnavailable where it may have.
        """
        words = [
            "--requeue" if requeue else "--no-requeue",
            *(["--no-kill"] if no_kill else []),
            *(f"--{name}={value}" for name, value in given.items() if value),
            *self._options.extra,
        ]
        done = self._run(["sbatch", *self._cluster, "--parsable", *words], environment, script)
        if done.returncode == 0:
            number = whole_in(done.stdout.strip().partition(";")[0], 1, _LAST_JOB)
            if number is None:
                raise SlurmUnavailable(f"sbatch answered something else than a number: {done.stdout!r:.60}")
            return number
        complaint = _complaint(done)
        if _IN_DOUBT.search(complaint):
            raise SlurmUnavailable(complaint)
        raise SlurmRefused(complaint)

    def do(self, step: Step, job_id: int) -> str:
        """Do something to a job; returns what the command complained of, empty where it did not."""
        verb = "requeuehold" if step is Step.REQUEUE else step.value
        command = ["scancel", *self._cluster] if step is Step.CANCEL else ["scontrol", *self._cluster, verb]
        done = self._run([*command, str(job_id)])
        return _complaint(done) if done.returncode else ""

    def place(self, job_id: int, cpus: int, given: Mapping[str, str]) -> str:
        """Let a pending job ask for so many CPUs, on nodes by these options; returns what the command complained of."""
        words = [f"{_CHANGED_BY[name]}={value.removesuffix('M')}" for name, value in given.items() if value]
        done = self._run(["scontrol", *self._cluster, "update", f"JobId={job_id}", f"NumCPUs={cpus}", *words])
        return _complaint(done) if done.returncode else ""

    def signal(self, job_id: int, signal: str) -> str:
        """Send a signal (``SIGUSR1``) to every process of a job; returns what the command complained of."""
        name = signal.removeprefix("SIG")
        done = self._run(["scancel", *self._cluster, f"--signal={name}", "--full", str(job_id)])
        return _complaint(done) if done.returncode else ""

    # how

    def _read(self, read: Callable[[str], Result], program: str, *words: str) -> Result:
        done = self._run([program, *self._cluster, *words], {"TZ": "UTC"})
        if done.returncode:
            raise SlurmUnavailable(_complaint(done))
        try:
            return read(done.stdout)
        except BadReply as error:
            raise SlurmUnavailable(str(error)) from error

    def _run(
        self, command: Sequence[str], environment: Mapping[str, str] | None = None, text: str = ""
    ) -> subprocess.CompletedProcess[str]:
        program = shutil.which(command[0])
        if program is None:
            raise SlurmUnavailable(f"{command[0]} is not installed here")
        try:
            return subprocess.run(  # noqa: S603 - the words are ours, the options', and numbers
                [program, *command[1:]],
                env=self._environment(environment or {}),
                input=text,
                capture_output=True,
                encoding="utf-8",  # what a lease's command has in it, whatever the gateway's locale
                errors="replace",
                timeout=self._deadline_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise SlurmUnavailable(f"{command[0]} took longer than {self._deadline_s:g} s") from None
        except OSError as error:
            raise SlurmUnavailable(f"{command[0]} cannot be run: {error.strerror}") from error

    def _environment(self, more: Mapping[str, str]) -> dict[str, str]:
        """What a command finds in its environment, and so a guest's job: none of the gateway's secrets."""
        kept = {name: os.environ[name] for name in ("LANG", "SLURM_CONF") if name in os.environ}
        if self._options.conf:
            kept["SLURM_CONF"] = str(Path(self._options.conf).absolute())
        return {"PATH": _PATH, **kept, **more}


def _complaint(done: subprocess.CompletedProcess[str]) -> str:
    """Put on one line what a command complained of."""
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    return "; ".join(lines) or f"{Path(done.args[0]).name} ended with status {done.returncode}"
