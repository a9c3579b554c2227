"""A job's directory and script: what a job is given, and what it leaves behind.

The script writes down when its command began, and how and when it ended, so that it is known to the millisecond,
and also when Slurm has long forgotten the job. What the command writes has a file of its own, free of Slurm's
messages about the job.

The directory of a job is the gateway's, and no other user can list it; what the driver relies on lies there. In it
are two others that belong to the user as whom the job runs, and that no other guest can enter: ``work``, in which the
script leaves its notes, and ``files``, the working folder of the command with its inputs and what it leaves behind.
Whatever is read from there is a guest's word: it is bounded, and believed for that guest's lease alone.
"""

import errno
import json
import os
import shlex
import shutil
import stat
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from leasehold.service.drivers.bounds import exit_status_in, time_ms_in
from leasehold.service.drivers.facts import Output
from leasehold.service.drivers.protocol import SIGNAL
from leasehold.service.drivers.slurm.instance import JobInstance, RunRecord
from leasehold.service.drivers.staging import MOST_OUTPUT_BYTES, TOO_LARGE, content_path

WORK, FILES = "work", "files"
"""The directories of the job's own user, in the one that is the gateway's."""
CONSOLE, BEGUN, ENDED, OUTPUT, ERROR = "console", "begun", "ended", "output", "error"
STATUS, STARTED = "status", "started"
"""What each task of a job that does without some of its nodes leaves at its end, and that any of them has begun."""
NODES, NOTICE, OUTPUTS, KEPT = "nodes", "notice", "outputs", "kept"
"""What is in the gateway's: names of nodes, a notice, names of files to be kept, and these; others are in ``work``."""
CHECKPOINTED = "checkpointed"
"""A guest touches it when it has saved its work."""

_OURS, _READ_BY_ALL, _PASSED_THROUGH, _ITS_USERS = 0o600, 0o644, 0o711, 0o700
_REMOVED_WITHIN_S = 10
_REMOVED_AT_ONCE = 2_000
"""So that their paths go into one command."""
_KEPT = 500
"""How many directories of leases that are gone are kept, for their consoles and outputs."""
_CONSOLE_BYTES = 256 * 1024
_OUTPUT_BYTES = 1024 * 1024
"""Of what the command wrote on each node so much is given, and never more than so much in all."""
_NOTE_BYTES = 4096
_COPIED_AT_ONCE = 1 << 20
_FOR_EVER = ("tail", "-f", "/dev/null")

_SCRIPT = """\
#!/bin/sh
# Written by Leasehold for lease {lease}: cancelling this job ends the lease.
cd {folder} || exit
rm -f {ENDED} {BEGUN} {STARTED} {STATUS}.*
{trap}
for before in {OUTPUT} {OUTPUT}.* {ERROR} {ERROR}.*; do
    if [ -f "$before" ]; then cat "$before" && rm -f "$before"; fi
done
date +%s%3N > {BEGUN}
cd {files} || exit
{command}
status=$?
cd {folder} || exit
{settle}
echo "$status $(date +%s%3N)" > {ENDED}.partial && mv {ENDED}.partial {ENDED}
exit $status
"""
"""A job that begins again leaves what it wrote before on its console: its output is that of one run."""

_ON_THOSE_LEFT = """\
left() {{ said=$(squeue --noheader --jobs="$SLURM_JOB_ID" --format=%D); echo "${{said:-{vms}}}"; }}
while nodes=$(left); do
    {srun} --nodes="$nodes" --ntasks="$nodes" {task}
    status=$?
    fewer=$(left)
    if [ -e {STARTED} ] || [ "$fewer" -ge "$nodes" ] || [ "$fewer" -lt {least} ]; then break; fi
done
(exit $status)"""
"""`srun` creates no step on a node that failed since the job began: the command then begins on those that are left."""

_OF_THOSE_LEFT = """\
worst=$(cat {STATUS}.* 2> /dev/null | sort -n | tail -n 1)
if [ "$(cat {STATUS}.* 2> /dev/null | wc -l)" -ge {least} ]; then status=$worst; fi"""
"""For `srun` a task whose node failed has failed. The job's status is the highest of those that came to their end,
where they are as many as it needs."""


