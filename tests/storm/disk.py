"""The disk below the stores: commits that are refused, and processes that die right before or after one.

Every connection that SQLAlchemy opens in a life of a process is a `DiskConnection`. So the store is shipped
as it is, and what fails is what fails in earnest: the call of the database's own library.
"""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Engine, event
from tests.storm.loop import LIFE, Killed, Life

FULL = "database or disk is full"
READ_ONLY = "attempt to write a readonly database"
BROKEN = "disk I/O error"
UNDONE = "undone in silence"
"""What a mutation does: nothing is written, and nobody is told."""

Before = Callable[[Life], str]
"""Says what a commit fails with, "" for nothing; it may let the process die."""

After = Callable[[Life], None]
"""Is told that something was committed; it may let the process die."""


class DiskConnection(sqlite3.Connection):
    """A connection of one process to its store."""

    before: Before
    after: After

    def commit(self) -> None:
        life = LIFE.get()
        if life is None or not self.in_transaction:
            super().commit()
            return
        problem = self.before(life)
        if not life.alive:
            raise Killed
        if problem == UNDONE:
            self.rollback()
            return
        if problem:
            raise sqlite3.OperationalError(problem)
        super().commit()
        self.after(life)
        if not life.alive:
            raise Killed


@contextmanager
def failing_disks(before: Before, after: After) -> Iterator[None]:
    """Let every store be opened on such a disk."""
    kind = type("Disk", (DiskConnection,), {"before": staticmethod(before), "after": staticmethod(after)})

    def open_on_it(_dialect: Any, _record: Any, _args: Any, options: dict[str, Any]) -> None:
        if LIFE.get() is not None:
            options["factory"] = kind

    event.listen(Engine, "do_connect", open_on_it)
    try:
        yield
    finally:
        event.remove(Engine, "do_connect", open_on_it)
