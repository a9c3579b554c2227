"""The two ways out: answers on standard output, talk on standard error.

Names, notes and output of others pass here on their way to a terminal, which obeys control characters: they
could retitle it, overwrite what it shows, or turn text around. So all text is made `legible`, unless it is
printed ``as_it_is``.
"""

import json
import os
import shutil
import sys
import textwrap
import unicodedata
from collections.abc import Container, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_OBEYED = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_ENDLESS = 100_000
SCHEMA_VERSION = 1
"""Of the JSON that the commands print; raised when a key goes away or changes its meaning."""


def answer_json(values: Mapping[str, Any]) -> None:
    """Print an answer as one JSON object."""
    answer(json.dumps({"schema_version": SCHEMA_VERSION, **values}, indent=2, default=plain))


def plain(value: object) -> object:
    """Give what JSON has no form for: what came from a gateway is printed as it came."""
    return value.model_dump(mode="json") if hasattr(value, "model_dump") else str(value)


def legible(text: str, kept: str = "\n\t") -> str:
    r"""Write out what a terminal would obey or not show, as ``\x1b``: controls, bidi marks, surrogates."""
    if text.isprintable():
        return text
    return "".join(_written_out(letter, kept) for letter in text.replace("\r\n", "\n"))


def _written_out(letter: str, kept: str) -> str:
    if letter in kept or unicodedata.category(letter) not in _OBEYED:
        return letter
    return letter.encode("unicode_escape").decode("ascii")


def answer(text: str, *, as_it_is: bool = False, is_line: bool = True) -> None:
    """Print an answer; a closed pipe (``| head``) is not an error.

    ``as_it_is``  with all control characters that are in it, as in what we have drawn ourselves
    ``is_line``   whether a line end follows
    """
    try:
        typer.echo(text if as_it_is else legible(text), color=as_it_is or None, nl=is_line)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def talk(text: str, *, as_it_is: bool = False, is_line: bool = True) -> None:
    """Say something beside the answer; the rest is as in `answer`."""
    typer.echo(text if as_it_is else legible(text), err=True, color=as_it_is or None, nl=is_line)


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
        table.add_row(*map(legible, row))
    answer_drawn(table)


def answer_drawn(table: "Table") -> None:
    """Print a table of rich, whose cells are `legible` already, with colours only where there is a terminal."""
    console = terminal()
    with console.capture() as capture:
        console.print(table)
    answer("\n".join(line.rstrip() for line in capture.get().splitlines()), as_it_is=True)


def terminal() -> "Console":
    """Give standard output as rich draws on it; without a terminal, lines are as long as they need be."""
    from rich.console import Console

    width = None if sys.stdout.isatty() else _ENDLESS
    return Console(highlight=False, markup=False, emoji=False, width=width)
