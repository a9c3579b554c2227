"""What publications claim of their figures, as what can be tested: contrasts of policies."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

TITLES: Mapping[str, str] = {
    "rr": "RR",
    "lrf-rnd": "LRF-RND",
    "bcf-rnd": "BCF-RND",
    "pap-rnd": "PAP-RND",
    "pap-rtdp": "PAP-RTDP",
    "mov": "MOV",
    "mlip": "MLIP",
    "moml": "MOML",
    "preempting": "with preemption",
    "never": "without preemption",
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
        if self.end is not None:
            return " at the first point" if self.end == 0 else " at the last point"
        bounds = [("above", self.above), ("up to", self.below)]
        return "".join(f" {word} {value:g}" for word, value in bounds if value is not None)


EVERYWHERE = Where()
FIRST, LAST = Where(end=0), Where(end=-1)


@dataclass(frozen=True, slots=True)
class Term:
    """The mean of a figure's metric for a policy over some points, so many times."""

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
    ``topic``    which paragraph of ``intergrid.toml`` is about it
    """

    figure: str
    text: str
    contrasts: tuple[Contrast, ...]
    topic: str
    expects: Expects = Expects.MORE
    printed: tuple[float, float] | None = None
    weaker: tuple[Contrast, ...] = ()


def difference(more: str, less: str, where: Where = EVERYWHERE, times: float = 1.0) -> Contrast:
    """Give so many times the one less the other."""
    return Term(times, more, where), Term(-1.0, less, where)


def gap(
    figure: str, more: str, less: str, printed: tuple[float, float], topic: str, where: Where = EVERYWHERE
) -> FigureClaim:
    """Claim that one has so much more than another, as printed."""
    text = f"{TITLES[more]} - {TITLES[less]}{where.as_text}"
    return FigureClaim(figure, text, (difference(more, less, where),), topic, printed=printed)


def is_least(figure: str, policy: str, policies: Sequence[str], topic: str) -> FigureClaim:
    """Claim that a policy has less than every other."""
    others = tuple(difference(other, policy) for other in policies if other != policy)
    return FigureClaim(figure, f"{TITLES[policy]} is lowest", others, topic)


def is_most(figure: str, policy: str, policies: Sequence[str], topic: str) -> FigureClaim:
    """Claim that a policy has more than every other."""
    others = tuple(difference(policy, other) for other in policies if other != policy)
    return FigureClaim(figure, f"{TITLES[policy]} is highest", others, topic)


def less_by(
    figure: str, part: float, text: str, pair: tuple[str, tuple[str, ...]], where: Where = EVERYWHERE
) -> FigureClaim:
    """Claim that a policy has less than others, by this part of theirs at least."""
    policy, others = pair
    strong = tuple(difference(other, policy, where, times=1 - part) for other in others)
    weak = tuple(difference(other, policy, where) for other in others)
    return FigureClaim(figure, text, strong, "size", weaker=weak)


def grows(figure: str, pair: tuple[str, str], bound: float, text: str, topic: str) -> FigureClaim:
    """Claim that the first has more over the second above a bound than it has below."""
    (more, less), above, below = pair, Where(above=bound), Where(below=bound)
    return FigureClaim(
        figure, text, ((*difference(more, less, above), *difference(less, more, below)),), topic
    )


def rises(figure: str, policies: Sequence[str]) -> FigureClaim:
    """Claim that every policy has more at the end of the sweep than at its begin."""
    ends = tuple((Term(1, policy, LAST), Term(-1, policy, FIRST)) for policy in policies)
    return FigureClaim(figure, "rises along the sweep, for every policy", ends, "shape")


def falls(figure: str, policies: Sequence[str]) -> FigureClaim:
    """Claim that every policy has less at the end of the sweep than at its begin."""
    ends = tuple((Term(1, policy, FIRST), Term(-1, policy, LAST)) for policy in policies)
    return FigureClaim(figure, "falls along the sweep, for every policy", ends, "shape")


def is_flat(figure: str, policies: Sequence[str]) -> FigureClaim:
    """Claim that for no policy the end of the sweep differs from its begin."""
    ends = tuple((Term(1, policy, LAST), Term(-1, policy, FIRST)) for policy in policies)
    return FigureClaim(figure, "does not change along the sweep", ends, "shape", Expects.NO_DIFFERENCE)
