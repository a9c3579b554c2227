"""The printed numbers of Tables 1 to 7 (Dumitrescu et al. 2007, section 4.4), and what is wrong with some."""

from collections.abc import Mapping
from dataclasses import dataclass

METRICS = ("util", "comp", "response", "starv", "violation")

UNITS: Mapping[str, str] = {"util": "%", "comp": "%", "response": "s", "starv": "%", "violation": "%"}

TITLES: Mapping[str, str] = {
    "util": "Util",
    "comp": "Comp",
    "response": "Response",
    "starv": "Starv",
    "violation": "Violation",
}


@dataclass(frozen=True, slots=True)
class Row:
    """One printed row: percentages, and seconds for the response time; None where there is a dash."""

    util: float
    comp: float
    response: float
    starv: float
    violation: float | None

    def __getitem__(self, metric: str) -> float | None:
        """Give one of the ``METRICS``."""
        value: float | None = getattr(self, metric)
        return value


TABLES: Mapping[int, Mapping[str, Row]] = {
    1: {
        "no-limit": Row(90.16, 93.57, 252.49, 13.14, None),
        "commitment": Row(88.22, 91.71, 233.89, 11.83, 24.00),
        "decay": Row(79.62, 84.28, 263.81, 15.15, 26.63),
        "udecay": Row(89.55, 92.07, 218.16, 10.65, 22.60),
    },
    2: {
        "no-limit": Row(87.62, 90.71, 226.91, 13.08, None),
        "commitment": Row(83.75, 87.78, 248.33, 12.17, 24.27),
        "decay": Row(79.56, 82.14, 256.94, 14.18, 25.79),
        "udecay": Row(85.61, 88.21, 238.94, 11.09, 22.70),
    },
    3: {
        "no-limit": Row(86.26, 93.14, 225.10, 11.03, None),
        "commitment": Row(70.65, 76.5, 244.54, 17.66, 27.33),
        "decay": Row(73.06, 80.34, 246.17, 14.34, 25.09),
        "udecay": Row(79.64, 89.35, 226.03, 9.66, 20.97),
    },
    4: {
        "no-limit": Row(81.90, 92.5, 196.35, 10.83, None),
        "commitment": Row(66.47, 82.07, 314.08, 19.28, 28.57),
        "decay": Row(79.90, 89.92, 215.60, 9.44, 20.28),
        "udecay": Row(78.95, 91.42, 226.37, 8.74, 19.74),
    },
    5: {
        "no-limit": Row(90.16, 93.57, 252.49, 13.14, None),
        "commitment": Row(79.58, 79.04, 298.56, 18.50, 29.00),
        "decay": Row(72.98, 74.16, 241.14, 16.87, 27.96),
        "udecay": Row(84.82, 86.21, 239.06, 10.97, 22.39),
    },
    6: {
        "no-limit": Row(87.62, 90.71, 226.91, 13.08, None),
        "commitment": Row(74.84, 78.28, 300.56, 19.61, 29.91),
        "decay": Row(73.62, 74.25, 239.18, 15.39, 11.17),
        "udecay": Row(84.32, 89.12, 235.49, 11.17, 22.73),
    },
    7: {
        "slow": Row(82.51, 85.78, 285.12, 5.09, 15.79),
        "medium": Row(85.61, 88.21, 238.94, 11.09, 22.70),
        "fast": Row(87.67, 89.5, 193.99, 12.05, 23.51),
    },
}

NOT_COMPARABLE: Mapping[tuple[int, str, str], str] = {
    (6, "decay", "violation"): "misprint: 11.17 is the Starv of the next row; 25 to 28 would be in line",
}
"""Single numbers, by table, row and metric."""

REPEATED: Mapping[tuple[int, str], str] = {
    (5, "no-limit"): "the same row as in Table 1",
    (6, "no-limit"): "the same row as in Table 2",
    (7, "medium"): "the row udecay of Table 2",
}
"""Rows that repeat another one, digit for digit: they are evidence only once."""


def why_not_comparable(table: int, row: str, metric: str) -> str:
    """Say why a printed number can be compared with nothing; "" where it can."""
    if TABLES[table][row][metric] is None:
        return "none is printed"
    return NOT_COMPARABLE.get((table, row, metric)) or REPEATED.get((table, row), "")
