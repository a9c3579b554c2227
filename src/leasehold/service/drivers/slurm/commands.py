"""The line to one Slurm cluster: its own commands, each with a deadline.

A command that fails does not always say why: ``scontrol suspend`` has the same words for a job that it does
not know and for a controller that is down. So whatever is *done* here may or may not have come about, and
only `Slurm.jobs` tells; and a look that fails is never an empty one.
"""

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from leasehold.model.errors import LeaseholdError
from leasehold.service.drivers.bounds import whole_in
from leasehold.service.drivers.slurm.job import Job, Partition
from leasehold.service.drivers.slurm.node import Node
from leasehold.service.drivers.slurm.node_reply import BadReply, read_nodes
from leasehold.service.drivers.slurm.options import SlurmOptions
from leasehold.service.drivers.slurm.replies import (
    gives_memory_out,
    read_jobs,
    read_partitions,
)

Result = TypeVar("Result")

_LAST_JOB = 2**32
_PATH = "/usr/local/bin:/usr/bin:/bin"
_NO_CONTACT = (
    "unable to contact",
    "socket timed out",
    "connect failure",
    "communication connection",
    "zero bytes",
    "authentication",
    "munge",
    "backup controller",
    "standby mode",
)
"""What ``sbatch`` says where it cannot know whether the job was taken."""
_NOT_NOW = ("temporarily", "limit", "busy", "try again", "down or not responding")
"""What it says where the same job may be taken later."""


class SlurmSilent(ConnectionError):
    """The cluster could not be asked, or did not answer in time; whatever was to be done may have been."""


class SlurmRefused(LeaseholdError):
    """The cluster does not take a job; ``again`` says whether it may take it later."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.again = any(word in text.lower() for word in _NOT_NOW)


class Slurm:
    """One cluster, as the options of a site name it. May be used from one thread at a time."""

    def __init__(self, options: SlurmOptions) -> None:
        self._options = options
        self._deadline_s = options.answer_within_ms / 1000
        self._cluster = ["-M", options.cluster] if options.cluster else []

    # looking

    def jobs(self) -> list[Job]:
        """List every job that the cluster knows, also those that are over since MinJobAge.

        Raises SlurmSilent where that cannot be known.
        """
        return self._read(read_jobs, "squeue", "--json", "--all", "--states=all")

    def nodes(self) -> dict[str, Node]:
        """List the nodes by their names; raises SlurmSilent."""
        return self._read(read_nodes, "scontrol", "--oneliner", "show", "node")

    def partitions(self) -> dict[str, Partition]:
        """List the partitions by their names; raises SlurmSilent."""
        return self._read(read_partitions, "scontrol", "--oneliner", "show", "partition")

    def gives_memory_out(self) -> bool:
        """Say whether its configuration makes memory something that jobs hold; raises SlurmSilent."""
        return self._read(gives_memory_out, "scontrol", "show", "config")

    # doing: what comes back is what the command complained of, empty where it did not

    def submit(self, script: str, words: Sequence[str], environment: Mapping[str, str]) -> int:
        """Submit a job with the text of its script, and return its number.

        Raises SlurmRefused where the cluster does not take it, SlurmSilent where it may have taken it.
        """
        done = self._run(["sbatch", *self._cluster, "--parsable", *words], environment, script)
        if done.returncode == 0:
            number = whole_in(done.stdout.strip().partition(";")[0], 1, _LAST_JOB)
            if number is None:
                raise SlurmSilent(f"sbatch answered something else than a number: {done.stdout!r:.60}")
            return number
        said = _said(done)
        if any(word in said.lower() for word in _NO_CONTACT):
            raise SlurmSilent(said)
        raise SlurmRefused(said)

    def suspend(self, job_id: int) -> str:
        """Stop the processes of a job, and let its CPUs be given away."""
        return self._do("scontrol", *self._cluster, "suspend", str(job_id))

    def resume(self, job_id: int) -> str:
        """Let the processes of a suspended job go on, whoever has its CPUs meanwhile."""
        return self._do("scontrol", *self._cluster, "resume", str(job_id))

    def hold(self, job_id: int) -> str:
        """Keep a job that waits from starting."""
        return self._do("scontrol", *self._cluster, "hold", str(job_id))

    def release(self, job_id: int) -> str:
        """Let a job that is held wait for its nodes."""
        return self._do("scontrol", *self._cluster, "release", str(job_id))

    def requeue_and_hold(self, job_id: int) -> str:
        """End a job and put it back into the queue, where it is held."""
        return self._do("scontrol", *self._cluster, "requeuehold", str(job_id))

    def cancel(self, job_id: int) -> str:
        """End a job, whatever it is doing."""
        return self._do("scancel", *self._cluster, str(job_id))

    # how

    def _do(self, *command: str) -> str:
        """Do something; what became of it, the next look tells."""
        done = self._run(command)
        return _said(done) if done.returncode else ""

    def _read(self, read: Callable[[str], Result], program: str, *words: str) -> Result:
        done = self._run([program, *self._cluster, *words], {"TZ": "UTC"})
        if done.returncode:
            raise SlurmSilent(_said(done))
        try:
            return read(done.stdout)
        except BadReply as error:
            raise SlurmSilent(str(error)) from error

    def _run(
        self, command: Sequence[str], environment: Mapping[str, str] | None = None, said: str = ""
    ) -> subprocess.CompletedProcess[str]:
        program = shutil.which(command[0])
        if program is None:
            raise SlurmSilent(f"{command[0]} is not installed here")
        try:
            return subprocess.run(  # noqa: S603 - the words are ours, the options', and numbers
                [program, *command[1:]],
                env=self.environment(environment or {}),
                input=said,
                capture_output=True,
                encoding="utf-8",  # what a lease's command has in it, whatever locale the gateway was given
                errors="replace",
                timeout=self._deadline_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise SlurmSilent(f"{command[0]} took longer than {self._deadline_s:g} s") from None
        except OSError as error:
            raise SlurmSilent(f"{command[0]} cannot be run: {error.strerror}") from error

    def environment(self, more: Mapping[str, str]) -> dict[str, str]:
        """What a command finds in its environment, and so a guest's job: nothing of our own secrets."""
        kept = {name: os.environ[name] for name in ("LANG", "SLURM_CONF") if name in os.environ}
        if self._options.conf:
            kept["SLURM_CONF"] = str(Path(self._options.conf).absolute())
        return {"PATH": _PATH, **kept, **more}


def _said(done: subprocess.CompletedProcess[str]) -> str:
    """Put on one line what a command complained of."""
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    return "; ".join(lines) or f"{Path(done.args[0]).name} ended with status {done.returncode}"
