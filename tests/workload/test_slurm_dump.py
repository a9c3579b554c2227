"""The script that dumps accounting leaks no name: a dump has pseudonyms, times, sizes and words of Slurm's."""

import json
import re
import subprocess
import sys
from datetime import UTC
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.workload import accounting
from tests.workload.accounting import Fact
from tests.workload.test_slurm import facts

from leasehold.model.tables import LogRecord
from leasehold.simulation.workload import slurm, slurm_dump
from leasehold.simulation.workload.log_record import ReadingNotes
from leasehold.simulation.workload.slurm import accounting_records

SCRIPT = Path(slurm_dump.__file__)
KEY = b"0123456789abcdef"


def dumped(text: str, key: bytes = KEY, shift_days: int = 0) -> list[str]:
    header, *lines = text.splitlines()
    dump = slurm_dump.Dump(header, key, shift_days)
    return [dump.header(), *(line for one in lines if (line := dump.line(one)) is not None)]


def records(folder: Path, lines: list[str]) -> list[LogRecord]:
    path = folder / "dump.txt"
    path.write_text("\n".join(lines) + "\n")
    return list(accounting_records(path, UTC, ReadingNotes("")))


PLAIN = re.compile(
    r"[a-z]-[0-9a-f]{12}(,[a-z]-[0-9a-f]{12})*|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d|[\d:.-]+[KMGT]?|UNLIMITED|Unknown|[A-Z_]+"
    r"|((^|,)(billing|cpu|mem|node|gres/gpu(:(a100|v100-32g))?)=[\d.]+M?)+|"
)
"""All that a value of a dump may be."""

secrets = st.text(
    st.characters(codec="utf-8", exclude_characters="|\n\r", exclude_categories=["Cs"]), min_size=3, max_size=20
)


@given(made=facts(), data=st.data())
def test_nothing_leaks(made: list[Fact], data: st.DataObject) -> None:
    """Whatever the names, and whatever stands in columns where names should not be, or in others."""
    fields = (*data.draw(st.permutations(accounting.FIELDS)), "JobName", "NodeList", "Comment", "WorkDir", "UID")
    place = fields.index(
        data.draw(st.sampled_from(["Submit", "ReqMem", "NNodes", "TimelimitRaw", "AllocTRES", "State"]))
    )
    lines = ["|".join(fields)]
    for fact in made:
        said = accounting.values(fact)
        extra = [data.draw(secrets) for _ in range(5)]
        values = [*(said[name] for name in fields[:-5]), *extra]
        if data.draw(st.booleans()):
            values[place] = f"secret {data.draw(secrets)}"
        lines.append("|".join(values))
    header, *found = dumped("\n".join(lines))
    assert not {"Comment", "WorkDir", "UID"} & set(header.split("|"))
    for line in found:
        for value in line.split("|"):
            assert PLAIN.fullmatch(value), value


@given(made=facts())
def test_a_dump_means_the_same_but_for_the_names(tmp_path_factory: pytest.TempPathFactory, made: list[Fact]) -> None:
    folder = tmp_path_factory.mktemp("dump")
    text = accounting.text(made, steps=True)
    whole, hidden = records(folder, text.splitlines()), records(folder, dumped(text))
    names = ("source_id", "user", "group", "queue", "partition", "site")
    for one, other in zip(whole, hidden, strict=True):
        plain = one._asdict(), other._asdict()
        assert {key: value for key, value in plain[0].items() if key not in names} == {
            key: value for key, value in plain[1].items() if key not in names
        }
    for name in names:  # the same have the same, others have others
        pairs = {(getattr(one, name), getattr(other, name)) for one, other in zip(whole, hidden, strict=True)}
        assert len(pairs) == len({left for left, _ in pairs}) == len({right for _, right in pairs})


def test_pseudonyms_are_stable_under_a_key_and_different_under_another() -> None:
    text = accounting.text([Fact(1, 1_700_000_000, 1_700_000_000, 1_700_000_000, 1_700_000_009, 9)])
    assert dumped(text) == dumped(text)
    ours, theirs = (line.split("|") for line in (dumped(text)[1], dumped(text, b"another key, 16+")[1]))
    hidden = [place for place, name in enumerate(accounting.FIELDS) if name in slurm_dump.HIDDEN]
    assert all(ours[place] != theirs[place] for place in hidden)


@pytest.mark.parametrize(
    ("listed", "count"),
    [("n1", 1), ("n[1-3],g1", 4), ("n[01,03-04]x", 3), ("a[1-2]b,c", 3), ("None assigned", 0)],
)
def test_each_node_has_a_pseudonym(listed: str, count: int) -> None:
    dump = slurm_dump.Dump("JobIDRaw|Submit|NodeList", KEY)
    line = dump.line(f"1|1700000000|{listed}")
    assert line is not None
    nodes = [node for node in line.split("|")[2].split(",") if node]
    assert len(set(nodes)) == len(nodes) == count


