"""Pieces of a report in Markdown."""

from collections.abc import Container, Iterator, Sequence

Lines = Sequence[Sequence[str]]


def table(columns: Sequence[str], lines: Lines, figures: Container[int] = ()) -> Iterator[str]:
    """Write a table; the columns with ``figures`` are flush right."""
    yield f"| {' | '.join(columns)} |"
    yield f"|{'|'.join('---:' if index in figures else '---' for index in range(len(columns)))}|"
    for line in lines:
        yield f"| {' | '.join(line)} |"
    yield ""
