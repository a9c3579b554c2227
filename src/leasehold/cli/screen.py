"""The two ways out: answers on standard output, talk on standard error."""

import json
import os
import shutil
import sys
import textwrap
from collections.abc import Container, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

SCHEMA_VERSION = 1
"""Of the JSON that the commands print; raised when a key goes away or changes its meaning."""


def answer_json(values: Mapping[str, Any]) -> None:
    """Print an answer as one JSON object."""
    answer(json.dumps({"schema_version": SCHEMA_VERSION, **values}, indent=2, default=str))


def answer(text: str) -> None:
    """Print an answer; a reader who has gone away (``| head``) is no error."""
    try:
        typer.echo(text)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def talk(text: str) -> None:
    """Say something beside the answer."""
    typer.echo(text, err=True)


def wrapped(text: str, indent: str = "  ") -> str:
    """Break a paragraph into lines that fit the terminal, and no longer than reads well."""
    width = min(shutil.get_terminal_size().columns, 100)
    return textwrap.fill(text, width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)


def answer_table(columns: Sequence[str], rows: Sequence[Sequence[str]], figures: Container[int] = ()) -> None:
    """Print a table; the columns with ``figures`` are flush right."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for index, column in enumerate(columns):
        justify: Literal["left", "right"] = "right" if index in figures else "left"
        table.add_column(column, justify=justify, header_style="bold", overflow="fold")
    for row in rows:
        table.add_row(*row)
    answer(_rendered(table))


def _rendered(table: "Table") -> str:
    """Draw a table as wide as the terminal, with colours only where there is one."""
    console = _console()
    with console.capture() as capture:
        console.print(table)
    return "\n".join(line.rstrip() for line in capture.get().splitlines())


def _console() -> "Console":
    from rich.console import Console

    return Console(highlight=False, markup=False, emoji=False)
