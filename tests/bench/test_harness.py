"""The harness of the benchmark judges as it says; the cases here are made up, and nothing is timed."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bench.__main__ import chosen, page
from bench.cases import CASES
from bench.harness import (
    THRESHOLDS,
    Case,
    Figure,
    Reading,
    Record,
    Thresholds,
    Unit,
    Verdict,
    measure,
)
from bench.race import COMPILED, PURE, Setting, Skipped, variants

HERE, THERE = "this machine", "that machine"
SPEED = Figure(
    "made.speed",
    "how fast",
    Unit.TIMES,
    wanted={PURE: 2.0},
    measured=(Record(PURE, "small", 1.0, "2026-11-23", HERE),),
)
PEAK = Figure("made.peak", "how large", Unit.MEMORY, measured=(Record(PURE, "small", 100.0, "2026-11-23", HERE),))
SLOPE = Figure("made.slope", "how steep", Unit.EXPONENT, measured=(Record(PURE, "small", 0.1, "2026-11-23", HERE),))
MADE = Thresholds(1.0, {one.name: one for one in (SPEED, PEAK, SLOPE)})
TRIVIAL = [sys.executable, "-c", ""]


def setting(folder: Path, *, full: bool = False) -> Setting:
    return Setting(folder, full, 1, variants(folder / "none"), TRIVIAL, 1.0, lambda _: None)


def verdict(figure: str, value: float, machine: str = HERE, size: str = "small") -> Verdict:
    return MADE.judge(Reading(figure, PURE, size, value), machine).verdict


@pytest.mark.parametrize(
    ("figure", "kept", "lost"),
    [("made.speed", 0.81, 0.79), ("made.peak", 124.0, 126.0), ("made.slope", 0.49, 0.51)],
)
def test_what_loses_more_than_its_margin_has_regressed(figure: str, kept: float, lost: float) -> None:
    assert verdict(figure, kept) is not Verdict.REGRESSED
    assert verdict(figure, lost) is Verdict.REGRESSED


def test_what_was_recorded_on_another_machine_has_a_wider_margin() -> None:
    assert verdict("made.speed", 0.6, THERE) is Verdict.NOT_REACHED
    assert verdict("made.speed", 0.4, THERE) is Verdict.REGRESSED


def test_what_is_wanted_is_reached_or_not_and_neither_is_a_regression() -> None:
    assert verdict("made.speed", 1.9) is Verdict.NOT_REACHED
    assert verdict("made.speed", 2.0) is Verdict.REACHED
    assert verdict("made.peak", 100.0) is Verdict.KEPT


def test_what_was_never_measured_at_this_size_cannot_regress() -> None:
    assert verdict("made.speed", 0.1, size="large") is Verdict.NOT_REACHED


def test_a_figure_that_the_file_lacks_is_an_error() -> None:
    with pytest.raises(KeyError):
        verdict("made.up", 1.0)


def test_a_line_says_what_was_what_is_and_what_is_wanted() -> None:
    judged = MADE.judge(Reading("made.speed", PURE, "small", 0.5), HERE)
    assert judged.line == "made.speed (pure, small): 0.50 times, was 1.00 (2026-11-23), wanted 2.00"


def test_readings_are_written_down_in_place_of_earlier_ones(tmp_path: Path) -> None:
    new = [Reading("made.speed", PURE, "small", 1.23456), Reading("made.speed", COMPILED, "small", 9.0)]
    updated = MADE.updated(new, THERE, "2027-01-01")
    file = tmp_path / "thresholds.toml"
    file.write_text(updated.toml(), encoding="utf-8")
    again = Thresholds.read(file)
    assert again == updated
    assert again.figures["made.speed"].recorded(PURE, "small") == Record(PURE, "small", 1.235, "2027-01-01", THERE)
    assert [one.variant for one in again.figures["made.speed"].measured] == [PURE, COMPILED]
    assert again.figures["made.peak"] == PEAK


def test_cases_run_in_order_and_those_that_cannot_say_why(tmp_path: Path) -> None:
    def reads(_: Setting) -> Iterator[Reading]:
        yield Reading("made.peak", PURE, "small", 1.0)
        raise Skipped("no commit 1234567")

    def never(_: Setting) -> Iterator[Reading]:
        raise AssertionError

    cases = [Case("one", "reads, then lacks something", reads), Case("two", "is long", never, only_full=True)]
    done = measure(cases, setting(tmp_path))
    assert done.failed == []
    assert done.readings == [Reading("made.peak", PURE, "small", 1.0)]
    assert done.skipped == ["one: skipped, no commit 1234567", "two: skipped, only with --full"]


def test_a_program_that_fails_is_named_and_the_next_case_runs(tmp_path: Path) -> None:
    def fails(given: Setting) -> Iterator[Reading]:
        given.in_turn({"bad": ([sys.executable, "-c", "exit(3)"], given.variants[PURE])})
        yield Reading("made.peak", PURE, "small", 1.0)

    def reads(_: Setting) -> Iterator[Reading]:
        yield Reading("made.peak", PURE, "small", 2.0)

    done = measure([Case("one", "", fails), Case("two", "", reads)], setting(tmp_path))
    assert [one.value for one in done.readings] == [2.0]
    (line,) = done.failed
    assert line.startswith("one: ")
    assert "exit status 3" in line


def test_programs_run_in_turn_as_often_as_asked(tmp_path: Path) -> None:
    note = tmp_path / "note"
    commands = {name: [sys.executable, "-c", f"print({name!r}, file=open({str(note)!r}, 'a'))"] for name in "ab"}
    three = replace(setting(tmp_path), rounds=3)
    costs = three.in_turn({name: (command, three.variants[PURE]) for name, command in commands.items()})
    assert note.read_text(encoding="utf-8").split() == ["a", "b"] * 3
    assert all(cost.cpu_s > 0 and cost.peak_mb > 0 for cost in costs.values())


def test_the_compiled_variant_is_there_once_it_was_built(tmp_path: Path) -> None:
    assert list(variants(tmp_path / "none")) == [PURE]
    assert variants(tmp_path)[COMPILED]["PYTHONPATH"] == str(tmp_path)


def test_what_starts_the_programs_stays_small() -> None:
    """On Linux the peak of a child's memory counts what forked it."""
    large = "{name for name in sys.modules if name.split('.')[0] in ('leasehold', 'numpy', 'polars', 'scipy')}"
    script = f"import sys, bench.__main__; print(*{large})"
    done = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True, cwd=Path(__file__).parents[2]
    )
    assert done.stdout.split() == []


def test_cases_are_chosen_by_name_and_by_what_is_long() -> None:
    assert chosen([]) == list(CASES)
    assert [case.name for case in chosen(["start", "script"])] == ["script", "start"]
    with pytest.raises(SystemExit, match="no case stat"):
        chosen(["stat"])


def test_the_file_is_as_the_benchmark_writes_it() -> None:
    assert Thresholds.read().toml() == THRESHOLDS.read_text(encoding="utf-8")


def test_every_figure_belongs_to_a_case() -> None:
    assert {name.partition(".")[0] for name in Thresholds.read().figures} <= {case.name for case in CASES}


def test_the_page_shows_what_the_file_says() -> None:
    """`python -m bench --page` writes it."""
    text = (Path(__file__).parents[2] / "docs/explanation/performance.md").read_text(encoding="utf-8")
    assert page(Thresholds.read(), text) == text
