"""An agreement tried out: what to try it on, and the differences that it makes, as a table and as JSON."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from leasehold.analysis.wording import NOTHING, count, number
from leasehold.cli.live.times import show_duration
from leasehold.cli.screen import answer, answer_table
from leasehold.cli.source import scenario_of
from leasehold.configuration.agreements import AgreementDocument, read_document
from leasehold.configuration.keys import Keys
from leasehold.configuration.toml import read_toml
from leasehold.simulation.scenario.from_log import LogOptions
from leasehold.simulation.what_if import Count, PlayedRequests, SideBySide, WhatIf, requests_of, with_document

_COLUMNS = ["", "", "requests", "mean wait", "95 % less", "preempted", "refused", "slot-h"]
_FIGURES = range(2, len(_COLUMNS))


def past_of_run(source: str) -> PlayedRequests:
    """Take the requests of a run folder or scenario; raises InputError or InvalidField for what is none."""
    return requests_of(scenario_of(source, LogOptions(), {}))


def checked_document(path: Path, past: PlayedRequests) -> AgreementDocument:
    """Read a file of agreements that are to fit this past; raises InputError with file and line."""
    file = read_toml(path)
    with file.naming_lines():
        document = read_document(Keys(file.values), past.scenario.clock)
        with_document(past.scenario, document)
    return document


def show(trial: WhatIf) -> None:
    """Print what everybody gets as it is and with the document, and what that changes."""
    for title, rows in (("consumer", trial.consumers), ("guests at", trial.providers)):
        lines = [line for row in rows for line in _lines(row)]
        answer_table([title, *_COLUMNS[1:]], lines, _FIGURES)
        answer("")
    for name, (held, refused) in trial.held.items():
        answer(f"{name}: holds {count(held, 'guest')} back, refuses {number(refused)}")


def _lines(row: SideBySide) -> list[list[str]]:
    if row.without == row.with_it:
        return [[row.name, "the same", *_cells(row.without)]]
    changes = _difference(row.without, row.with_it)
    return [
        [row.name, "as it is", *_cells(row.without)],
        ["", "with it", *_cells(row.with_it)],
        ["", "change", *(_signed(changes[key], shown) for key, shown in _SHOWN.items())],
    ]


def _cells(count_: Count) -> list[str]:
    values = asdict(count_)
    return [shown(values[key]) for key, shown in _SHOWN.items()]


def _signed(change: float | None, shown: Callable[[float | None], str]) -> str:
    """Write a change with its sign; nothing for none, or for one too small to be seen."""
    if not change or shown(abs(change)) == shown(0):
        return ""
    return f"{'+' if change > 0 else '-'}{shown(abs(change))}"


def _time(seconds: float | None) -> str:
    return NOTHING if seconds is None else show_duration(seconds)


def _hours(hours: float | None) -> str:
    return number(hours, 1)


_SHOWN: dict[str, Callable[[float | None], str]] = {
    "requests": number,
    "wait_mean_s": _time,
    "wait_p95_s": _time,
    "preemptions": number,
    "refused": number,
    "slot_h": _hours,
}
"""How each number of a `Count` is written."""


def as_json(trial: WhatIf) -> dict[str, Any]:
    """Give the same for a program, with every difference."""
    return {
        "consumers": _rows(trial.consumers),
        "providers": _rows(trial.providers),
        "agreements": [
            {"agreement": name, "held_back": held, "refused": refused} for name, (held, refused) in trial.held.items()
        ],
    }


def _rows(rows: Sequence[SideBySide]) -> list[dict[str, Any]]:
    return [
        {
            "name": row.name,
            "without": asdict(row.without),
            "with": asdict(row.with_it),
            "difference": _difference(row.without, row.with_it),
        }
        for row in rows
    ]


def _difference(before: Count, after: Count) -> dict[str, float | None]:
    """Subtract what was from what would be; None where one of them could not be measured."""
    first, second = asdict(before), asdict(after)
    return {key: None if first[key] is None or second[key] is None else second[key] - first[key] for key in first}
