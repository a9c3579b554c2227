"""Ctrl-C in the middle of a run leaves a run folder that can be read."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from leasehold.analysis.run import load
from leasehold.cli.running import minding_ctrl_c
from leasehold.model.tables import OPTIONAL_TABLES, TABLES

ENDLESS = """\
name = "endless"
horizon_s = 100_000_000
[gateway]
policy = "rr"
[[cluster]]
name = "a"
slots = 64
[[stream]]
name = "own"
site = "a"
model = "das2"
l = 0.8
m = 2.5
h = 6
q = 0.9
p_one = 0.3
p_pow2 = 0.6
a = 3.0
b = 1.7
alpha = 30.0
beta = 0.5
"""


def interrupted(folder: Path) -> tuple[int, str]:
    """Start a run of three simulated years, and interrupt it once it has told its progress."""
    (folder / "endless.toml").write_text(ENDLESS)
    command = [sys.executable, "-m", "leasehold.cli.main", "sim", "run", "endless.toml", "--out", "run"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, cwd=folder, env=environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stderr is not None
        first = process.stderr.readline()
        assert first.startswith("endless: ")
        process.send_signal(signal.SIGINT)
        return process.wait(), process.stderr.read()


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT to one process")
def test_ctrl_c_leaves_a_readable_partial_run(folder: Path) -> None:
    code, said = interrupted(folder)
    assert code == 130
    assert said.splitlines()[-1] == "leasehold: interrupted; results so far are in run"
    assert "Traceback" not in said
    manifest = json.loads((folder / "run" / "manifest.json").read_text())
    assert manifest["status"] == "partial"
    run = load(folder / "run")
    assert run.is_partial
    assert run.leases.height == manifest["jobs"]["read"]
    for table in TABLES:
        if table not in OPTIONAL_TABLES:
            pl.read_parquet(folder / "run" / f"{table}.parquet")


class TestWhen:
    """Where a Ctrl-C takes effect, without waiting for one."""

    def test_before_the_run_it_does_at_once(self) -> None:
        with pytest.raises(KeyboardInterrupt), minding_ctrl_c():
            signal.raise_signal(signal.SIGINT)

    def test_in_the_run_it_does_at_the_next_safe_place(self) -> None:
        passed = []
        with pytest.raises(KeyboardInterrupt), minding_ctrl_c() as interruption:  # noqa: PT012 - where is the point
            interruption.check()
            signal.raise_signal(signal.SIGINT)
            passed.append("the rest of the decision")
            interruption.check()
            passed.append("another one")
        assert passed == ["the rest of the decision"]

    def test_the_second_one_does_at_once(self) -> None:
        with pytest.raises(KeyboardInterrupt), minding_ctrl_c() as interruption:  # noqa: PT012 - where is the point
            interruption.check()
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            pytest.fail("was not interrupted")

    def test_without_a_safe_place_it_does_at_the_end(self) -> None:
        with pytest.raises(KeyboardInterrupt), minding_ctrl_c() as interruption:  # noqa: PT012 - where is the point
            interruption.check()
            signal.raise_signal(signal.SIGINT)

    def test_afterwards_all_is_as_before(self) -> None:
        before = signal.getsignal(signal.SIGINT)
        with minding_ctrl_c():
            assert signal.getsignal(signal.SIGINT) != before
        assert signal.getsignal(signal.SIGINT) == before
