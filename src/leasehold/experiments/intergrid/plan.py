"""What is run: which publications, their readings, sweeps and policies as the file of a study states them.

All of it stands in their TOML files: section ``[study]`` has the figures, and what each claims as what can be tested.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import cache
from typing import Any

from leasehold.experiments import evaluation
from leasehold.model.errors import InvalidField, UnknownName

PREEMPTING, NEVER = "preempting", "never"
POLICY_TITLES: Mapping[str, str] = {
    **{name: name.upper() for name in ("rr", "lrf-rnd", "bcf-rnd", "pap-rnd", "pap-rtdp")},
    **{name: name.upper() for name in ("mov", "mlip", "moml")},
    PREEMPTING: "with preemption",
    NEVER: "without preemption",
}
"""The names of policies in print."""


@dataclass(frozen=True, slots=True)
class PublishedFigure:
    """One part of a figure: which sweep, which metric; ``beside`` are metrics that are shown with it."""

    name: str
    letter: str
    metric: str
    title: str
    beside: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Where:
    """The points of a sweep that lie above and below some values of its axis; ``end`` picks first or last."""

    above: float | None = None
    below: float | None = None
    end: int | None = None

    @property
    def as_text(self) -> str:
        """Write it down: " above 300"; "" for the whole sweep."""
        bounds = [("above", self.above), ("up to", self.below)]
        return "".join(f" {word} {value:g}" for word, value in bounds if value is not None)


EVERYWHERE = Where()
FIRST, LAST = Where(end=0), Where(end=-1)


@dataclass(frozen=True, slots=True)
class Term:
    """The mean of a figure's metric for a policy over some points, with a factor."""

    times: float
    policy: str
    where: Where = EVERYWHERE


Contrast = tuple[Term, ...]
"""A sum of terms, claimed to be above zero, or not to differ from it."""


class Expects(StrEnum):
    """What is claimed of contrasts."""

    MORE = "more"
    NO_DIFFERENCE = "no difference"


@dataclass(frozen=True, slots=True)
class FigureClaim:
    """One sentence about one figure.

    ``printed``  the printed 95 % interval of its only contrast, None where none is
    ``weaker``   what has to be above zero for the direction to be right, where that is less than is claimed
    ``topic``    which paragraph of ``why`` in the file is about it
    """

    figure: str
    text: str
    contrasts: tuple[Contrast, ...]
    topic: str
    expects: Expects = Expects.MORE
    printed: tuple[float, float] | None = None
    weaker: tuple[Contrast, ...] = ()


def _claim(figure: str, entry: Mapping[str, Any], policies: Sequence[str]) -> FigureClaim:
    """Read a claim about a figure."""
    text, contrasts = _sentence(entry, policies)
    weaker = _sentence({**entry, "by": 0.0}, policies)[1] if entry["kind"] == "less" else ()
    if "weaker" in entry:
        weaker = _sentence({**entry, "terms": entry["weaker"]}, policies)[1]
    return FigureClaim(
        figure,
        text,
        contrasts,
        entry["topic"],
        Expects.NO_DIFFERENCE if entry["kind"] in {"flat", "same"} else Expects.MORE,
        tuple(entry["printed"]) if "printed" in entry else None,
        weaker,
    )


def _sentence(  # noqa: C901, PLR0911 - one case for each kind
    entry: Mapping[str, Any], policies: Sequence[str]
) -> tuple[str, tuple[Contrast, ...]]:
    """Read the text of a claim, and its contrasts; all kinds occur in the four files."""
    where = Where(entry.get("above"), entry.get("below"), -1 if "end" in entry else None)
    above, below = Where(above=entry.get("at")), Where(below=entry.get("at"))
    others = entry.get("than", [other for other in policies if other != entry.get("policy")])
    match entry:
        case {"kind": "rises"}:
            return "rises along the sweep, for every policy", _change(policies, LAST, FIRST)
        case {"kind": "falls"}:
            return "falls along the sweep, for every policy", _change(policies, FIRST, LAST)
        case {"kind": "flat"}:
            return "does not change along the sweep", _change(policies, LAST, FIRST)
        case {"kind": "drops", "policy": policy, "text": text}:
            return text, _change([policy], below, above)
        case {"kind": "least", "policy": policy}:
            return f"{POLICY_TITLES[policy]} is lowest", tuple(_difference(other, policy) for other in others)
        case {"kind": "most", "policy": policy}:
            return f"{POLICY_TITLES[policy]} is highest", tuple(_difference(policy, other) for other in others)
        case {"kind": "less", "policy": policy, "by": part, "text": text}:
            return text, tuple(_difference(other, policy, where, 1 - part) for other in others)
        case {"kind": "gap", "pair": [more, less]}:
            return f"{POLICY_TITLES[more]} - {POLICY_TITLES[less]}{where.as_text}", (_difference(more, less, where),)
        case {"kind": "same", "pair": [more, less], "text": text}:
            return text, (_difference(more, less, where),)
        case {"kind": "grows", "pair": [more, less], "text": text}:
            return text, ((*_difference(more, less, above), *_difference(less, more, below)),)
        case {"kind": "order", "pairs": pairs, "text": text}:
            return text, tuple(_difference(*pair) for pair in pairs)
        case {"kind": "sum", "terms": terms, "text": text}:
            return text, (tuple(Term(times, policy, where) for times, policy in terms),)
    raise InvalidField("kind", entry["kind"], "a kind of claim, with its keys")