def batch_script(instance: JobInstance, work: Path, image: Sequence[str] = ()) -> str:
    """Write what the job of an instance runs, which works in this directory: its command once for each VM.

    ``image`` are the words that run a command in the image that its lease names.
    """
    words = shlex.join((*image, *instance.command) if instance.command else _FOR_EVER)
    output, error = shlex.quote(str(work / OUTPUT)), shlex.quote(str(work / ERROR))
    # The shell itself must outlive a signal for the command; a handler, unlike `trap ''`, is not inherited.
    is_signal = instance.notify.startswith(SIGNAL)
    trap = f"trap : {instance.notify.removeprefix(SIGNAL)}" if is_signal else ":"
    if instance.vms == 1 or not instance.command:
        runs = f"{words} > {output} 2> {error}"
    else:  # it has ended when it has for all VMs
        srun = f"srun --cpus-per-task={instance.cores} --wait=0 --kill-on-bad-exit=0"
        to_its_own = f'"$@" > {output}."$SLURMD_NODENAME" 2> {error}."$SLURMD_NODENAME"'
        if instance.outlives_nodes:
            status, started = (shlex.quote(str(work / name)) for name in (STATUS, STARTED))
            each = f": > {started}; {trap}; {to_its_own}"
            each += f'; status=$?; echo $status > {status}."$SLURMD_NODENAME"; exit $status'
            runs = _ON_THOSE_LEFT.format(
                vms=instance.vms,
                srun=f"{srun} --no-kill --ntasks-per-node=1",
                task=f"sh -c {shlex.quote(each)} sh {words}",
                least=instance.least,
                STARTED=started,
            )
        elif instance.on_nodes and instance.per_node == 1:
            each = f"exec {to_its_own}"
            runs = f"{srun} --ntasks={instance.vms} --ntasks-per-node=1 sh -c {shlex.quote(each)} sh {words}"
        else:
            runs = f"{srun} --ntasks={instance.vms} --label sh -c 'exec \"$@\"' sh {words} > {output} 2> {error}"
    names = {
        "BEGUN": BEGUN,
        "ENDED": ENDED,
        "OUTPUT": OUTPUT,
        "ERROR": ERROR,
        "STATUS": STATUS,
        "STARTED": STARTED,
    }
    settle = _OF_THOSE_LEFT.format(least=instance.least, STATUS=STATUS) if instance.outlives_nodes else ":"
    files = shlex.quote(str(work.with_name(FILES)))
    return _SCRIPT.format(
        lease=instance.lease_id,
        folder=shlex.quote(str(work)),
        files=files,
        command=runs,
        trap=trap,
        settle=settle,
        **names,
    )


