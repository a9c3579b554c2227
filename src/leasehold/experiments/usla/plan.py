"""What is run, and what is printed: ``usla.toml``, a configuration for each different row of its tables."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from leasehold.experiments import evaluation
from leasehold.model.errors import InvalidField

MS_PER_S = 1_000
PPM = 1_000_000
ORDERS = ("by-submission", "in-turn")

METRIC_TITLES: Mapping[str, str] = {
    "util": "Util",
    "comp": "Comp",
    "response": "Response",
    "starv": "Starv",
    "violation": "Violation",
}
METRICS = tuple(METRIC_TITLES)
UNITS: Mapping[str, str] = {metric: "s" if metric == "response" else "%" for metric in METRICS}


@dataclass(frozen=True, slots=True)
class AgreementTerms:
    """What one of the four uSLAs says, the same for every consumer except for its shares.

    ``epoch_is_burst``  the burst limit holds in place of the epoch's too (a control)
    """

    kind: str
    epoch_s: int = 0
    burst_s: int = 0
    window_s: int = 0
    windows: int = 0
    factors: tuple[float, ...] = ()
    steps: tuple[tuple[float, float], ...] = ()
    normalise: bool = False
    epoch_is_burst: bool = False


@dataclass(frozen=True, slots=True)
class AgreementRun(evaluation.Configuration):
    """One hour of jobs under one kind of agreement.

    ``jobs, starts_s, shares, bursts``  one for each consumer
    ``ends_s``                          no job comes at or after it; None: ``window_s`` after each start
    ``order``                           the turn among admitted consumers: see ``ORDERS``
    """

    domains: int
    slots_per_domain: int
    horizon_s: int
    mean_s: float
    sigma_s: float
    window_s: int
    jobs: tuple[int, ...]
    starts_s: tuple[int, ...]
    shares: tuple[float, ...]
    bursts: tuple[float, ...]
    agreement: AgreementTerms
    order: str
    ends_s: int | None = None

    def window_of(self, consumer: int) -> tuple[int, int]:
        """Give the time in which jobs of a consumer come, seconds."""
        start_s = self.starts_s[consumer]
        return start_s, start_s + self.window_s if self.ends_s is None else self.ends_s


@dataclass(frozen=True, slots=True)
class PrintedTable:
    """One of the printed tables; ``rows`` are the names of configurations by the name that is printed."""

    number: int
    title: str
    rows: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Control:
    """A reading that was not taken; ``rows``: (table, row, configuration of this reading)."""

    name: str
    question: str
    rows: tuple[tuple[int, str, str], ...]


@dataclass(frozen=True, slots=True)
class UslaPlan(evaluation.Plan[AgreementRun]):
    """All tables, and the readings that were not taken; configurations in this order."""

    tables: tuple[PrintedTable, ...]
    controls: tuple[Control, ...]

    def of_row(self, table: int, row: str) -> str:
        """Name the configuration of a row of a table."""
        return next(one for one in self.tables if one.number == table).rows[row]

    def only(self, numbers: Collection[int]) -> "UslaPlan":
        """Give the plan of these tables alone, without controls, which belong to all of them."""
        tables = tuple(one for one in self.tables if one.number in numbers)
        needed = {name for one in tables for name in one.rows.values()}
        found = {name: one for name, one in self.configurations.items() if name in needed}
        return UslaPlan(self.stated, found, tables, ())


PREFIX = "002-table"


def parts() -> list[str]:
    """Name what can be run alone: ``002-table1``."""
    return [f"{PREFIX}{one.number}" for one in plan().tables]


def plan_of(names: Sequence[str]) -> UslaPlan:
    """Give the plan of some parts, by their names; no name is everything."""
    return plan().only({int(name.removeprefix(PREFIX)) for name in names}) if names else plan()


@cache
def plan() -> UslaPlan:
    """Read what is run; raises InvalidField for an unknown order among consumers."""
    stated = evaluation.read(__package__, "usla.toml")
    made: dict[str, AgreementRun] = {}
    tables = tuple(_table(stated, entry, made) for entry in stated["table"])
    controls = tuple(_control(entry, tables, made) for entry in stated["control"])
    return UslaPlan(stated, made, tables, controls)


def _table(stated: Mapping[str, Any], entry: Mapping[str, Any], made: dict[str, AgreementRun]) -> PrintedTable:
    rows = {}
    for row, agreement in entry["rows"].items():
        one = _configuration(stated, entry["scenario"], agreement)
        rows[row] = made.setdefault(one.name, one).name
    return PrintedTable(entry["number"], entry["title"], rows)


def _configuration(stated: Mapping[str, Any], scenario: list[str], agreement: str) -> AgreementRun:
    workload, allocation, arrival = scenario
    fixed, chosen, terms = stated["published"], stated["calibrated"], stated["agreement"][agreement]
    starts = chosen["starts_s"] if arrival == "unsynchronous" else [0] * fixed["consumers"]
    listed = {"factors": tuple(terms.get("factors", ())), "steps": tuple(map(tuple, terms.get("steps", ())))}
    return AgreementRun(
        name=f"{workload}-{allocation}-{arrival}-{agreement}",
        domains=fixed["domains"],
        slots_per_domain=chosen["slots_per_domain"],
        horizon_s=fixed["horizon_s"],
        mean_s=fixed["mean_s"],
        sigma_s=chosen["sigma_s"],
        window_s=chosen["window_s"],
        jobs=tuple(stated["workload"][workload]),
        starts_s=tuple(starts),
        shares=tuple(stated["allocation"][allocation]["shares"]),
        bursts=tuple(stated["allocation"][allocation]["bursts"]),
        agreement=AgreementTerms(**{**terms, **listed}),
        order=_order(chosen["order"]),
    )


def _control(entry: Mapping[str, Any], tables: tuple[PrintedTable, ...], made: dict[str, AgreementRun]) -> Control:
    rows = []
    for number, row in entry["rows"]:
        base = made[tables[number - 1].rows[row]]
        name = f"{base.name}-{entry['name']}"
        made[name] = replace(
            base,
            name=name,
            agreement=replace(base.agreement, **entry.get("agreement", {})),
            order=_order(entry.get("order", base.order)),
            starts_s=tuple(entry.get("starts_s", base.starts_s)),
            ends_s=entry.get("ends_s", base.ends_s),
        )
        rows.append((number, row, name))
    return Control(entry["name"], entry["question"], tuple(rows))


def _order(name: str) -> str:
    if name not in ORDERS:
        raise InvalidField("order", name, f"one of {', '.join(ORDERS)}")
    return name


# What is printed


TABLES: Mapping[int, Mapping[str, Mapping[str, float | None]]] = {
    int(number): {
        row: dict.fromkeys(METRICS) | dict(zip(METRICS, values, strict=False)) for row, values in rows.items()
    }
    for number, rows in evaluation.read(__package__, "usla.toml")["printed"].items()
}
"""By table, row and metric: percentages, and seconds for the response time; None where there is a dash."""

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
    """Give the reason why a printed number can be compared with nothing; "" where it can."""
    if TABLES[table][row][metric] is None:
        return "none is printed"
    return NOT_COMPARABLE.get((table, row, metric)) or REPEATED.get((table, row), "")