def _change(policies: Sequence[str], more: Where, less: Where) -> tuple[Contrast, ...]:
    """Give for each policy one place less another."""
    return tuple((Term(1, policy, more), Term(-1, policy, less)) for policy in policies)


def _difference(more: str, less: str, where: Where = EVERYWHERE, times: float = 1.0) -> Contrast:
    """Give the one, with a factor, less the other."""
    return Term(times, more, where), Term(-1.0, less, where)


@dataclass(frozen=True, slots=True)
class Study:
    """One publication.

    ``number``     its name on the command line
    ``reference``  the policy to which the others are compared
    ``groups``     names that stand for several figures
    ``headline``   how the claims begin that the publication makes in its abstract or its conclusions
    ``lesson``     what its runs show; ``{R2/mlip/vms_preempted}`` stands for a ratio to the reference
    ``lead_figure``  the figure that shows most of it
    ``quick_hours, quick_seeds``  what shows the shape in about two minutes
    ``stated``       the file that states it
    ``states_size``  whether the publication says how many replications of how many hours it has
    """

    number: str
    title: str
    source: str
    reference: str
    lesson: str
    lead_figure: int
    figures: Mapping[str, PublishedFigure]
    claims: Sequence[FigureClaim]
    quick_hours: int
    quick_seeds: int
    groups: Mapping[str, Sequence[str]]
    headline: tuple[str, ...]
    stated: Mapping[str, Any]
    states_size: bool

    @property
    def names(self) -> tuple[str, ...]:
        """The names of it and its figures on the command line: ``003``, ``003-fig5a``, ``003-fig5``, ``003-table3``."""
        figures = (f"{self.number}-fig{figure}" for figure in self.figures)
        return self.number, *figures, *(f"{self.number}-{group}" for group in self.groups)

    def parts(self) -> Sequence[str]:
        """Give all of these but its own."""
        return self.names[1:]

    def figures_named(self, names: Sequence[str]) -> list[str]:
        """List figures, in their order and each once; no name is all of them. Raises UnknownName."""
        wanted = {figure for name in names or [self.number] for figure in self._figures_of(name)}
        return [figure for figure in self.figures if figure in wanted]

    def _figures_of(self, name: str) -> Sequence[str]:
        if name not in self.names:
            raise UnknownName("figure", name, self.names)
        short = name.removeprefix(self.number).removeprefix("-")
        if short in self.groups:
            return self.groups[short]
        return [short.removeprefix("fig")] if short else list(self.figures)


STATED_KEYS = ("title", "source", "reference", "lesson", "lead_figure", "quick_hours", "quick_seeds")


def _study(number: str, file: str) -> Study:
    stated = evaluation.read(__package__, file)
    section, policies = stated["study"], stated["published"]["policies"]
    claims = [_claim(one, entry, policies) for entry in section["claims"] for one in entry["of"]]
    if section.get("by_figure"):
        claims.sort(key=lambda claim: claim.figure)
    figures = dict(sorted((one.name, one) for entry in section["figures"] for one in _figures(entry)))
    return Study(
        number,
        figures=figures,
        claims=claims,
        groups=dict(sorted({**_whole_figures(figures), **section.get("groups", {})}.items())),
        headline=tuple(section.get("headline", ())),
        stated=stated,
        states_size=section.get("states_size", False),
        **{key: section[key] for key in STATED_KEYS},
    )


def _figures(entry: Mapping[str, Any]) -> Iterator[PublishedFigure]:
    """Give the parts of a figure that show one metric, each along its sweep."""
    for part, sweep in zip(entry["parts"], entry.get("sweeps", entry["parts"]), strict=True):
        name = f"{entry['figure']}{part}"
        yield PublishedFigure(name, sweep, entry["metric"], entry["title"], tuple(entry["beside"]))


