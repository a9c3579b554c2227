"""What is run: the configurations that ``usla.toml`` states, one for each different row of the tables."""

import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any

from leasehold.experiments.interpretation import Interpretation
from leasehold.model.errors import InvalidField

MS_PER_S = 1_000
PPM = 1_000_000
FILE = "usla.toml"
ORDERS = ("by-submission", "in-turn")


@dataclass(frozen=True, slots=True)
class AgreementTerms:
    """What one of the four uSLAs says, the same for every consumer but for its shares.

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
class Configuration:
    """One run, but for its seed.

    ``jobs, starts_s, shares, bursts``  one for each consumer
    ``ends_s``                          no job comes at or after it; None: ``window_s`` after each start
    ``order``                           whose turn it is among admitted consumers: see ``ORDERS``
    """

    name: str
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

    @property
    def cpus(self) -> int:
        """How many there are in all."""
        return self.domains * self.slots_per_domain

    def window_of(self, consumer: int) -> tuple[int, int]:
        """Say from when until when jobs of a consumer come, seconds."""
        start_s = self.starts_s[consumer]
        return start_s, start_s + self.window_s if self.ends_s is None else self.ends_s

    def as_data(self) -> dict[str, Any]:
        """Give it as plain data."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Table:
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
class Plan:
    """Everything that is run, and how it is read.

    ``configurations``  by name; those of the tables, then those of the controls
    ``said``            the file as it is, for whoever wants to show it
    """

    configurations: Mapping[str, Configuration]
    tables: tuple[Table, ...]
    controls: tuple[Control, ...]
    interpretations: tuple[Interpretation, ...]
    said: Mapping[str, Any]

    def of_row(self, table: int, row: str) -> str:
        """Name the configuration of a row of a table."""
        return self.tables[table - 1].rows[row]


@cache
def plan() -> Plan:
    """Read the plan that comes with Leasehold."""
    return plan_from(tomllib.loads((files(__package__) / FILE).read_text(encoding="utf-8")))


def plan_from(said: Mapping[str, Any]) -> Plan:
    """Make the plan of what the file says; raises InvalidField for an unknown order among consumers."""
    configurations: dict[str, Configuration] = {}
    tables = tuple(_table(said, table, configurations) for table in said["table"])
    controls = tuple(_control(control, tables, configurations) for control in said["control"])
    interpretations = tuple(Interpretation(**entry) for entry in said["interpretation"])
    return Plan(configurations, tables, controls, interpretations, said)


def _table(said: Mapping[str, Any], table: Mapping[str, Any], into: dict[str, Configuration]) -> Table:
    rows = {}
    for row, agreement in table["rows"].items():
        made = _configuration(said, table["scenario"], agreement)
        rows[row] = into.setdefault(made.name, made).name
    return Table(table["number"], table["title"], rows)


def _configuration(said: Mapping[str, Any], scenario: list[str], agreement: str) -> Configuration:
    workload, allocation, arrival = scenario
    fixed, chosen = said["published"], said["calibrated"]
    starts = chosen["starts_s"] if arrival == "unsynchronous" else [0] * fixed["consumers"]
    return Configuration(
        name=f"{workload}-{allocation}-{arrival}-{agreement}",
        domains=fixed["domains"],
        slots_per_domain=chosen["slots_per_domain"],
        horizon_s=fixed["horizon_s"],
        mean_s=fixed["mean_s"],
        sigma_s=chosen["sigma_s"],
        window_s=chosen["window_s"],
        jobs=tuple(said["workload"][workload]),
        starts_s=tuple(starts),
        shares=tuple(said["allocation"][allocation]["shares"]),
        bursts=tuple(said["allocation"][allocation]["bursts"]),
        agreement=_terms(said["agreement"][agreement]),
        order=_order(chosen["order"]),
    )


def _control(
    control: Mapping[str, Any],
    tables: tuple[Table, ...],
    into: dict[str, Configuration],
) -> Control:
    rows = []
    for number, row in control["rows"]:
        name = f"{tables[number - 1].rows[row]}-{control['name']}"
        into[name] = _changed(into[tables[number - 1].rows[row]], name, control)
        rows.append((number, row, name))
    return Control(control["name"], control["question"], tuple(rows))


def _changed(base: Configuration, name: str, control: Mapping[str, Any]) -> Configuration:
    """Give a configuration as a control reads it."""
    return replace(
        base,
        name=name,
        agreement=replace(base.agreement, **control.get("agreement", {})),
        order=_order(control.get("order", base.order)),
        starts_s=tuple(control.get("starts_s", base.starts_s)),
        ends_s=control.get("ends_s", base.ends_s),
    )


def _terms(entry: Mapping[str, Any]) -> AgreementTerms:
    steps = tuple((reached, factor) for reached, factor in entry.get("steps", ()))
    return AgreementTerms(**{**entry, "factors": tuple(entry.get("factors", ())), "steps": steps})


def _order(name: str) -> str:
    if name not in ORDERS:
        raise InvalidField("order", name, f"one of {', '.join(ORDERS)}")
    return name
