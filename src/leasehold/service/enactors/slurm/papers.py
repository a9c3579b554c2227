"""What a job is given, and what it leaves behind: a folder for each, which we and all nodes see.

The script writes down when its command began, and how and when it ended, so that it is known to the
millisecond, and also when Slurm has long forgotten the job.
"""

import os
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from pwd import getpwnam

from leasehold.service.enactors.slurm.holding import Holding

SCRIPT, CONSOLE, BEGUN, ENDED = "script", "console", "begun", "ended"

_KEPT = 500
"""How many folders of leases that are gone are kept, for their consoles."""
_CONSOLE_BYTES = 256 * 1024
_FOR_EVER = ("tail", "-f", "/dev/null")

_TEXT = """\
#!/bin/sh
# Written by Leasehold for lease {lease}: whoever cancels this job takes the lease's machines away.
cd {folder} || exit
rm -f {ENDED} {BEGUN}
date +%s%3N > {BEGUN}
{command}
status=$?
echo "$status $(date +%s%3N)" > {ENDED}.partial && mv {ENDED}.partial {ENDED}
exit $status
"""


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
        script = folder / SCRIPT
        script.write_text(self._text(holding), encoding="utf-8")
        script.chmod(0o755)
        if self._user:
            user = getpwnam(self._user)
            os.chown(folder, user.pw_uid, user.pw_gid)
        return script

    def _text(self, holding: Holding) -> str:
        folder = shlex.quote(str(self.of(holding)))
        command = self._command(holding.command or _FOR_EVER, holding.vms if holding.command else 1)
        return _TEXT.format(lease=holding.lease_id, folder=folder, command=command, BEGUN=BEGUN, ENDED=ENDED)

    def _command(self, command: Sequence[str], vms: int) -> str:
        """Run a command once for each VM; all of them have to end until it has ended."""
        words = shlex.join(command)
        if vms == 1:
            return words
        share = f"--ntasks={vms} --cpus-per-task={self._cpus_per_vm}"
        return f"srun {share} --label --wait=0 --kill-on-bad-exit=0 {words}"

    def traces(self, holding: Holding) -> Traces:
        """Read what a job has left behind so far."""
        folder = self.of(holding)
        ended = _numbers(folder / ENDED)
        begun = _numbers(folder / BEGUN)
        status, ended_ms = ended if len(ended) == 2 else (None, None)  # noqa: PLR2004 - status and time
        return Traces(begun[0] if begun else None, ended_ms, status)

    def console(self, lease_id: int) -> str:
        """Read the end of what a lease's last job has written; empty where there is nothing."""
        folders = sorted(self._folder.glob(f"{lease_id}.*"), key=_birth)
        try:
            with (folders[-1] / CONSOLE).open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - _CONSOLE_BYTES))
                return file.read().decode(errors="replace")
        except (IndexError, OSError):
            return ""

    def clear_out(self, needed: Sequence[Holding]) -> None:
        """Remove the oldest folders that no holding needs, but for the last few hundred."""
        kept = {self.of(holding) for holding in needed}
        free = [folder for folder in self._folder.glob("*.*") if folder not in kept]
        if len(free) > 2 * _KEPT:
            for folder in sorted(free, key=_made)[:-_KEPT]:
                shutil.rmtree(folder, ignore_errors=True)


def _numbers(path: Path) -> list[int]:
    """Read the numbers in a file; none where it is not there, or is only half written."""
    try:
        return [int(word) for word in path.read_text(encoding="ascii").split()]
    except (OSError, ValueError):
        return []


def _birth(folder: Path) -> int:
    return int(folder.suffix[1:] or 0) if folder.suffix[1:].isdigit() else -1


def _made(folder: Path) -> float:
    try:
        return folder.stat().st_mtime
    except OSError:
        return 0.0
