"""What a job is given, and what it leaves behind: a folder for each, which we and all nodes see.

The script writes down when its command began, and how and when it ended, so that it is known to the
millisecond, and also when Slurm has long forgotten the job. What the command writes has a file of its own:
what Slurm says of the job comes between no lines of it.
"""

import os
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from pwd import getpwnam

from leasehold.service.enactors.facts import Output
from leasehold.service.enactors.slurm.holding import Holding
from leasehold.service.enactors.slurm.others_files import read_end, write_anew

SCRIPT, CONSOLE, BEGUN, ENDED, OUTPUT, NODES = "script", "console", "begun", "ended", "output", "nodes"

_KEPT = 500
"""How many folders of leases that are gone are kept, for their consoles and outputs."""
_CONSOLE_BYTES = 256 * 1024
_OUTPUT_BYTES = 1024 * 1024
"""Of what the command wrote on each node so much is given, and never more than so much in all."""
_NOTE_BYTES = 4096
_FOR_EVER = ("tail", "-f", "/dev/null")

_TEXT = """\
#!/bin/sh
# Written by Leasehold for lease {lease}: whoever cancels this job takes the lease's machines away.
cd {folder} || exit
rm -f {ENDED} {BEGUN}
for before in {OUTPUT} {OUTPUT}.*; do
    if [ -f "$before" ]; then cat "$before" && rm -f "$before"; fi
done
date +%s%3N > {BEGUN}
{command}
status=$?
echo "$status $(date +%s%3N)" > {ENDED}.partial && mv {ENDED}.partial {ENDED}
exit $status
"""
"""A job that begins anew leaves what it wrote before on its console: its output is that of one run."""


@dataclass(frozen=True, slots=True)
class Traces:
    """What a job has left behind: when its command began and ended (Unix ms), and its exit status."""

    begun_ms: int | None = None
    ended_ms: int | None = None
    exit_status: int | None = None


class Papers:
    """The folders of all jobs. ``user`` is whose they are, empty for our own."""

    def __init__(self, folder: Path, user: str, cpus_per_vm: int) -> None:
        self._folder = folder.absolute()
        self._user = user
        self._cpus_per_vm = cpus_per_vm

    def of(self, holding: Holding) -> Path:
        """The folder of one lease's job."""
        return self._folder / f"{holding.lease_id}.{holding.birth}"

    def write(self, holding: Holding) -> Path:
        """Make the folder of a job, and the script in it."""
        folder = self.of(holding)
        folder.mkdir(parents=True, exist_ok=True)
        write_anew(folder / NODES, "\n".join(holding.nodes))
        return hand_over(folder, self._text(holding), self._user)

    def _text(self, holding: Holding) -> str:
        folder = shlex.quote(str(self.of(holding)))
        return _TEXT.format(
            lease=holding.lease_id,
            folder=folder,
            command=self._command(holding),
            BEGUN=BEGUN,
            ENDED=ENDED,
            OUTPUT=OUTPUT,
        )

    def _command(self, holding: Holding) -> str:
        """Run a command once for each VM; all of them have to end until it has ended."""
        words = shlex.join(holding.command or _FOR_EVER)
        if holding.vms == 1 or not holding.command:
            return f"{words} > {OUTPUT} 2>&1"
        each = f"--ntasks={holding.vms} --cpus-per-task={holding.cores or self._cpus_per_vm}"
        srun = f"srun {each} --wait=0 --kill-on-bad-exit=0"
        if not holding.nodes:
            return f"{srun} --label sh -c 'exec \"$@\"' sh {words} > {OUTPUT} 2>&1"
        to_its_own = f'exec "$@" > "{OUTPUT}.$SLURMD_NODENAME" 2>&1'
        return f"{srun} --ntasks-per-node=1 sh -c {shlex.quote(to_its_own)} sh {words}"

    def traces(self, holding: Holding) -> Traces:
        """Read what a job has left behind so far."""
        folder = self.of(holding)
        ended = _numbers(folder / ENDED)
        begun = _numbers(folder / BEGUN)
        status, ended_ms = ended if len(ended) == 2 else (None, None)  # noqa: PLR2004 - status and time
        return Traces(begun[0] if begun else None, ended_ms, status)

    def console(self, lease_id: int) -> str:
        """Read the end of what Slurm and a lease's last job have written; empty where there is nothing."""
        folder = self._last_of(lease_id)
        if folder is None:
            return ""
        said = (read(path, _CONSOLE_BYTES).text for path in (folder / CONSOLE, *_outputs(folder)))
        return "".join(said)[-_CONSOLE_BYTES:]

    def output(self, lease_id: int) -> Output:
        """Read what a lease's command has written, on one node after the other; empty where nothing is."""
        folder = self._last_of(lease_id)
        parts = [] if folder is None else [read(path, _OUTPUT_BYTES) for path in _outputs(folder)]
        text = "".join(part.text for part in parts)
        is_whole = len(text) <= _OUTPUT_BYTES and all(part.is_whole for part in parts)
        return Output(text[-_OUTPUT_BYTES:], is_whole)

    def _last_of(self, lease_id: int) -> Path | None:
        return max(self._folder.glob(f"{lease_id}.*"), key=_birth, default=None)

    def clear_out(self, needed: Sequence[Holding]) -> None:
        """Remove the oldest folders that no holding needs, but for the last few hundred."""
        kept = {self.of(holding) for holding in needed}
        free = [folder for folder in self._folder.glob("*.*") if folder not in kept]
        if len(free) > 2 * _KEPT:
            for folder in sorted(free, key=_made)[:-_KEPT]:
                shutil.rmtree(folder, ignore_errors=True)


def hand_over(folder: Path, script: str, user: str) -> Path:
    """Put a script into a folder, in which its user may then write what he likes."""
    path = folder / SCRIPT
    write_anew(path, script)
    path.chmod(0o755)
    if user:
        found = getpwnam(user)
        os.chown(folder, found.pw_uid, found.pw_gid)
    return path


def as_user(user: str) -> dict[str, str]:
    """Only root may say it; without its group too, a job would run with root's."""
    return {"uid": user, "gid": str(getpwnam(user).pw_gid)} if user else {}


def _outputs(folder: Path) -> list[Path]:
    """The files of what a command wrote, in the order in which its nodes were named."""
    named = read(folder / NODES, _OUTPUT_BYTES).text.split()
    return [folder / OUTPUT, *(folder / f"{OUTPUT}.{node}" for node in named)]


def read(path: Path, most_bytes: int) -> Output:
    """Read the end of a file; empty where it is not there, or is none that may be read."""
    try:
        return Output(*read_end(path, most_bytes))
    except OSError:
        return Output("")


def _numbers(path: Path) -> list[int]:
    """Read the numbers in a file; none where it is not there, or is only half written."""
    try:
        return [int(word) for word in read(path, _NOTE_BYTES).text.split()]
    except ValueError:
        return []


def _birth(folder: Path) -> int:
    return int(folder.suffix[1:] or 0) if folder.suffix[1:].isdigit() else -1


def _made(folder: Path) -> float:
    try:
        return folder.stat().st_mtime
    except OSError:
        return 0.0
