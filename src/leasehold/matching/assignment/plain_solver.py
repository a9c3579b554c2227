"""The assignment problem in plain Python, for whole numbers of any size."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

Row = Sequence[tuple[int, int]]
"""The columns that a row may have, each with its cost."""


@dataclass(frozen=True, slots=True)
class Solved:
    """Each row's column, and a price for each row that proves that no other choice costs less.

    With prices ``u`` of rows and ``v <= 0`` of columns, 0 for columns that nobody has, every edge costs
    at least
    ``u + v``, and those chosen just that. So an edge left out that costs at least ``u`` cannot make it
    cheaper.
    """

    column_of: list[int]
    prices: list[int]


Solve = Callable[[Sequence[Row]], Solved]
"""A solver. Raises ValueError where the rows cannot all have a column of their own."""


def solve_plain(rows: Sequence[Row]) -> Solved:
    """Which column does each row get, at the least total cost, none twice?

    Rule: rows come in one after the other; each takes the shortest path to a free column, along which others
    hand theirs on. Prices keep all lengths at 0 or above.
    Source: Jonker and Volgenant 1987; the paths are Dijkstra's, over the edges that there are, and of equally
    near columns a free one is reached first.

    Raises ValueError where the rows cannot all have one. Quick where rows are seldom in each other's way;
    where all want the same, it takes up to about rows x edges steps.
    """
    matching = _Matching(rows)
    for row in range(len(rows)):
        matching.bring_in(row)
    return Solved([matching.column_of[row] for row in range(len(rows))], matching.price_of_row)


class _Matching:
    """A matching of some rows that costs the least, and the prices that prove it."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = rows
        self._price_of_column: dict[int, int] = {}
        self._row_of: dict[int, int] = {}
        self.price_of_row = [0] * len(rows)
        self.column_of: dict[int, int] = {}

    def bring_in(self, new: int) -> None:
        """Match one more row."""
        search = _Search()
        row, walked = new, 0
        while True:
            for column, length in self._lengths(row):
                search.offer(column, walked + length, row, taken=column in self._row_of)
            column, walked = search.nearest()
            if column not in self._row_of:
                break
            row = self._row_of[column]
        self._reprice(new, search, walked)
        self._hand_on(new, column, search)

    def _lengths(self, row: int) -> Iterable[tuple[int, int]]:
        price, prices = self.price_of_row[row], self._price_of_column
        return ((column, cost - price - prices.get(column, 0)) for column, cost in self._rows[row])

    def _reprice(self, new: int, search: "_Search", walked: int) -> None:
        """Make all edges of the matching cost nothing, and no other less than nothing."""
        self.price_of_row[new] += walked
        for column, length in search.passed.items():
            if column in self._row_of:
                self.price_of_row[self._row_of[column]] += walked - length
                self._price_of_column[column] = self._price_of_column.get(column, 0) - (walked - length)

    def _hand_on(self, new: int, column: int, search: "_Search") -> None:
        row = search.came_from[column]
        while row != new:
            given_up = self.column_of[row]
            self.column_of[row], self._row_of[column] = column, row
            column = given_up
            row = search.came_from[column]
        self.column_of[new], self._row_of[column] = column, new


class _Search:
    """Shortest paths from one row."""

    def __init__(self) -> None:
        self.passed: dict[int, int] = {}
        self.came_from: dict[int, int] = {}
        self._best: dict[int, int] = {}
        self._heap: list[tuple[int, bool, int]] = []

    def offer(self, column: int, length: int, row: int, *, taken: bool) -> None:
        """Note a way to a column; it is kept if it is the shortest so far."""
        if column not in self.passed and length < self._best.get(column, length + 1):
            self._best[column] = length
            self.came_from[column] = row
            heappush(self._heap, (length, taken, column))

    def nearest(self) -> tuple[int, int]:
        """Go on to the nearest column that was not passed. Raises ValueError where there is none."""
        while self._heap:
            length, _, column = heappop(self._heap)
            if column not in self.passed:
                self.passed[column] = length
                return column, length
        raise ValueError("the rows cannot all have a column of their own")
