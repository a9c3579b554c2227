"""Figures 6 and 7: how sure a group of nodes is, by how likely one fails, and by how many there are."""

from collections.abc import Iterator
from dataclasses import dataclass

from leasehold.experiments.hybrid.settings import said
from leasehold.matching.reliability.hot import at_least


@dataclass(frozen=True, slots=True)
class Curve:
    """One curve: what it is of, and its points; ``kind`` and ``dash`` are shown by colour and by dashes."""

    name: str
    points: tuple[tuple[float, float], ...]
    kind: str
    dash: str = ""


def figure_6() -> list[Curve]:
    """Reliability by failure probability, for k of the units of Figure 6, and for one node alone."""
    units, at = said()["published"]["units"], said()["curves"]["failure_probabilities"]
    alone = Curve("one node alone", tuple((q, 1 - q) for q in at), "one node alone")
    groups = [
        Curve(name, tuple((q, at_least(needed, [1 - q] * units)) for q in at), name)
        for needed in said()["curves"]["needed"]
        for name in [f"{needed} of {units}"]
    ]
    return [alone, *groups]


def figure_7() -> list[Curve]:
    """Reliability by the number of nodes, for jobs that need 1, 2 and 3 of them."""
    return list(_figure_7())


def _figure_7() -> Iterator[Curve]:
    for q in said()["curves"]["of_figure_7"]:
        for needed in said()["curves"]["needed"]:
            sizes = [size for size in said()["curves"]["nodes"] if size >= needed]
            points = tuple((size, at_least(needed, [1 - q] * size)) for size in sizes)
            yield Curve(f"{needed} needed, each fails with {q:g}", points, f"q = {q:g}", f"{needed} needed")
