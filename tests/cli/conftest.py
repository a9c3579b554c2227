"""The command line as tests use it: in a folder of its own, called like the program."""

from pathlib import Path

import pytest
from tests.cli.saying import Cli, Said

from leasehold.cli.main import main

LOG = """\
; MaxProcs: 8
1    0 -1 3600 4 -1 -1 4 3600 -1 1 1 1 -1 1 1 -1 -1
2   60 -1 1800 8 -1 -1 8 3600 -1 1 2 1 -1 1 1 -1 -1
3  120 -1  600 2 -1 -1 2  900 -1 1 1 2 -1 1 2 -1 -1
4 7200 -1 1200 8 -1 -1 8 1200 -1 1 2 1 -1 1 2 -1 -1
"""

SCENARIO = """\
name = "small"
horizon_s = 7_200

[gateway]
policy = "rr"

[[cluster]]
name = "a"
slots = 8

[[stream]]
name = "own"
log = "small.swf"
site = "a"

[[stream]]
name = "guests"
model = "das2"
l = 0.5
m = 1.5
h = 3
q = 0.9
p_one = 0.2
p_pow2 = 0.5
a = 4.6
b = 1.7
alpha = 60.0
beta = 0.5
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty folder with a small log and a small scenario."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "110")
    (tmp_path / "small.swf").write_text(LOG)
    (tmp_path / "small.toml").write_text(SCENARIO)
    return tmp_path


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    """Run ``leasehold`` with these arguments, in this process."""

    def run(*arguments: str) -> Said:
        capsys.readouterr()
        code = main(arguments)
        said = capsys.readouterr()
        return Said(code, said.out, said.err)

    return run