def test_nodes_are_told_apart_as_they_are_named_alone() -> None:
    dump = slurm_dump.Dump("JobIDRaw|Submit|NodeList", KEY)
    together, alone = dump.line("1|1700000000|n[08-10]"), dump.line("1|1700000000|n09")
    assert together is not None and alone is not None  # noqa: PT018
    assert alone.split("|")[2] == together.split("|")[2].split(",")[1]


def test_times_are_moved_by_days_alone(tmp_path: Path) -> None:
    text = accounting.text([Fact(1, 1_700_000_000, None, 1_700_000_060, 1_700_000_099, 39)])
    (before,), (after,) = records(tmp_path, dumped(text)), records(tmp_path, dumped(text, shift_days=-400))
    assert before.submit_ms - after.submit_ms == 400 * 86_400_000
    assert before.wait_ms == after.wait_ms


class TestScript:
    """As an operator runs it, on a machine without Leasehold."""

    def run(self, folder: Path, *options: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
        script = folder / "dump.py"
        script.write_text(SCRIPT.read_text(encoding="utf-8"), encoding="utf-8")
        command = [sys.executable, "-I", "-S", str(script), *options]
        return subprocess.run(command, input=stdin, capture_output=True, text=True, cwd=folder, check=False)

    def test_reads_what_sacct_printed_and_makes_a_key_for_its_owner_alone(self, tmp_path: Path) -> None:
        text = accounting.text(accounting.busy_days(20), steps=True)
        first = self.run(tmp_path, "--key-file", "key", "--stdin", stdin=text)
        again = self.run(tmp_path, "--key-file", "key", "--stdin", stdin=text)
        assert (first.returncode, first.stderr) == (0, "")
        assert first.stdout == again.stdout
        assert len(records(tmp_path, first.stdout.splitlines())) == 20
        assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600

    def test_runs_sacct(self, tmp_path: Path) -> None:
        (tmp_path / "sacct").write_text(
            f"#!{sys.executable}\nimport json, os, sys\n"
            "json.dump([sys.argv[1:], os.environ['SLURM_TIME_FORMAT']], open('asked', 'w'))\n"
            "print('JobIDRaw|User|Submit')\nprint('7|ada|1700000000')\n"
        )
        (tmp_path / "sacct").chmod(0o755)
        script = tmp_path / "dump.py"
        script.write_text(SCRIPT.read_text(encoding="utf-8"), encoding="utf-8")
        command = [sys.executable, str(script), "--key-file", "key", "--start", "2026-01-01", "--end", "now"]
        done = subprocess.run(
            command, env={"PATH": str(tmp_path)}, capture_output=True, text=True, cwd=tmp_path, check=True
        )
        asked, time_format = json.loads((tmp_path / "asked").read_text())
        assert asked == [
            *("--allusers", "--allocations", "--duplicates", "--parsable2"),
            *(f"--format={slurm.FIELDS}", "--starttime=2026-01-01", "--endtime=now"),
        ]
        assert time_format == "%s"
        assert re.fullmatch(r"JobIDRaw\|User\|Submit\nj-\w{12}\|u-\w{12}\|1700000000\n", done.stdout)

    def test_says_how_many_values_it_left_out(self, tmp_path: Path) -> None:
        stdin = "JobIDRaw|Submit|State\n1|yesterday|COMPLETED\n2|1700000000|done by ada\nbroken\n"
        done = self.run(tmp_path, "--key-file", "key", "--stdin", stdin=stdin)
        assert [line.partition("|")[2] for line in done.stdout.splitlines()[1:]] == ["|COMPLETED", "1700000000|"]
        assert done.stderr.splitlines() == [
            "slurm_dump: left out 1 times: State, which did not look as it should",
            "slurm_dump: left out 1 times: Submit, which did not look as it should",
            "slurm_dump: left out 1 times: a whole line, which did not look as it should",
        ]

    @pytest.mark.parametrize(
        ("stdin", "options", "problem"),
        [
            ("User|State\n", ("--key-file", "key"), "this is not what sacct --parsable2 prints"),
            ("JobIDRaw|Submit\n", ("--key-file", "short"), "the key file is too short: short has 3 bytes"),
        ],
    )
    def test_refuses_what_it_cannot_use(
        self, tmp_path: Path, stdin: str, options: tuple[str, ...], problem: str
    ) -> None:
        (tmp_path / "short").write_bytes(b"abc")
        done = self.run(tmp_path, *options, "--stdin", stdin=stdin)
        assert done.returncode != 0
        assert problem in done.stderr
        assert done.stdout == ""

    def test_dumps_the_fields_that_are_read(self) -> None:
        assert slurm_dump.FIELDS == slurm.FIELDS
        assert set(slurm.FIELDS.split(",")) <= {*slurm_dump.KEPT, *slurm_dump.HIDDEN}
