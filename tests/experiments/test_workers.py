"""Where runs are made decides nothing: one process, several, Dask; and nobody is left over at the end."""

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import PATIENCE_S

from leasehold.experiments import campaign as workers
from leasehold.experiments.campaign import OtherCode, Workers, carry_out, each, how_many, tasks
from leasehold.experiments.kept import Kept
from leasehold.model.errors import InvalidField

SEEDS = range(1, 13)
MARKS = {"one": "a", "two": "b"}

STUDY = """
import os, signal, sys
from pathlib import Path
from leasehold.experiments.campaign import carry_out, tasks
from leasehold.experiments.kept import Kept

def measure(name, seed):
    if wait_for_ever and seed > 5:
        signal.pause()
    return {"value": seed / 7}

folder, how, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
wait_for_ever = how != "whole"

def look(progress):
    print(progress.done, flush=True)
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "interrupt":
        os.kill(os.getpid(), signal.SIGINT)

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs are born deaf to it
    kept = Kept(folder, {"one": "a"})
    carry_out(tasks({"one": range(1, 16)}, kept), measure, kept, count, look)
"""
LATE = """
import os, signal
from leasehold.experiments.campaign import _settle_in

_settle_in(os.getpid())
signal.pause()
"""


def measure(name: str, seed: int) -> Mapping[str, float]:
    """What is measured here."""
    return {"value": len(name) * 1000 + seed / 7}


def found_by(where: Workers) -> Kept:
    kept = Kept(None, MARKS)
    carry_out(tasks(dict.fromkeys(MARKS, SEEDS), kept), measure, kept, where, lambda _: None)
    return kept


@pytest.fixture(scope="module")
def scheduler() -> Iterator[str]:
    """A Dask scheduler with two workers in this process, which end with the tests."""
    distributed = pytest.importorskip("distributed")
    # What it logs with holds the stream that was captured while it was imported, and that is closed by now.
    logging.getLogger("distributed").handlers.clear()
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0", protocol="tcp"
    ) as cluster:
        yield cluster.scheduler_address


def test_all_workers_measure_the_same(scheduler: str) -> None:
    alone = found_by(1)
    for where in (2, scheduler):
        for name in MARKS:
            assert found_by(where).table(name).equals(alone.table(name))


def test_a_scheduler_says_how_many_runs_it_makes_at_a_time(scheduler: str) -> None:
    assert how_many(scheduler) == 2
    assert how_many(3) == 3


def test_workers_with_other_code_are_refused(scheduler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "code_mark", _marks_that_differ())
    with pytest.raises(OtherCode, match="another Leasehold"):
        list(each(str, [1], scheduler))


def _marks_that_differ() -> Any:
    marks = iter(("ours", "theirs", "theirs"))
    return lambda _: next(marks)


def test_an_address_where_nobody_is_is_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(workers, "PATIENCE_S", 1)
    with pytest.raises(InvalidField, match=r"--dask: got 'tcp://127\.0\.0\.1:1'"):
        list(each(str, [1], "tcp://127.0.0.1:1"))
    with pytest.raises(InvalidField, match="--dask"):
        how_many("no address")


@pytest.mark.storm
@pytest.mark.parametrize("count", ["1", "2"])
@pytest.mark.parametrize(("how", "code"), [("kill", -signal.SIGKILL), ("interrupt", 1)])
def test_whoever_is_stopped_goes_on_where_it_was_and_leaves_nobody(
    tmp_path: Path, count: str, how: str, code: int
) -> None:
    """The pipe is read to its end: whichever process of it is left over would keep it open."""
    script, folder = tmp_path / "study.py", tmp_path / "kept"
    script.write_text(STUDY)
    stopped = _run(script, folder, how, count)
    assert stopped.returncode in {code, -signal.SIGINT}
    assert sorted(Kept(folder, {"one": "a"}).of("one")) == [1, 2, 3, 4, 5]
    went_on = _run(script, folder, "whole", count)
    assert went_on.stdout.split()[-1] == "10"
    assert sorted(Kept(folder, {"one": "a"}).of("one")) == list(range(1, 16))


def test_a_worker_that_was_still_starting_when_its_parent_was_killed_ends_too() -> None:
    """Its parent is somebody else by then; this one is told of itself, which is nobody's own parent."""
    ended = subprocess.run([sys.executable, "-c", LATE], timeout=PATIENCE_S, check=False)
    assert ended.returncode == 1


def _run(script: Path, folder: Path, how: str, count: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, script, folder, how, count],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        env={**os.environ, "PYTHONWARNINGS": "error"},
    )
