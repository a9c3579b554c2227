"""`make bench`: speed and memory as ratios in one run, judged by `thresholds.toml`.

A case is named, or all run. Each figure is printed beside what was recorded and what is wanted; the exit status
is 1 where one has regressed. What is wanted and not yet reached does not fail.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.cases import CASES, PROCS, ROOT
from bench.children import by_hand, log_of
from bench.harness import THRESHOLDS, Case, Figure, Judged, Thresholds, Verdict, measure
from bench.race import COMPILED, PURE, Setting, machine, variants
from bench.table import show

YARDSTICK_JOBS = 20_000
PAGE = ROOT / "docs/explanation/performance.md"
BEGIN, END = "<!-- figures: written by `python -m bench --page` -->", "<!-- end of figures -->"


def main() -> int:
    """Measure, print, judge, and write down what is asked for."""
    given = _parser().parse_args()
    cases = chosen(given.case)
    thresholds = Thresholds.read()
    if given.list:
        show(["case", "what it shows"], [[one.name, one.about] for one in cases])
        return 0
    if given.page:
        PAGE.write_text(page(thresholds, PAGE.read_text(encoding="utf-8")), encoding="utf-8")
        return 0
    here = machine()
    with TemporaryDirectory(prefix="leasehold-bench-") as folder:
        done = measure(cases, _setting(Path(folder), given, thresholds))
    judged = [thresholds.judge(one, here) for one in done.readings]
    print(f"\n{here}\nSeconds are those of the thresholds' machine. Wanted and recorded: bench/thresholds.toml\n")
    show(["figure", "variant", "of", "measured", "unit", "recorded", "wanted", ""], [_row(one) for one in judged])
    print("\n".join(done.skipped))
    if given.json is not None:
        given.json.write_text(json.dumps([asdict(one) for one in done.readings], indent=2) + "\n", encoding="utf-8")
    if given.update:
        updated = thresholds.updated(done.readings, here, datetime.now(UTC).date().isoformat())
        THRESHOLDS.write_text(updated.toml(), encoding="utf-8")
        PAGE.write_text(page(updated, PAGE.read_text(encoding="utf-8")), encoding="utf-8")
        judged = []
    bad = [f"FAILED {line}" for line in done.failed]
    bad += [f"REGRESSED {one.line}" for one in judged if one.verdict is Verdict.REGRESSED]
    for line in bad:
        print(line)
    return 1 if bad else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("case", nargs="*", metavar="CASE", help="what to measure (all)")
    parser.add_argument("--list", action="store_true", help="list the cases")
    parser.add_argument("--full", action="store_true", help="the sizes that are spoken of: hours")
    parser.add_argument("--jobs", type=int, metavar="N", help="jobs of the log of `script`")
    parser.add_argument("--rounds", type=int, default=2, metavar="N", help="runs of each, in turn; the best counts (2)")
    parser.add_argument("--logs", type=Path, metavar="FOLDER", help="where public workload logs lie")
    parser.add_argument("--compiled", type=Path, default=ROOT / ".fast", metavar="FOLDER", help="what `make fast` made")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything measured to this file")
    parser.add_argument("--update", action="store_true", help="record what was measured, whatever it is")
    parser.add_argument("--page", action="store_true", help="write the table of docs/explanation/performance.md")
    return parser


def chosen(names: Sequence[str]) -> list[Case]:
    """Return the cases with these names, or all; ends the program for a name that none has."""
    if unknown := set(names) - {case.name for case in CASES}:
        raise SystemExit(f"no case {', '.join(sorted(unknown))}; expected {', '.join(case.name for case in CASES)}")
    return [case for case in CASES if not names or case.name in names]


def _setting(folder: Path, given: argparse.Namespace, thresholds: Thresholds) -> Setting:
    found = variants(given.compiled)
    if COMPILED not in found:
        say("nothing compiled is here (make fast): only plain Python is measured")
    return Setting(
        folder=folder,
        full=given.full,
        rounds=given.rounds,
        variants=found,
        yardstick=by_hand(log_of(folder, YARDSTICK_JOBS, "loose"), PROCS, folder / "yardstick.csv"),
        yardstick_s=thresholds.yardstick_s,
        say=say,
        logs=given.logs,
        jobs=given.jobs,
    )


def say(text: str) -> None:
    """Tell how far it is, beside the results."""
    print(text, file=sys.stderr, flush=True)


def _row(one: Judged) -> list[str]:
    text, reading = one.figure.unit.text, one.reading
    wanted = one.figure.wanted.get(reading.variant)
    return [
        reading.figure,
        reading.variant,
        reading.size,
        text(reading.value),
        one.figure.unit.value,
        text(one.record.value) if one.record else "",
        "" if wanted is None else text(wanted),
        one.verdict.value,
    ]


def page(thresholds: Thresholds, text: str) -> str:
    """Put the table of figures between its marks."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    head = ["| | unit | of | pure | wanted | compiled | wanted |", "|---|---|---|---|---|---|---|"]
    rows = [row for figure in thresholds.figures.values() for row in _page_rows(figure)]
    notes = [f"- {one.what}: {one.note}" for one in thresholds.figures.values() if one.note]
    lines = [BEGIN, "", *head, *rows, "", *notes, *([""] if notes else []), END]
    return before + "\n".join(lines) + after


def _page_rows(figure: Figure) -> Iterator[str]:
    """Give a row for each size that was measured, or one that says what is wanted."""
    for size in dict.fromkeys(one.size for one in figure.measured) or [""]:
        cells = [cell for variant in (PURE, COMPILED) for cell in _page_cells(figure, variant, size)]
        yield f"| {' | '.join([figure.what, figure.unit.value, size, *cells])} |"


def _page_cells(figure: Figure, variant: str, size: str) -> tuple[str, str]:
    """Give what was measured, in bold where it is not what is wanted, and what is."""
    record, wanted = figure.recorded(variant, size), figure.wanted.get(variant)
    text = figure.unit.text(record.value) if record else ""
    missed = record is not None and figure.reaches(variant, record.value) is False
    return f"**{text}**" if missed else text, "" if wanted is None else figure.unit.text(wanted)


if __name__ == "__main__":
    sys.exit(main())
