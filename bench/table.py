"""A table of text: the first column flush left, figures flush right."""

from collections.abc import Sequence


def show(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print it, each column as wide as its widest cell."""
    lines = [columns, *rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    for first, *figures in lines:
        cells = [first.ljust(widths[0]), *map(str.rjust, figures, widths[1:])]
        print("  ".join(cells).rstrip())
    print()
