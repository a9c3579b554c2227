"""Processes that are there to be killed: each starts within milliseconds, and goes when its maker goes.

::

    with Killable(main, "some", "arguments") as process:
        process.tell("hello")
        ...
        process.kill()

``main(connection, *arguments)`` runs in a process that has imported the service already: a server of such
processes (`multiprocessing`'s) does that once, and forks one for each. ``main`` must be importable by name,
and should end when nothing more can be read from its connection.
"""

import os
from collections.abc import Callable, Mapping
from multiprocessing import get_context
from multiprocessing.connection import wait
from types import TracebackType
from typing import Any, Self

PRELOADED = (
    "leasehold.client.async_client",
    "leasehold.service.drivers.qemu.driver",
    "leasehold.service.serving",
    "leasehold.service.store.store",
    "psycopg",
    "sqlalchemy.dialects.postgresql.psycopg",
    "sqlalchemy.dialects.sqlite.pysqlite",
)
"""What takes a second to import; without it each start would take that second."""

_FORKS = get_context("forkserver")


def _begin(main: Callable[..., None], environment: Mapping[str, str], *arguments: object) -> None:
    """Begin with the environment of whoever makes the process: the server has that of whoever was the first."""
    os.environ.clear()
    os.environ.update(environment)
    main(*arguments)


class Killable:
    """One process, and this end of the pipe to it."""

    def __init__(self, main: Callable[..., None], *arguments: object) -> None:
        _FORKS.set_forkserver_preload(list(PRELOADED))
        self._connection, theirs = _FORKS.Pipe()
        begun = (main, dict(os.environ), theirs, *arguments)
        self._process = _FORKS.Process(target=_begin, args=begun, daemon=True)
        self._process.start()
        theirs.close()

    @property
    def pid(self) -> int:
        """Its number."""
        assert self._process.pid is not None
        return self._process.pid

    def tell(self, message: object) -> None:
        """Send it a message; a message to a dead process is dropped."""
        try:
            self._connection.send(message)
        except OSError:
            return

    def hear(self, timeout_s: float) -> list[Any]:
        """Wait for its next message, and return all messages so far; empty on timeout.

        Raises EOFError if it has ended and all its messages have been returned.
        """
        heard: list[Any] = []
        if wait([self._connection], timeout_s):
            try:
                while self._connection.poll():
                    heard.append(self._connection.recv())
            except (EOFError, OSError):  # OSError: it was killed in the middle of a word
                if not heard:
                    raise EOFError from None
        return heard

    def kill(self) -> None:
        """Kill it with SIGKILL and wait for its end; messages already sent can still be received."""
        self._process.kill()
        self._process.join()

    def ended(self) -> int:
        """Wait until it has ended by itself, and give its exit status; -9 where it was killed."""
        self._process.join()
        assert self._process.exitcode is not None
        return self._process.exitcode

    def close(self) -> None:
        """Kill it, and leave nothing behind; closing it again does nothing."""
        if not self._connection.closed:
            self.kill()
            self._connection.close()
            self._process.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
