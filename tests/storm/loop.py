"""One thread, virtual time, and processes that can die between any two callbacks.

The event loop jumps to its next timer instead of waiting for it. What asks for a thread gets a callback a
little later; the work of one executor is done in the sequence in which it was asked for, as one thread
would. Every callback belongs to the life of the process that made it (a context variable), and one whose
life is over is never called.
"""

import asyncio
import os
import sqlite3
import sys
from collections.abc import Callable
from concurrent.futures import Executor
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LIFE: ContextVar["Life | None"] = ContextVar("life", default=None)
"""To which life of which process belongs what is going on?"""


class Killed(BaseException):
    """The process has just died: nothing that was still to be done is done."""


@dataclass(eq=False, slots=True)
class Life:
    """One life of a process: from a start to a crash.

    ``tasks`` are kept, so that nothing of a dead process is ever tidied up: a kernel runs no ``finally``.
    """

    process: str
    folder: Path
    number: int
    alive: bool = True
    disk_failed: bool = False
    tasks: set[asyncio.Task[Any]] = field(default_factory=set)
    calls: dict[asyncio.Future[Any], None] = field(default_factory=dict)
    connections: list[sqlite3.Connection] = field(default_factory=list)

    def let_go(self) -> None:
        """Do what the kernel does for the dead: undo open transactions, give locks back."""
        for connection in self.connections:
            connection.close()
        self.connections.clear()
        for descriptor in list(Path("/proc/self/fd").iterdir()):
            try:
                if descriptor.readlink().is_relative_to(self.folder):
                    os.close(int(descriptor.name))
            except OSError:
                continue  # the listing's own descriptor


class VirtualLoop(asyncio.SelectorEventLoop):
    """See above. ``pause_s`` says how long a thread takes to come to a piece of work of a life."""

    def __init__(self, pause_s: Callable[[Life | None], float]) -> None:
        super().__init__()
        self._pause_s = pause_s
        self._now_s = 0.0
        self._free_at: dict[Executor, float] = {}
        look: Callable[[float | None], list[Any]] = self._selector.select  # type: ignore[attr-defined]

        def jump(timeout: float | None) -> list[Any]:
            if timeout is None:
                raise RuntimeError("nothing will ever happen again")
            self._now_s += max(0.0, timeout)
            return look(0)

        self._selector.select = jump  # type: ignore[attr-defined]
        sys.addaudithook(_note_connections)

    def time(self) -> float:
        return self._now_s

    def create_task(self, coro: Any, **options: Any) -> asyncio.Task[Any]:
        task = super().create_task(coro, **options)
        context: Context | None = options.get("context")
        life = LIFE.get() if context is None else context.get(LIFE)
        if life is not None:
            life.tasks.add(task)
            task.add_done_callback(life.tasks.discard)
        return task

    def run_in_executor(self, executor: Executor | None, work: Callable[..., Any], *args: Any) -> Any:  # type: ignore[override]
        future = self.create_future()
        life = LIFE.get()
        at_s = self._now_s + self._pause_s(life)
        if executor is not None:
            at_s = self._free_at[executor] = max(at_s, self._free_at.get(executor, 0.0))
        self.call_at(at_s, _work, life, future, work, args)
        return future

    def call_soon(  # type: ignore[override]  # callbacks of any kind
        self, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        callback, args = self._guarded(callback, args, context)
        return super().call_soon(callback, *args, context=context)

    def call_at(  # type: ignore[override]  # as call_soon
        self, when: float, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        callback, args = self._guarded(callback, args, context)
        return super().call_at(when, callback, *args, context=context)

    def _guarded(self, callback: Any, args: Any, context: Context | None) -> tuple[Any, Any]:
        life = LIFE.get() if context is None else context.get(LIFE)
        return (callback, args) if life is None else (_if_alive, (life, callback, args))


def _if_alive(life: Life, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
    if life.alive:
        callback(*args)


def _work(life: Life | None, future: asyncio.Future[Any], work: Callable[..., Any], args: Any) -> None:
    """Do what a thread would; where the process died of it, nobody gets to know."""
    if future.cancelled():
        return
    answer: object = None
    failed: BaseException | None = None
    try:
        answer = work(*args)
    except BaseException as error:  # noqa: BLE001 - as a thread of a pool does
        failed = error
    if life is not None and not life.alive:
        life.let_go()
    elif failed is not None:
        future.set_exception(failed)
    else:
        future.set_result(answer)


def _note_connections(event: str, args: tuple[Any, ...]) -> None:
    """Keep every SQLite connection with the life that opened it, whoever did."""
    if event == "sqlite3.connect/handle" and (life := LIFE.get()) is not None:
        life.connections.append(args[0])


def in_life(life: Life | None) -> Context:
    """Give a context in which whatever is begun belongs to this life; None: to nobody who can die."""
    context = copy_context()
    context.run(LIFE.set, life)
    return context
