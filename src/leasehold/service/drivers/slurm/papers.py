"""What a job is given, and what it leaves behind: a folder for each, which we and all nodes see.

The script writes down when its command began, and how and when it ended, so that it is known to the
millisecond, and also when Slurm has long forgotten the job. What the command writes has a file of its own:
what Slurm says of the job comes between no lines of it.

The folder of a job is ours, and nobody else can list it; what we rely on lies there. In it is another one,
``work``, which belongs to the user as whom the job runs, and which no other guest can enter. Whatever is read
from there is a guest's word: it is bounded, and believed for that guest's lease alone.
"""

import os
import shlex
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from leasehold.service.drivers.bounds import exit_status_in, time_ms_in
from leasehold.service.drivers.facts import Output
from leasehold.service.drivers.slurm.holding import Holding
from leasehold.service.drivers.slurm.others_files import read_end, write_anew

CONSOLE, BEGUN, ENDED, OUTPUT, NODES = "console", "begun", "ended", "output", "nodes"
WORK = "work"
"""The folder of the job's own user, in the one that is ours."""

_OURS, _PASSED_THROUGH, _ITS_USERS = 0o600, 0o711, 0o700
_REMOVED_WITHIN_S = 10
_REMOVED_AT_ONCE = 2_000
"""So that their paths go into one command."""
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
    """The folders of all jobs."""

    def __init__(self, folder: Path, cpus_per_vm: int) -> None:
        self._folder = folder.absolute()
        self._cpus_per_vm = cpus_per_vm

    def of(self, holding: Holding) -> Path:
        """Our folder about one lease's job."""
        return self._folder / f"{holding.lease_id}.{holding.birth}"

    def work(self, holding: Holding) -> Path:
        """The folder in which that job works."""
        return self.of(holding) / WORK

    def write(self, holding: Holding) -> str:
        """Make the folders of a job, and give the script that runs there; raises OSError."""
        folder = self.of(holding)
        make_work_folder(folder, holding.uid, holding.gid)
        write_anew(folder / NODES, "\n".join(holding.nodes), _OURS)
        return self._text(holding)

    def _text(self, holding: Holding) -> str:
        folder = shlex.quote(str(self.work(holding)))
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
        work = self.work(holding)
        begun = read(work / BEGUN, _NOTE_BYTES).text.split()
        ended = read(work / ENDED, _NOTE_BYTES).text.split()
        status, ended_ms = ended if len(ended) == 2 else ("", "")  # noqa: PLR2004 - status and time
        exit_status = exit_status_in(status)
        end = None if exit_status is None else time_ms_in(ended_ms)
        return Traces(time_ms_in(begun[0]) if begun else None, end, exit_status)

    def console(self, lease_id: int) -> str:
        """Read the end of what Slurm and a lease's last job have written; empty where there is nothing."""
        folder = self._last_of(lease_id)
        if folder is None:
            return ""
        said = (read(path, _CONSOLE_BYTES).text for path in (folder / WORK / CONSOLE, *_outputs(folder)))
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
            # The oldest last: it may be one that cannot be removed in time, which must not be in others' way.
            _remove(sorted(free, key=_made, reverse=True)[_KEPT:][:_REMOVED_AT_ONCE])


def make_job_folder(folder: Path) -> None:
    """Make what is missing of a folder of ours; raises OSError, also where somebody else is faster."""
    for ours in reversed([path for path in (folder, *folder.parents) if not path.exists()]):
        ours.mkdir(mode=_PASSED_THROUGH)
        ours.chmod(_PASSED_THROUGH)  # whatever the umask is


def make_work_folder(folder: Path, uid: int, gid: int) -> None:
    """Make a folder of ours that others can pass through and not list, and in it one that is a user's alone.

    Raises OSError.
    """
    make_job_folder(folder.parent)
    for ours in (folder.parent, folder):
        ours.mkdir(exist_ok=True)
        ours.chmod(_PASSED_THROUGH)  # whatever the umask is
    work = folder / WORK
    work.mkdir(mode=_ITS_USERS, exist_ok=True)
    if uid != os.geteuid():
        os.chown(work, uid, gid, follow_symlinks=False)


def _remove(folders: Sequence[Path]) -> None:
    """Remove folders in which somebody else could write, and which may be deeper than Python can go.

    All of the site waits for it: what cannot be done in time is left, and goes on the next time.
    """
    with suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run(  # noqa: S603 - our own path
            ["/bin/rm", "-rf", "--one-file-system", "--", *folders],
            stderr=subprocess.DEVNULL,
            timeout=_REMOVED_WITHIN_S,
            check=False,
        )


def _outputs(folder: Path) -> list[Path]:
    """The files of what a command wrote, in the order in which its nodes were named."""
    try:
        named = (folder / NODES).read_text(encoding="utf-8").split()
    except OSError:
        named = []
    return [folder / WORK / OUTPUT, *(folder / WORK / f"{OUTPUT}.{node}" for node in named)]


def read(path: Path, most_bytes: int) -> Output:
    """Read the end of a file; empty where it is not there, or is none that may be read."""
    try:
        return Output(*read_end(path, most_bytes))
    except OSError:
        return Output("")


def _birth(folder: Path) -> int:
    return int(folder.suffix[1:] or 0) if folder.suffix[1:].isdigit() else -1


def _made(folder: Path) -> float:
    try:
        return folder.stat().st_mtime
    except OSError:
        return 0.0
