"""Runs made by another Python interpreter, such as PyPy, whose just-in-time compiler makes them much faster.

Each worker is a process of that interpreter. It imports the Leasehold that is here, is sent one pickled task
after another on its standard input, and sends back what came of each. It needs numpy; other packages may be
missing there, since a run reads no tables and draws nothing: Polars, for one, has no build for PyPy.
"""

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, MutableSequence, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from multiprocessing.pool import ThreadPool
from pathlib import Path
from queue import SimpleQueue
from traceback import format_exc
from types import ModuleType
from typing import IO, TypeVar

from leasehold.forecasting.parent import end_with
from leasehold.model.errors import InvalidField, LeaseholdError

T = TypeVar("T")
R = TypeVar("R")

OPTION = "--python"
OLDEST = (3, 11)
PATIENCE_S = 30

PROBE = """
import sys
print(*sys.version_info[:2])
try:
    import numpy
except ImportError:
    print("no numpy")
"""

START = """
import sys
from importlib.util import module_from_spec, spec_from_file_location
package = sys.argv[1]
spec = spec_from_file_location("leasehold", package + "/__init__.py", submodule_search_locations=[package])
sys.modules["leasehold"] = module_from_spec(spec)
spec.loader.exec_module(sys.modules["leasehold"])
from leasehold.experiments.other_python import work
work(int(sys.argv[2]))
"""
"""Import this package alone: beside it may lie packages that were built for the interpreter that is here."""


class WorkerFailed(LeaseholdError):
    """A worker raised an error, or ended before its task did."""


@dataclass(frozen=True, slots=True)
class OtherPython:
    """An interpreter, by its path or by a name on PATH, and how many processes of it work at a time."""

    executable: str
    processes: int

    def each(self, do: Callable[[T], R], todo: Sequence[T]) -> Iterator[tuple[T, R]]:
        """Do all of it, and give what came of each as it ends, in whatever order that is.

        ``do`` and what it is given are pickled. Raises InvalidField where the interpreter cannot be started, is too
        old or has no numpy, and WorkerFailed.
        """
        self._check()
        count = max(1, min(self.processes, len(todo)))
        started = [self._start() for _ in range(count)]
        idle: SimpleQueue[subprocess.Popen[bytes]] = SimpleQueue()
        for process in started:
            idle.put(process)

        def done_by_one(item: T) -> tuple[T, R]:
            process = idle.get()
            try:
                return item, self._ask(process, do, item)
            finally:
                idle.put(process)

        try:
            with ThreadPool(count) as pool:
                yield from pool.imap_unordered(done_by_one, todo)
        finally:
            for process in started:
                process.kill()
                process.communicate()

    def _check(self) -> None:
        try:
            told = subprocess.run(  # noqa: S603 - the interpreter that the user names
                [self.executable, "-c", PROBE], capture_output=True, text=True, timeout=PATIENCE_S, check=True
            ).stdout.splitlines()
            version = tuple(map(int, told[0].split()))
        except (OSError, subprocess.SubprocessError, ValueError, IndexError) as problem:
            raise InvalidField(OPTION, self.executable, "a Python interpreter that can be started") from problem
        if version < OLDEST:
            raise InvalidField(OPTION, self.executable, f"Python 3.11 or later, not {'.'.join(map(str, version))}")
        if told[1:]:
            raise InvalidField(OPTION, self.executable, "a Python interpreter that has numpy installed")

    def _start(self) -> "subprocess.Popen[bytes]":
        package = str(Path(__file__).parents[1])
        return subprocess.Popen(  # noqa: S603 - as above
            [self.executable, "-P", "-c", START, package, str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def _ask(self, process: "subprocess.Popen[bytes]", do: Callable[[T], R], item: T) -> R:
        """Send one task to a worker, and wait for what comes of it."""
        to, back = process.stdin, process.stdout
        assert to is not None
        assert back is not None
        try:
            _send(to, (do, item))
            succeeded, found = pickle.load(back)  # noqa: S301 - from a process that was started here
        except (OSError, EOFError) as problem:
            raise WorkerFailed(f"a worker of {self.executable} ended before its task did: {item}") from problem
        if not succeeded:
            raise WorkerFailed(f"{item} failed in {self.executable}:\n{found}")
        result: R = found
        return result


def _send(to: IO[bytes], what: object) -> None:
    to.write(pickle.dumps(what))
    to.flush()


# In the other interpreter


def work(parent: int) -> None:
    """Do what is asked on standard input until that ends, or until the parent does."""
    tasks, answers = sys.stdin.buffer, os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a run prints is no answer
    follow(parent)
    sys.meta_path.append(_AbsentPackages())
    _compile_eagerly()
    with suppress(EOFError):
        while True:
            do, item = pickle.load(tasks)  # noqa: S301 - from the parent
            try:
                answer = True, do(item)
            except Exception:  # noqa: BLE001 - told to the parent, whatever it is
                answer = False, format_exc()
            _send(answers, answer)


def _compile_eagerly() -> None:
    """Let PyPy compile what branches off its loops four times as early: a run took 0.45 s so, and 0.6 s otherwise."""
    if sys.implementation.name == "pypy":
        import pypyjit  # type: ignore[import-not-found]  # noqa: PLC0415 - there only

        pypyjit.set_param(trace_eagerness=50)


def follow(parent: int) -> None:
    """Leave Ctrl-C to the parent, and end when it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with(parent)


class _Absent(type):
    """Anything of a package that is not there: types can be made of it, and it cannot be used."""

    def __getattr__(cls, name: str) -> "_Absent":
        if name.startswith("__"):
            raise AttributeError(name)
        return cls

    def __or__(cls, _: object) -> "_Absent":
        return cls

    def __ror__(cls, _: object) -> "_Absent":
        return cls

    def __getitem__(cls, _: object) -> "_Absent":
        return cls


class _Anything(metaclass=_Absent):
    def __init__(self, *_: object, **__: object) -> None:
        """Accept what constants of modules are made of."""


class _AbsentModule(ModuleType):
    __path__: MutableSequence[str] = ()  # type: ignore[assignment]  # a package, with nothing in its folders

    def __getattr__(self, name: str) -> "_Absent":
        if name.startswith("__"):
            raise AttributeError(name)
        return _Anything


class _AbsentPackages:
    """Stands in for packages that are not installed: modules import them, but no run uses them."""

    NAMES = frozenset({"altair", "distributed", "joblib", "polars", "pydantic", "scipy"})

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        return ModuleSpec(name, self) if name.partition(".")[0] in self.NAMES else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _AbsentModule(spec.name)

    def exec_module(self, _: ModuleType) -> None:
        """Nothing to execute."""
