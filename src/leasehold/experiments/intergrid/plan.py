"""What is run: readings, sweeps and policies as the file of a study states them, and the runs they make."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

from leasehold.experiments import evaluation
from leasehold.experiments.intergrid.studies import STUDIES, Study

SECONDS_PER_HOUR = 3_600
GUESTS, LOCAL = "guests", "local"
BASE = "base"
CONTROL = "control"


@dataclass(frozen=True, slots=True)
class Reading:
    """How the units of Table 2 are read.

    ``role``            the ``main`` reading, the one always ``beside`` it, or a ``control``
    ``reference_mips``  the machine on which durations are seconds
    ``local_alphas``    scale of the gaps of local requests by cluster, where ``local`` is as stated
    ``same_speed``      every cluster has the reference speed
    ``unit_s``          how many seconds the unit of durations and gaps has
    ``hours``           for how long requests come at most, None for as long as in the others
    """

    name: str
    role: str
    reference_mips: int
    local_alphas: Mapping[str, float]
    what: str
    why: str
    same_speed: bool = False
    unit_s: int = 1
    hours: int | None = None

    @property
    def has_sweeps(self) -> bool:
        """Whether it is run at every point, not only where the sweeps meet."""
        return self.role != CONTROL


@dataclass(frozen=True, slots=True)
class Point:
    """One point of a sweep.

    ``shown``        where it is on the axis of the figure
    ``guests``       parameters of the external stream that differ from those where the sweeps meet
    ``local_per_s``  local requests a second, by the label of the publication
    ``types``        shares of the lease types among external requests
    """

    name: str
    shown: float
    guests: Mapping[str, float]
    local_per_s: float
    types: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Sweep:
    """What is varied in one of the four experiments; ``letter`` is that of its figures."""

    letter: str
    axis: str
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class FederationRun(evaluation.Configuration):
    """Requests to a gateway; ``guests``, ``local_per_s`` and ``types`` are those of its point."""

    study: str
    reading: Reading
    point: str
    guests: Mapping[str, float]
    local_per_s: float
    types: Mapping[str, float]
    policy: str
    hours: int

    def as_data(self) -> dict[str, Any]:
        """Give what decides its results, as plain data: no words about its reading."""
        words = ("what", "why", "role")
        reading = {key: value for key, value in asdict(self.reading).items() if key not in words}
        return asdict(self) | {"reading": reading}


@dataclass(frozen=True, slots=True)
class Plan(evaluation.Plan[FederationRun]):
    """Everything that can be run of a study, for a number of hours of requests."""

    study: Study
    hours: int
    readings: tuple[Reading, ...]
    sweeps: Mapping[str, Sweep]
    policies: tuple[str, ...]

    @property
    def swept(self) -> list[Reading]:
        """The readings of the figures: the main one, and the one beside it."""
        return [reading for reading in self.readings if reading.has_sweeps]

    def name_of(self, reading: Reading, point: str, policy: str) -> str:
        """Name a configuration."""
        return _name(self.study, reading, point, policy, self.hours)

    def names_for(self, figures: Sequence[str]) -> list[str]:
        """Name the configurations that these figures need; those of the controls only for all figures."""
        letters = sorted({self.study.figures[figure].letter for figure in figures})
        points = {point.name for letter in letters for point in self.sweeps[letter].points}
        controls = set(figures) == set(self.study.figures)
        return [
            name
            for name, one in self.configurations.items()
            if (one.reading.has_sweeps and one.point in points) or (controls and one.point == BASE)
        ]


@cache
def plan(study: str, hours: int | None = None) -> Plan:
    """Read the plan of a study, by its number, for a number of hours of requests; None: as published."""
    found, stated = STUDIES[study], STUDIES[study].stated
    hours = stated["published"]["hours"] if hours is None else hours
    readings = tuple(Reading(**entry) for entry in stated["reading"])
    sweeps = {entry["letter"]: _sweep(entry, stated) for entry in stated["sweep"]}
    policies = tuple(stated["published"]["policies"])
    points = {point.name: point for sweep in sweeps.values() for point in sweep.points}
    made = [
        FederationRun(
            name=_name(found, reading, point.name, policy, hours),
            study=study,
            reading=reading,
            point=point.name,
            guests=point.guests,
            local_per_s=point.local_per_s,
            types=point.types,
            policy=policy,
            hours=hours if reading.hours is None else min(hours, reading.hours),
        )
        for reading in readings
        for point in points.values()
        if reading.has_sweeps or point.name == BASE
        for policy in policies
    ]
    return Plan(stated, {one.name: one for one in made}, found, hours, readings, sweeps, policies)


def configuration_named(name: str) -> FederationRun:
    """Find a configuration of any plan by its name."""
    study, _, rest = name.partition("-")
    hours = rest.rpartition("-")[2].removesuffix("h")
    return plan(study, int(hours)).configurations[name]


def _sweep(entry: Mapping[str, Any], stated: Mapping[str, Any]) -> Sweep:
    points = entry.get("point") or _of_one_parameter(entry)
    return Sweep(entry["letter"], entry["axis"], tuple(_point(entry["letter"], stated, one) for one in points))


def _of_one_parameter(entry: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Write the points out of a sweep that varies one parameter of the external stream, or the local rate."""
    key, guests = entry["key"], entry.get("guests", {})
    return [
        {"shown": shown, LOCAL: value, GUESTS: guests}
        if key == LOCAL
        else {"shown": shown, GUESTS: guests | {key: value}}
        for value, shown in zip(entry["values"], entry["shown"], strict=True)
    ]


def _point(letter: str, stated: Mapping[str, Any], entry: Mapping[str, Any]) -> Point:
    """Make a point; where it is that of the other sweeps, it has their name and is run once."""
    default, published = stated["stream"][GUESTS], stated["published"]
    guests = {key: value for key, value in entry.get(GUESTS, {}).items() if value != default[key]}
    local_per_s = entry.get(LOCAL, published["local_per_s"])
    types = entry.get("types", published["types"])
    is_base = not guests and local_per_s == published["local_per_s"] and types == published["types"]
    name = BASE if is_base else f"{letter}{entry['shown']:g}"
    return Point(name, entry["shown"], guests, local_per_s, types)


def _name(study: Study, reading: Reading, point: str, policy: str, hours: int) -> str:
    return f"{study.number}-{reading.name.lower()}-{point}-{policy}-{hours}h"