@dataclass(frozen=True, slots=True)
class JobDirectory:
    """The directory ``path`` of one job."""

    path: Path

    @property
    def work(self) -> Path:
        """Where the job works."""
        return self.path / WORK

    @property
    def notice(self) -> Path:
        """The file that says until when the job has before it is preempted."""
        return self.path / NOTICE

    @property
    def checkpoint(self) -> Path:
        """The file that the job touches when it has saved its work."""
        return self.work / CHECKPOINTED

    def give_notice(self, until_ms: int) -> None:
        """Write until when the job has (Unix seconds), where its user can read and not change it; raises OSError."""
        partial = self.path / f"{NOTICE}.partial"
        _replace_file(partial, f"{until_ms // 1000}\n", _READ_BY_ALL)
        partial.chmod(_READ_BY_ALL)  # whatever the umask is
        partial.replace(self.notice)

    def checkpointed_ms(self) -> int:
        """When the job last touched its file (Unix ms); 0: never, or what is there is no file."""
        try:
            found = self.checkpoint.lstat()
        except OSError:
            return 0
        return (time_ms_in(str(found.st_mtime_ns // 1_000_000)) or 0) if stat.S_ISREG(found.st_mode) else 0

    def create(self, instance: JobInstance, inputs: Path) -> None:
        """Make it, with the inputs that were brought to a folder; raises OSError."""
        self.notice.unlink(missing_ok=True)
        make_work_folder(self.path, instance.uid, instance.gid)
        _make_users_folder(self.path / FILES, instance.uid, instance.gid)
        for file in instance.files.inputs:
            _place(content_path(inputs, file.sha256), self.path / FILES, file.name, instance)
        _replace_file(self.path / NODES, "\n".join(instance.on_nodes), _OURS)
        _replace_file(self.path / OUTPUTS, json.dumps(instance.files.outputs), _OURS)

    def output_files(self) -> dict[str, Path | str]:
        """Copy the files to be kept that the command has left to where no guest can change them; raises OSError."""
        try:
            names = json.loads((self.path / OUTPUTS).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        kept = self.path / KEPT
        kept.mkdir(mode=0o700, exist_ok=True)
        found = {name: _kept(self.path / FILES, name, kept / str(number)) for number, name in enumerate(names)}
        return {name: path for name, path in found.items() if path is not None}

    def run_record(self) -> RunRecord:
        """Read what the script has written down so far."""
        begun = read_output(self.work / BEGUN, _NOTE_BYTES).text.split()
        ended = read_output(self.work / ENDED, _NOTE_BYTES).text.split()
        status, ended_ms = ended if len(ended) == 2 else ("", "")  # noqa: PLR2004 - status and time
        exit_status = exit_status_in(status)
        end = None if exit_status is None else time_ms_in(ended_ms)
        return RunRecord(time_ms_in(begun[0]) if begun else None, end, exit_status)

    def console(self) -> str:
        """Read the end of what Slurm and the job have written; empty where there is nothing."""
        paths = (self.work / CONSOLE, *self._written(OUTPUT), *self._written(ERROR))
        return "".join(read_output(path, _CONSOLE_BYTES).text for path in paths)[-_CONSOLE_BYTES:]

    def output(self) -> Output:
        """Read what the command has written, on one node after the other; empty where there is nothing."""
        text, is_whole = self._joined(OUTPUT)
        error, is_error_whole = self._joined(ERROR)
        return Output(text, is_whole and is_error_whole, error)

    def _joined(self, name: str) -> tuple[str, bool]:
        parts = [read_output(path, _OUTPUT_BYTES) for path in self._written(name)]
        text = "".join(part.text for part in parts)
        is_whole = len(text) <= _OUTPUT_BYTES and all(part.is_whole for part in parts)
        return text[-_OUTPUT_BYTES:], is_whole

    def _written(self, name: str) -> list[Path]:
        """The files of what a command wrote, in the order in which its nodes were named."""
        try:
            named = (self.path / NODES).read_text(encoding="utf-8").split()
        except OSError:
            named = []
        return [self.work / name, *(self.work / f"{name}.{node}" for node in named)]


class JobDirectories:
    """The directories of all jobs of a site, each named after its lease and the incarnation that was started."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.absolute()

    @property
    def inputs(self) -> Path:
        """Where inputs are brought to, each by its content; no guest can list it."""
        return self._folder / "inputs"

    def of(self, instance: JobInstance) -> JobDirectory:
        """The directory of an instance's job."""
        return JobDirectory(self._folder / f"{instance.lease_id}.{instance.generation}")

    def last_of(self, lease_id: int) -> JobDirectory:
        """The directory of a lease's last job; one that is not there where it has none."""
        found = max(self._folder.glob(f"{lease_id}.*"), key=_generation, default=self._folder / "none")
        return JobDirectory(found)

    def prune(self, needed: Iterable[JobInstance]) -> None:
        """Remove the oldest directories that are not needed, but for the last few hundred."""
        kept = {self.of(instance).path for instance in needed}
        free = [path for path in self._folder.glob("*.*") if path not in kept]
        if len(free) > 2 * _KEPT:
            # The oldest last: it may be one that cannot be removed in time, which must not be in others' way.
            _remove(sorted(free, key=_modified, reverse=True)[_KEPT:][:_REMOVED_AT_ONCE])


def _generation(path: Path) -> int:
    return int(path.suffix[1:] or 0) if path.suffix[1:].isdigit() else -1


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _remove(paths: Sequence[Path]) -> None:
    """Remove directories in which a guest could write, and which may be deeper than Python can go.

    The whole site waits for it: what cannot be done in time is left for the next time.
    """
    with suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run(  # noqa: S603 - our own path
            ["/bin/rm", "-rf", "--one-file-system", "--", *paths],
            stderr=subprocess.DEVNULL,
            timeout=_REMOVED_WITHIN_S,
            check=False,
        )


# --- directories that guests pass through -------------------------------------------------------------------


def make_job_folder(folder: Path) -> None:
    """Make what is missing of a directory of the gateway's; raises OSError, also where another process is faster."""
    for ours in reversed([path for path in (folder, *folder.parents) if not path.exists()]):
        ours.mkdir(mode=_PASSED_THROUGH)
        ours.chmod(_PASSED_THROUGH)  # whatever the umask is


def make_work_folder(folder: Path, uid: int, gid: int) -> None:
    """Make a directory that others can pass through and not list, and in it one that is a user's alone.

    Raises OSError.
    """
    make_job_folder(folder.parent)
    for ours in (folder.parent, folder):
        ours.mkdir(exist_ok=True)
        ours.chmod(_PASSED_THROUGH)  # whatever the umask is
    _make_users_folder(folder / WORK, uid, gid)


def _make_users_folder(folder: Path, uid: int, gid: int) -> None:
    folder.mkdir(mode=_ITS_USERS, exist_ok=True)
    if uid != os.geteuid():
        os.chown(folder, uid, gid, follow_symlinks=False)


def _place(content: Path, folder: Path, name: str, instance: JobInstance) -> None:
    """Put an input into the working folder of a job, in which a guest may already be at work; nothing is followed.

    Where a guest cannot change the content it is the same file, else a copy.
    """
    directory = os.open(folder, _READ | os.O_DIRECTORY)
    try:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=directory)
        if instance.uid not in {os.geteuid(), 0}:
            try:
                os.link(content, name, dst_dir_fd=directory)
            except OSError:  # it is on another file system
                pass
            else:
                return
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with content.open("rb") as source, os.fdopen(os.open(name, flags, 0o600, dir_fd=directory), "wb") as copy:
            shutil.copyfileobj(source, copy, _COPIED_AT_ONCE)
            if instance.uid != os.geteuid():
                os.fchown(copy.fileno(), instance.uid, instance.gid)
    finally:
        os.close(directory)


def _kept(folder: Path, name: str, copy: Path) -> Path | str | None:
    """Copy a file that a guest has left, as `read_tail` reads one; None where there is none."""
    try:
        with _opened(folder / name) as file:
            size = os.fstat(file.fileno()).st_size
            if size > MOST_OUTPUT_BYTES:
                return TOO_LARGE
            with copy.open("wb") as out:
                shutil.copyfileobj(file, out, _COPIED_AT_ONCE)
            return copy
    except FileNotFoundError:
        return None
    except UntrustedFile:
        return "it is not a file of the command's own: a link, a device, or an input as it was"


# --- files in directories in which guests may write ---------------------------------------------------------


class UntrustedFile(OSError):
    """It is a link, a device, or another user's file, which the guest that put it there may not read."""


_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def read_tail(path: Path, most_bytes: int) -> tuple[str, bool]:
    """Read the end of a file, and say whether that is all of it.

    The directory that holds it belongs to a guest, who may put anything there, also while this reads. What counts
    is a regular file, with no second name, that belongs to the owner of the directory; nothing is followed, and
    nothing waited for. Raises OSError where there is no such file.
    """
    with _opened(path) as file:
        begin = max(0, os.fstat(file.fileno()).st_size - most_bytes)
        file.seek(begin)
        return file.read(most_bytes).decode(errors="replace"), begin == 0


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    folder = os.open(path.parent, _READ | os.O_DIRECTORY)
    try:
        owner = os.fstat(folder).st_uid
        try:
            descriptor = os.open(path.name, _READ, dir_fd=folder)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise UntrustedFile(f"{path} is a link") from error
            raise
        with os.fdopen(descriptor, "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1 or found.st_uid != owner:
                raise UntrustedFile(f"{path} is not a file of its own")
            yield file
    finally:
        os.close(folder)


def read_output(path: Path, most_bytes: int) -> Output:
    """Read the end of a file; empty where it is not there, or may not be read."""
    try:
        return Output(*read_tail(path, most_bytes))
    except OSError:
        return Output("")


def _replace_file(path: Path, text: str, mode: int) -> None:
    """Write a file that is the gateway's alone, in place of whatever has its name."""
    path.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with os.fdopen(os.open(path, flags, mode), "w", encoding="utf-8") as file:
        file.write(text)
