"""Runs made by another Python interpreter: the same results, and one clear line where they cannot be made.

The other interpreter is this one again, in an environment that has numpy and nothing else, as PyPy has.
"""

import gzip
import math
import os
import signal
import subprocess
import sys
import venv
from functools import partial
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from tests.experiments.pretended import reproduce
from tests.waiting import PATIENCE_S

from leasehold.cli.reproduce import EVALUATIONS
from leasehold.cli.reproducing import Manner
from leasehold.experiments.beyond.evaluation import campaign as beyond
from leasehold.experiments.campaign import CampaignProgress, Task, carry_out, estimate_s, how_many
from leasehold.experiments.evaluation import Evaluation, Size
from leasehold.experiments.kept import Kept
from leasehold.experiments.other_python import OtherPython, WorkerFailed
from leasehold.model.errors import InvalidField

STOPPED = """
import os, sys, time
from leasehold.experiments.other_python import OtherPython

for item, _ in OtherPython(sys.executable, 2).each(time.sleep, [0, 10_000, 10_001]):
    print(item, flush=True)
    os.kill(os.getpid(), int(sys.argv[1]))
"""


def _environment(folder: Path) -> tuple[str, Path]:
    """Make an interpreter without any package; returns it, and where its packages would be."""
    venv.create(folder, symlinks=True)
    return str(folder / "bin" / "python"), next(folder.glob("lib/python*/site-packages"))


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An interpreter with numpy, and without Polars or anything else that Leasehold needs."""
    python, packages = _environment(tmp_path_factory.mktemp("bare"))
    numpy = Path(np.__file__).parent
    for part in (numpy, numpy.with_name("numpy.libs")):
        if part.exists():
            (packages / part.name).symlink_to(part)
    assert subprocess.run([python, "-c", "import polars"], capture_output=True, check=False).returncode == 1
    return python


def _same_here_and_there(name: str, python: str) -> None:
    """Make two short runs of one configuration of an evaluation, here and there."""
    package = EVALUATIONS[name].package
    evaluation: Evaluation = import_module(f"leasehold.experiments.{package}.evaluation").EVALUATIONS[name]
    planned = evaluation.campaign([], Size(quick=True, seeds=2))
    first = next(iter(planned.runs))
    here, there, told = Kept(None, planned.marks), Kept(None, planned.marks), list[CampaignProgress]()
    todo = [Task(first, (1,)), Task(first, (2,))]
    carry_out(todo, planned.measure, here, 1, told.append)
    carry_out(todo, planned.measure, there, OtherPython(python, 2), told.append)
    assert [repr(here.of(first)[seed]) for seed in (1, 2)] == [repr(there.of(first)[seed]) for seed in (1, 2)]
    assert [progress.done for progress in told] == [1, 2, 1, 2]


@pytest.mark.example
def test_it_measures_the_same_to_the_last_bit(bare: str) -> None:
    _same_here_and_there("acsc2011", bare)


@pytest.mark.evaluation
@pytest.mark.parametrize("name", sorted(EVALUATIONS.keys() - {"acsc2011", "calibration"}))
def test_it_measures_every_evaluation(name: str, bare: str) -> None:
    """But for calibration, whose shortest run is long."""
    _same_here_and_there(name, bare)


def test_what_a_run_prints_is_not_taken_for_a_result() -> None:
    assert list(OtherPython(sys.executable, 1).each(print, ["said", "and", "done"])) == [
        ("said", None),
        ("and", None),
        ("done", None),
    ]


def test_a_run_that_fails_is_named_with_its_error() -> None:
    with pytest.raises(WorkerFailed, match=r"(?s)^-1 failed in .*ValueError: "):
        list(OtherPython(sys.executable, 2).each(math.sqrt, [1, -1]))


def test_a_worker_that_dies_is_named_with_its_task() -> None:
    with pytest.raises(WorkerFailed, match=r"ended before its task did: 3$"):
        list(OtherPython(sys.executable, 2).each(os._exit, [3]))


@pytest.mark.parametrize("python", ["no-such-python", "/bin/true", "/bin/false", "/"])
def test_what_is_not_an_interpreter_is_one_clear_line(python: str) -> None:
    with pytest.raises(InvalidField, match=f"^--python: got '{python}', expected a Python interpreter that can be"):
        list(OtherPython(python, 1).each(str, [1]))


def test_an_interpreter_that_is_too_old_is_one_clear_line(tmp_path: Path) -> None:
    old = tmp_path / "old"
    old.write_text("#!/bin/sh\necho 3 9\n")
    old.chmod(0o700)
    with pytest.raises(InvalidField, match=r"expected Python 3\.11 or later, not 3\.9"):
        list(OtherPython(str(old), 1).each(str, [1]))


def test_an_interpreter_without_numpy_is_one_clear_line(tmp_path: Path) -> None:
    python, _ = _environment(tmp_path)
    with pytest.raises(InvalidField, match="expected a Python interpreter that has numpy installed"):
        list(OtherPython(python, 1).each(str, [1]))


@pytest.mark.parametrize(("stopped_by", "codes"), [(signal.SIGKILL, {-9}), (signal.SIGINT, {1, -2})])
def test_nobody_is_left_of_a_campaign_that_was_stopped(stopped_by: int, codes: set[int]) -> None:
    """The pipes are read to their ends: whichever worker is left over would keep them open."""
    ended = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import signal\nsignal.signal(2, signal.default_int_handler)\n{STOPPED}",
            str(stopped_by),
        ],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert ended.stdout == "0\n"
    assert ended.returncode in codes


def test_nothing_is_tried_here_to_estimate_what_another_interpreter_takes() -> None:
    def never(name: str, seed: int) -> dict[str, float]:
        raise AssertionError(name, seed)

    assert how_many(OtherPython("pypy3", 4)) == 4
    assert estimate_s([Task("one", tuple(range(100)))], never, OtherPython("pypy3", 4)) is None


def test_the_options_say_which_interpreter_and_how_many() -> None:
    assert Manner(jobs=3, python="pypy3").workers == OtherPython("pypy3", 3)
    with pytest.raises(InvalidField, match="--python: got 'pypy3', expected no --dask"):
        Manner(dask="tcp://host:8786", python="pypy3")


def test_it_is_given_the_jobs_of_logs_which_it_cannot_read(bare: str, tmp_path: Path) -> None:
    lines = (f"{number} {number * 900} 0 600 1 -1 -1 1 600 -1 1 1 1 1 1 1 -1 -1" for number in range(1, 500))
    (tmp_path / "KTH-SP2.swf.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    planned = beyond(["beyond-kth"], Size(quick=True, seeds=1, logs=tmp_path))
    assert planned.hand_over is not None
    for run in ("beyond-kth-rr-6h", "beyond-kth-clairvoyant-6h"):
        handed_over = tmp_path / "handed over"
        handed_over.mkdir(exist_ok=True)
        [(_, there)] = OtherPython(bare, 1).each(partial(planned.hand_over(handed_over), run), [1])
        assert repr(there) == repr(planned.measure(run, 1))


def test_logs_that_it_cannot_be_given_are_one_clear_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    said = reproduce("calibration", "--quick", "--logs", ".", "--python", "pypy3")
    assert isinstance(said.exception, InvalidField)
    assert str(said.exception) == (
        "--python: got 'pypy3', expected no --logs: calibration can hand none over to another interpreter"
    )


@pytest.mark.example
def test_the_command_says_where_its_runs_are_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    said = reproduce("002-table1", "--quick", "--seeds", "2", "--python", sys.executable)
    assert said.exit_code == 0
    assert f" runs on 1 process of {sys.executable}." in said.stderr
    said = reproduce("002-table1", "--quick", "--seeds", "3", "--python", "no-such-python")
    assert isinstance(said.exception, InvalidField)
