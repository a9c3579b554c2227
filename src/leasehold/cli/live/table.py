"""Tables that programs can read too: one line for each row, however wide, unless a terminal is too narrow.

What a list can show of a noun are the fields of its model, each in the form of its type, and a few that are computed.
Answers without an end are printed line by line.
"""

import json
import os
import re
import sys
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import typer

from leasehold.cli.exit_codes import DONE
from leasehold.cli.live import times
from leasehold.cli.live.times import show_duration, show_moment
from leasehold.cli.screen import SCHEMA_VERSION, answer_drawn, answer_json, legible, plain
from leasehold.model.errors import UnknownName

if TYPE_CHECKING:
    from rich.table import Table

    from leasehold.protocol.base import ResponseModel

T = TypeVar("T")
M = TypeVar("M", bound="ResponseModel")
_UNIT = re.compile("_(at|s|mib)$")


@dataclass(frozen=True, slots=True)
class Column(Generic[T]):
    """One column: its head, what it shows of a thing at this time, and whether that is a figure."""

    head: str
    show: Callable[[T, datetime], str]
    is_figure: bool = False


def columns_of(model: type[M], special: Mapping[str, Column[M]]) -> dict[str, Column[M]]:
    """Give a column for each field of a model, under its name without the unit; ``special`` ones come before."""
    derived = {_UNIT.sub("", name).replace("_", "-"): _column(model, name) for name in model.model_fields}
    return {**derived, **special}


def _column(model: type[M], name: str) -> Column[M]:
    show = show_duration if name.endswith("_s") else cell
    is_figure = name.endswith("_s") or model.model_fields[name].annotation in {int, float}

    def shown(thing: M, _: datetime) -> str:
        value = getattr(thing, name)
        return "" if value is None else show(value)

    return Column(_UNIT.sub("", name).upper(), shown, is_figure)


def cell(value: object) -> str:
    """Show a value by its type."""
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case datetime():
            return show_moment(value)
        case dict():
            return ",".join(f"{key}={cell(one)}" for key, one in value.items())
        case tuple() | list():
            return ",".join(map(cell, value))
    return str(value)


def pick(columns: Mapping[str, Column[T]], text: str) -> list[Column[T]]:
    """Read which columns are wanted, with commas between; raises UnknownName."""
    names = [name.strip().lower() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in columns:
            raise UnknownName("--format", name, columns)
    return [columns[name] for name in names]


def rows(things: Iterable[T], columns: Sequence[Column[T]], at: datetime) -> list[list[str]]:
    """Show things as they are at this time."""
    return [[column.show(thing, at) for column in columns] for thing in things]


def heads(columns: Sequence[Column[T]]) -> list[str]:
    """Give the heads of columns."""
    return [column.head for column in columns]


def figures(columns: Sequence[Column[T]]) -> set[int]:
    """Say which columns have figures."""
    return {index for index, column in enumerate(columns) if column.is_figure}


def print_rows(columns: Sequence[Column[T]], things: Iterable[T], *, head: bool = True) -> None:
    """Print a line for each thing."""
    print_table(heads(columns), rows(things, columns, times.now()), figures(columns), head=head)


def answer_rows(name: str, things: Sequence[T], columns: Sequence[Column[T]], *, json: bool) -> None:
    """Answer with a list: a line for each thing, or one JSON object with all of them under this name."""
    if json:
        answer_json({name: things})
    else:
        print_rows(columns, things)


def make_table(
    heads: Sequence[str], rows: Sequence[Sequence[str]], figures: Container[int] = (), *, head: bool = True
) -> "Table":
    """Make a table; columns with ``figures`` are flush right, and what does not fit the terminal is cut."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, show_header=head, header_style="bold")
    for index, name in enumerate(heads):
        justify = "right" if index in figures else "left"
        table.add_column(name, justify=justify, no_wrap=True, overflow="ellipsis")  # type: ignore[arg-type]
    for row in rows:
        table.add_row(*(legible(cell, kept="") for cell in row))
    return table


def print_table(
    heads: Sequence[str], rows: Sequence[Sequence[str]], figures: Container[int] = (), *, head: bool = True
) -> None:
    """Print a table."""
    answer_drawn(make_table(heads, rows, figures, head=head))


# Answers without an end


def answer_line(text: str) -> None:
    """Print one line at once; ends the command when the pipe is closed (``| head``)."""
    try:
        typer.echo(legible(text))
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(DONE) from None


def answer_json_line(values: Mapping[str, Any]) -> None:
    """Print one JSON object in one line."""
    answer_line(json.dumps({"schema_version": SCHEMA_VERSION, **values}, default=plain))
