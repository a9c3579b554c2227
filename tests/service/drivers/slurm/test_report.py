"""What nodes write of themselves is read whole or not at all: half a truth sends jobs to wrong places."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.service.drivers.slurm.probes import BEGINS, ENDS, PROBE, BadReport, Report, read_report

NAMES = st.from_regex(r"[a-z][a-z0-9+.-]{0,20}", fullmatch=True)
VERSIONS = st.from_regex(r"([1-9]:)?[0-9][0-9a-z.+~]{0,8}(-[0-9a-z.+~]{1,8})?", fullmatch=True)


def report(*lines: str) -> str:
    return "\n".join([BEGINS, *lines, ENDS, ""])


def test_a_whole_report_is_read() -> None:
    read = read_report(
        report(
            "mhz 2600",
            "disk 1000 400",
            "package python3 3.11.2-1+b1",
            "package libc6 2.36-9",
            "module /opt/modulefiles:",
            "module gcc/12.2(default)",
        )
    )
    software = frozenset({("python3", "3.11.2-1+b1"), ("libc6", "2.36-9"), ("gcc", "12.2")})
    assert read == Report(software, 2600, 1000, 400)


def test_a_node_may_know_little_of_itself() -> None:
    assert read_report(report()) == Report(frozenset())


def test_packages_of_rpm_have_an_epoch_only_where_it_matters() -> None:
    read = read_report(report("package Bash 0:5.1.8-6.el9", "package openssl 1:3.0.7-24.el9"))
    assert read.software == {("bash", "5.1.8-6.el9"), ("openssl", "1:3.0.7-24.el9")}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "something else: nothing"),
        ("slurmstepd: error: task_p_pre_launch", "something else: 'slurmstepd"),
        (f"{BEGINS}\npackage bash 5.2\npackage li", "cut off after 3 lines"),
        (report("package bash"), "package 'bash', where a name and a version should be"),
        (report("package -bash 5.2"), "package '-bash 5.2'"),
        (report("mhz fast"), "mhz 'fast', where 1 numbers should be"),
        (report("disk 1000"), "disk '1000', where 2 numbers should be"),
        (report("bash: no such file"), "something else: 'bash: no such file'"),
    ],
)
def test_what_is_not_whole_is_no_report(text: str, problem: str) -> None:
    with pytest.raises(BadReport, match=problem):
        read_report(text)


@given(st.sets(st.tuples(NAMES, VERSIONS), max_size=20))
def test_whatever_is_written_is_read_again(software: set[tuple[str, str]]) -> None:
    read = read_report(report(*(f"package {name} {version}" for name, version in sorted(software))))
    assert read.software == software


@given(st.sets(st.tuples(NAMES, VERSIONS), min_size=1, max_size=5), st.data())
def test_nothing_that_was_cut_off_anywhere_is_read(software: set[tuple[str, str]], data: st.DataObject) -> None:
    whole = report(*(f"package {name} {version}" for name, version in sorted(software)))
    cut = data.draw(st.integers(0, len(whole) - 2))
    with pytest.raises(BadReport):
        read_report(whole[:cut])


def test_this_very_machine_can_be_asked(tmp_path: Path) -> None:
    asked = {"PATH": "/usr/bin:/bin", "TMPDIR": str(tmp_path), "HOME": str(tmp_path)}
    done = subprocess.run(["sh"], input=PROBE, env=asked, capture_output=True, text=True, check=True)
    read = read_report(done.stdout)
    assert 0 < read.free_disk_mib <= read.disk_mib
    assert read.software


def test_what_a_login_shell_says_first_is_no_module(tmp_path: Path) -> None:
    """A profile that greets, and a ``module`` that is a function of the shell, as it is everywhere."""
    profile = "echo Welcome\nmodule() { printf '/opt/modulefiles:\\ngcc/12.2\\n' >&2; }\n"
    (tmp_path / ".bash_profile").write_text(profile)
    asked = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    done = subprocess.run(["sh"], input=PROBE, env=asked, capture_output=True, text=True, check=True)
    names = {name for name, _ in read_report(done.stdout).software}
    assert "gcc" in names
    assert "welcome" not in names
