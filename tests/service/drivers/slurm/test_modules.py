"""Environment modules are found as `module` lists them, and as files."""

from pathlib import Path

import pytest

from leasehold.service.drivers.slurm.probes import modules_in, read_avail

TCL = """\
/opt/modulefiles:
dot
gcc/11.3
gcc/12.2(default)
tools/R/4.2.2
"""
LMOD = """\
/opt/lmod/Core:
gcc/
gcc/11.3
gcc/12.2
OpenMPI/4.1.4-GCC-12.2.0 <Loaded>
  netcdf/4.9 (D)
No module(s) or extension(s) found!
Use "module spider" to find all possible modules.
"""


@pytest.mark.parametrize(
    ("said", "found"),
    [
        (TCL, {("dot", ""), ("gcc", "11.3"), ("gcc", "12.2"), ("tools/r", "4.2.2"), ("r", "4.2.2")}),
        (LMOD, {("gcc", "11.3"), ("gcc", "12.2"), ("openmpi", "4.1.4-GCC-12.2.0"), ("netcdf", "4.9")}),
        ("", set()),
    ],
)
def test_what_module_lists_is_read_and_the_rest_of_its_words_is_not(said: str, found: set[tuple[str, str]]) -> None:
    assert set(read_avail(said.splitlines())) == found


def test_modulefiles_are_found_in_their_folder(tmp_path: Path) -> None:
    for name in ("gcc/12.2", "gcc/.version", "lmod/5.0.lua", "tools/R/4.2.2", ".git/HEAD"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert modules_in(tmp_path) == {("gcc", "12.2"), ("lmod", "5.0"), ("tools/r", "4.2.2"), ("r", "4.2.2")}


def test_a_folder_that_is_not_there_is_not_empty(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        modules_in(tmp_path / "nowhere")
