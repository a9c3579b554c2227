"""Where the runs of a campaign are made: in this process, on this machine's processors, or on many machines.

One machine is joblib's business, many are Dask's (both: extra ``experiments``). What a run measures does not
depend on which of them it was.
"""

import gc
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from leasehold.experiments.kept import code_mark
from leasehold.model.errors import InvalidField, LeaseholdError

if TYPE_CHECKING:
    from distributed import Client

Workers: TypeAlias = int | str
"""How many processes of this machine, or the address of a Dask scheduler: ``tcp://host:8786``."""

T = TypeVar("T")
R = TypeVar("R")

PATIENCE_S = 10
LOOK_S = 0.5
PACKAGE = ("",)
"""All of Leasehold, for `code_mark`."""


class OtherCode(LeaseholdError):
    """A worker has another Leasehold than the one that wants its results."""


def each(do: Callable[[T], R], todo: Sequence[T], workers: Workers) -> Iterator[tuple[T, R]]:
    """Do all of it, and give what came of each as it ends, in whatever order that is.

    KeyboardInterrupt, or whatever else the caller stops with, leaves nothing running. Raises InvalidField
    where no scheduler answers at the address, and OtherCode.
    """
    if isinstance(workers, str):
        yield from _on_many_machines(do, todo, workers)
    elif workers == 1 or len(todo) == 1:
        yield from ((item, do(item)) for item in todo)
    else:
        yield from _on_this_machine(do, todo, min(workers, len(todo)))


def how_many(workers: Workers) -> int:
    """Say how many runs are made at a time. Raises as `each`."""
    if isinstance(workers, int):
        return workers
    with _scheduler(workers) as client:
        return _threads(client)


def _on_this_machine(do: Callable[[T], R], todo: Sequence[T], count: int) -> Iterator[tuple[T, R]]:
    from joblib import Parallel, delayed  # noqa: PLC0415 - an extra, and one process does without

    pool = Parallel(
        count,
        backend="loky",
        return_as="generator_unordered",
        batch_size=1,
        initializer=_settle_in,
        initargs=(os.getpid(),),
    )
    yield from pool(delayed(_with_what)(do, item) for item in todo)


def _with_what(do: Callable[[T], R], item: T) -> tuple[T, R]:
    return item, do(item)


def _settle_in(parent: int) -> None:
    """Leave Ctrl-C to the parent; look for reference cycles rarely, the core makes none."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with, args=(parent,), daemon=True).start()
    gc.set_threshold(100_000, *gc.get_threshold()[1:])


def _end_with(parent: int) -> None:
    """End with the parent, which could not end this worker if it was killed.

    The number of the parent is an argument: asked for here, it might be that of another process already.
    """
    never = Event()
    while os.getppid() == parent:
        never.wait(LOOK_S)
    os._exit(1)


def _on_many_machines(do: Callable[[T], R], todo: Sequence[T], address: str) -> Iterator[tuple[T, R]]:
    from distributed import as_completed  # noqa: PLC0415 - as above

    with _scheduler(address) as client:
        waiting = {client.submit(do, item, pure=False): item for item in todo}
        for future in as_completed(list(waiting), loop=client.loop):
            yield waiting.pop(future), future.result()


@contextmanager
def _scheduler(address: str) -> "Iterator[Client]":
    """Speak to a scheduler whose workers have the code that is here; whatever still waits is dropped."""
    from distributed import Client  # noqa: PLC0415 - as above

    try:
        client: Any = Client(address, timeout=PATIENCE_S, set_as_default=False)
    except (OSError, ValueError) as problem:
        raise InvalidField("--dask", address, "the address of a Dask scheduler that answers") from problem
    with client:
        _check_code(client)
        yield client


def _check_code(client: "Client") -> None:
    """Refuse workers with other code: results of two kinds would be mixed under one mark."""
    ours = code_mark(PACKAGE)
    for worker, theirs in client.run(code_mark, PACKAGE).items():
        if theirs != ours:
            raise OtherCode(f"the Dask worker {worker} has another Leasehold than is here: install the same")


def _threads(client: "Client") -> int:
    threads: dict[str, int] = client.nthreads()
    return max(1, sum(threads.values()))
