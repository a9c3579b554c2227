"""One QEMU process: started, found again after a restart, and killed.

A process is identified by the lock that it holds. It inherits the lock from its starter, before it becomes
QEMU, and the kernel releases the lock when the process is dead, whatever has killed it. So whether a machine
runs can be determined at any moment, even if its starter was killed before it could record anything; and no
other process with the same number is ever taken for it.
"""

import asyncio
import fcntl
import os
import signal
import subprocess
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from leasehold.service.drivers.reconciler.provider import MachineFailed

# In a session of its own, and a child of init from the start: it neither ends with its starter nor is its zombie.
_DETACHED = ("setsid", "--fork")
_START_S = 60
_DIES_WITHIN_S = 30
_POLL_S = 0.005
_LAST_LINES = 3


class MachineDied(MachineFailed):
    """The process of a machine has ended, and what ran in it is lost."""


class QemuProcess:
    """The process of one machine; ``lock`` is the file that it holds, in the folder that it works in.

    ``pid_file``  where QEMU writes its number
    ``log``       where its errors go
    """

    def __init__(self, lock: Path) -> None:
        self._lock = lock
        self.pid_file = lock.with_suffix(".pid")
        self.log = lock.with_suffix(".log")

    def is_alive(self) -> bool:
        """Whether the lock is held, which a process that is just starting does, too."""
        try:
            descriptor = os.open(self._lock, os.O_RDWR)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    def start(self, command: Sequence[str], descriptors: Sequence[int] = ()) -> None:
        """Start it detached, with these descriptors open. It may still fail, and then logs why.

        Raises MachineFailed where it runs already, or cannot be started.
        """
        self.pid_file.unlink(missing_ok=True)
        lock = self._take_lock()
        try:
            self._run([*_DETACHED, *command], (lock, *descriptors))
        finally:
            os.close(lock)

    def _take_lock(self) -> int:
        lock = os.open(self._lock, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise MachineFailed(f"{self._lock.name}: this machine runs already") from None
        return lock

    def _run(self, command: Sequence[str], descriptors: Sequence[int]) -> None:
        with self.log.open("wb") as log:
            try:
                done = subprocess.run(  # noqa: S603 - our own command line
                    command,
                    cwd=self._lock.parent,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    pass_fds=descriptors,
                    timeout=_START_S,
                    check=False,
                )
            except FileNotFoundError:
                raise MachineFailed(f"there is no {command[0]}: install util-linux") from None
            except subprocess.TimeoutExpired:
                raise MachineFailed(f"no process could be started within {_START_S} s") from None
        if done.returncode:
            raise MachineFailed(f"no process could be started: {self.last_log_lines()}")

    def kill(self) -> None:
        """Kill it; blocks until it is dead, and everything that it held is free.

        Raises MachineFailed where it does not die, or belongs to another user.
        """
        give_up_s = time.monotonic() + _DIES_WITHIN_S
        while self.is_alive():
            if time.monotonic() > give_up_s:
                raise MachineFailed(f"{self._lock} is held by a process that cannot be killed")
            for pid in self._holders():
                _kill_holder(pid, self._lock)
            time.sleep(_POLL_S)

    def pid(self) -> int | None:
        """Find its number; None where it is dead, or only just starting."""
        return next(self._holders(), None) if self.is_alive() else None

    def _holders(self) -> Iterator[int]:
        """Find the processes that have the lock open, without our own: by the pid file, or by looking at all."""
        written = self._written_pid()
        if written is not None and _has_open(written, self._lock):
            yield written
            return
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid() and _has_open(int(entry.name), self._lock):
                yield int(entry.name)

    def _written_pid(self) -> int | None:
        try:
            return int(self.pid_file.read_text(encoding="ascii"))
        except (OSError, ValueError):
            return None

    def last_log_lines(self) -> str:
        """Give the last lines of its log."""
        try:
            text = self.log.read_text(encoding="utf-8", errors="replace")
        except OSError:
            text = ""
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        return " / ".join(lines[-_LAST_LINES:]) or "it did not say why"


def _has_open(pid: int, file: Path) -> bool:
    """Whether a process has a file open; False for processes of other users, which cannot be asked."""
    try:
        return any(descriptor.samefile(file) for descriptor in list(Path(f"/proc/{pid}/fd").iterdir()))
    except OSError:
        return False


def _kill_holder(pid: int, lock: Path) -> None:
    """Kill a process by its descriptor, if it still has the lock open once the descriptor is there."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        if _has_open(pid, lock):
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    except ProcessLookupError:
        return
    finally:
        os.close(descriptor)


Result = TypeVar("Result")


async def gathered(works: Iterable[Coroutine[Any, Any, Result]]) -> list[Result]:
    """Do all of these concurrently; when one fails the others are cancelled, and its error is raised."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        await cancelled(tasks)


async def cancelled(tasks: "Iterable[asyncio.Future[Any]]") -> None:
    """Cancel these, and wait until they have ended."""
    tasks = list(tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def unless(failure: Coroutine[Any, Any, NoReturn], work: Coroutine[Any, Any, Result]) -> Result:
    """Do the work to its end, unless the other raises before."""
    tasks = (asyncio.ensure_future(work), asyncio.ensure_future(failure))
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if tasks[1] in done:
            tasks[1].result()
        return await tasks[0]
    finally:
        await cancelled(tasks)


async def uninterrupted(work: Callable[..., Result], *arguments: object) -> Result:
    """Run a function in a thread, and wait for its end even when cancelled: it never runs unobserved."""
    return await shielded(asyncio.ensure_future(asyncio.to_thread(work, *arguments)))


async def shielded(task: "asyncio.Future[Result]") -> Result:
    """Wait for the end of a task; a cancellation is raised only after it."""
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            try:
                await asyncio.wait([task])
            except asyncio.CancelledError:
                continue
        raise
