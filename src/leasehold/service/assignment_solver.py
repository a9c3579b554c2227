"""Which solver has a service for assignment problems? SciPy's where it is installed, else the plain one.

It stands outside the decision core, which is given it: `leasehold.jobs.scheduler.JobScheduler(..., solve=...)`.
"""

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from leasehold.matching.assignment import Row, Solve, Solved, solve_plain


def best_solver() -> Solve:
    """Give the quickest exact solver that there is here."""
    return solve_plain if find_spec("scipy") is None else solve_by_scipy


def solve_by_scipy(rows: Sequence[Row]) -> Solved:
    """Solve an assignment problem with SciPy, and work out prices, which SciPy does not tell.

    Costs are whole numbers; they are exact as long as rows x cost stay below 2**50.
    """
    import numpy as np  # noqa: PLC0415 - as SciPy
    from scipy.sparse import csr_array  # noqa: PLC0415 - the solver in plain Python does not need it
    from scipy.sparse.csgraph import min_weight_full_bipartite_matching  # noqa: PLC0415 - as above

    if not rows:
        return Solved([], [])
    columns = {column: place for place, column in enumerate(sorted({c for row in rows for c, _ in row}))}
    costs: Any = np.full((len(rows), len(columns)), np.inf)
    for number, row in enumerate(rows):
        costs[number, [columns[column] for column, _ in row]] = [cost for _, cost in row]
    there = np.isfinite(costs)
    edges = csr_array((costs[there] + 1, np.nonzero(there)), shape=costs.shape)
    if len(columns) < len(rows):
        raise ValueError("the rows cannot all have a column of their own")
    chosen = min_weight_full_bipartite_matching(edges)[1]
    names = list(columns)
    return Solved([names[place] for place in chosen], _prices(costs[:, chosen]))


def _prices(among: Any) -> list[int]:  # noqa: ANN401 - arrays carry no types here
    """Give the least prices of rows that prove a matching to be the best.

    ``among`` has what each row would pay for each row's column. A row's price is at least what it pays; and
    if another would rather have its column, at least so much that the other would not.
    """
    import numpy as np  # noqa: PLC0415 - as above

    paid = among.diagonal()
    dearer = paid[None, :] - among
    prices = paid
    while True:
        raised = np.maximum(prices, (prices[:, None] + dearer).max(axis=0))
        if (raised == prices).all():
            return [int(price) for price in prices]
        prices = raised
