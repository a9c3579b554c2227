"""Which publications are run again here, their figures, and what each claims of them, as what can be tested.

All of it stands in their TOML files, section ``[study]``.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
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
class Figure:
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
    ``quick_hours, quick_seeds``  what shows the shape in about two minutes
    ``stated``       the file that states it
    """

    number: str
    title: str
    source: str
    reference: str
    figures: Mapping[str, Figure]
    claims: Sequence[FigureClaim]
    quick_hours: int
    quick_seeds: int
    groups: Mapping[str, Sequence[str]]
    headline: tuple[str, ...]
    stated: Mapping[str, Any]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of it and its figures on the command line: ``003``, ``003-fig5a``, ``003-table3``."""
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


def _study(number: str, file: str) -> Study:
    stated = evaluation.read(__package__, file)
    section, policies = stated["study"], stated["published"]["policies"]
    claims = [_claim(one, entry, policies) for entry in section["claims"] for one in entry["of"]]
    if section.get("by_figure"):
        claims.sort(key=lambda claim: claim.figure)
    return Study(
        number,
        figures=dict(sorted((one.name, one) for entry in section["figures"] for one in _figures(entry))),
        claims=claims,
        groups=section.get("groups", {}),
        headline=tuple(section.get("headline", ())),
        stated=stated,
        **{key: section[key] for key in ("title", "source", "reference", "quick_hours", "quick_seeds")},
    )


def _figures(entry: Mapping[str, Any]) -> Iterator[Figure]:
    """Give the parts of a figure that show one metric, each along its sweep."""
    for part, sweep in zip(entry["parts"], entry.get("sweeps", entry["parts"]), strict=True):
        name = f"{entry['figure']}{part}"
        yield Figure(name, sweep, entry["metric"], entry["title"], tuple(entry["beside"]))


STUDIES: Mapping[str, Study] = {
    number: _study(number, file)
    for number, file in (
        ("000", "contention.toml"),
        ("001", "ica3pp2011.toml"),
        ("003", "jpdc2012.toml"),
        ("acsc2011", "acsc2011.toml"),
    )
}