def _whole_figures(names: Iterable[str]) -> dict[str, list[str]]:
    """Group the parts of each figure under its own name: ``fig5`` for 5a to 5d."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(f"fig{name[:-1]}", []).append(name)
    return groups


STUDIES: Mapping[str, Study] = {
    number: _study(number, file)
    for number, file in (
        ("000", "contention.toml"),
        ("001", "ica3pp2011.toml"),
        ("003", "jpdc2012.toml"),
        ("acsc2011", "acsc2011.toml"),
    )
}


SECONDS_PER_HOUR = 3_600
GUESTS, LOCAL = "guests", "local"
BASE = "base"
CONTROL = "control"


@dataclass(frozen=True, slots=True)
class PaperReading:
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
    """What is varied in one of the experiments; ``letter`` is that of its figures.

    ``hours``  for how long requests come at most, None for as long as in the others
    """

    letter: str
    axis: str
    points: tuple[Point, ...]
    hours: int | None = None


@dataclass(frozen=True, slots=True)
class FederationRun(evaluation.Configuration):
    """Requests to a gateway; ``guests``, ``local_per_s`` and ``types`` are those of its point."""

    study: str
    reading: PaperReading
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
class IntergridPlan(evaluation.Plan[FederationRun]):
    """Everything that can be run of a study, for a number of hours of requests."""

    study: Study
    hours: int
    readings: tuple[PaperReading, ...]
    sweeps: Mapping[str, Sweep]
    policies: tuple[str, ...]

    @property
    def swept(self) -> list[PaperReading]:
        """The readings of the figures: the main one, and the one beside it."""
        return [reading for reading in self.readings if reading.has_sweeps]

    def name_of(self, reading: PaperReading, point: str, policy: str, sweep: Sweep | None = None) -> str:
        """Name a configuration; that of a sweep may be shorter than that of the same point in another."""
        return _name(self.study, reading, point, policy, _fewest(self.hours, sweep.hours if sweep else None))

    def names_for(self, figures: Sequence[str]) -> list[str]:
        """Name the configurations that these figures need; those of the controls only for all figures."""
        sweeps = [self.sweeps[letter] for letter in sorted({self.study.figures[one].letter for one in figures})]
        needed = {
            self.name_of(reading, point.name, policy, sweep)
            for sweep in sweeps
            for point in sweep.points
            for reading in self.swept
            for policy in self.policies
        }
        if set(figures) == set(self.study.figures):
            needed |= {self.name_of(reading, BASE, policy) for reading in self.readings for policy in self.policies}
        return [name for name in self.configurations if name in needed]


@cache
def plan(study: str, hours: int | None = None) -> IntergridPlan:
    """Read the plan of a study, by its number, for a number of hours of requests; None: as published."""
    found, stated = STUDIES[study], STUDIES[study].stated
    hours = stated["published"]["hours"] if hours is None else hours
    readings = tuple(PaperReading(**entry) for entry in stated["reading"])
    sweeps = {entry["letter"]: _sweep(entry, stated) for entry in stated["sweep"]}
    policies = tuple(stated["published"]["policies"])
    points = {(point.name, sweep.hours): point for sweep in sweeps.values() for point in sweep.points}
    made = [
        FederationRun(
            name=_name(found, reading, point.name, policy, _fewest(hours, most_hours)),
            study=study,
            reading=reading,
            point=point.name,
            guests=point.guests,
            local_per_s=point.local_per_s,
            types=point.types,
            policy=policy,
            hours=_fewest(hours, most_hours, reading.hours),
        )
        for reading in readings
        for (_, most_hours), point in points.items()
        if reading.has_sweeps or (point.name == BASE and most_hours is None)
        for policy in policies
    ]
    return IntergridPlan(stated, {one.name: one for one in made}, found, hours, readings, sweeps, policies)


def configuration_named(name: str) -> FederationRun:
    """Find a configuration of any plan by its name."""
    study, _, rest = name.partition("-")
    hours = rest.rpartition("-")[2].removesuffix("h")
    return plan(study, int(hours)).configurations[name]


def _sweep(entry: Mapping[str, Any], stated: Mapping[str, Any]) -> Sweep:
    points = entry.get("point") or _of_one_parameter(entry)
    made = tuple(_point(entry["letter"], stated, one) for one in points)
    return Sweep(entry["letter"], entry["axis"], made, entry.get("hours"))


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


def _fewest(hours: int, *limits: int | None) -> int:
    return min([hours, *(limit for limit in limits if limit is not None)])


def _name(study: Study, reading: PaperReading, point: str, policy: str, hours: int) -> str:
    return f"{study.number}-{reading.name.lower()}-{point}-{policy}-{hours}h"
