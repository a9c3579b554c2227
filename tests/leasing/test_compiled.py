"""The kernel as machine code: built as `pip install` builds it, it passes the tests that plain Python passes."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.needing import programs

from leasehold.testing.debian import find_or_install

ROOT = Path(__file__).parents[2]
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
OF_THE_KERNEL = (
    "tests/leasing/test_profile.py",
    "tests/leasing/test_backfill.py",
    "tests/gateway/test_repair.py",
    "tests/simulation/test_clusters.py",
)


def compiler() -> Path | None:
    found = shutil.which("gcc")
    return None if found is None else Path(found)


def run(*command: str, env: dict[str, str], cwd: Path = ROOT) -> str:
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


@pytest.mark.soak
def test_compiled_it_passes_the_same_tests(tmp_path: Path) -> None:
    with programs():
        find_or_install(compiler, "gcc", "gcc")
    env = os.environ | {"TMPDIR": str(tmp_path), "LEASEHOLD_PURE": ""}
    wheels, there = tmp_path / "wheels", tmp_path / "there"
    run(*PIP, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(wheels), ".", env=env)
    [wheel] = wheels.iterdir()
    run(*PIP, "install", "--no-deps", "--target", str(there), str(wheel), env=env)
    env |= {"PYTHONPATH": str(there)}
    version = run(sys.executable, "-m", "leasehold.cli.main", "--version", env=env, cwd=tmp_path)
    assert "(kernel: compiled)" in version
    found = run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", *OF_THE_KERNEL, env=env)
    assert " passed" in found
    assert "failed" not in found


def test_where_it_is_to_be_plain_it_is(tmp_path: Path) -> None:
    said = run(sys.executable, "-m", "leasehold.cli.main", "--version", env=dict(os.environ), cwd=tmp_path)
    assert "(kernel: plain Python)" in said
