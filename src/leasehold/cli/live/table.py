"""Tables that programs can read too: one line for each row, however wide, unless a terminal is too narrow."""

import sys
from collections.abc import Container, Sequence

from rich.console import Console
from rich.table import Table

from leasehold.cli.screen import answer, legible

_ENDLESS = 100_000


def make_table(
    heads: Sequence[str], rows: Sequence[Sequence[str]], figures: Container[int] = (), *, head: bool = True
) -> Table:
    """Make a table; columns with ``figures`` are flush right, and what does not fit the terminal is cut."""
    table = Table(box=None, pad_edge=False, show_header=head, header_style="bold")
    for index, name in enumerate(heads):
        justify = "right" if index in figures else "left"
        table.add_column(name, justify=justify, no_wrap=True, overflow="ellipsis")  # type: ignore[arg-type]
    for row in rows:
        table.add_row(*(legible(cell, kept="") for cell in row))
    return table


def terminal() -> Console:
    """Give standard output as rich draws on it; without a terminal, lines are as long as they need be."""
    width = None if sys.stdout.isatty() else _ENDLESS
    return Console(highlight=False, markup=False, emoji=False, width=width)


def print_table(
    heads: Sequence[str], rows: Sequence[Sequence[str]], figures: Container[int] = (), *, head: bool = True
) -> None:
    """Print a table."""
    console = terminal()
    with console.capture() as capture:
        console.print(make_table(heads, rows, figures, head=head))
    answer("\n".join(line.rstrip() for line in capture.get().splitlines()), as_it_is=True)
