"""Where a job begins, as the parts of the desk tell each other."""

from dataclasses import dataclass

from leasehold.jobs.job import Place
from leasehold.matching.assignment import Edge
from leasehold.matching.choice import Physical
from leasehold.matching.images import Recipe
from leasehold.matching.verdict import FITS, Verdict


@dataclass(frozen=True, slots=True)
class Placing:
    """Places to begin at, the first for the job itself and the others for copies; or why there are none.

    ``standby``  a place that is kept ready
    ``surest``   how sure that is, where it was asked; without places, how sure it can be had at most
    """

    places: tuple[Place, ...] = ()
    verdict: Verdict = FITS
    surest: float | None = None
    standby: Place | None = None

    @property
    def recipe(self) -> Recipe | None:
        """What has to be built before the job can begin, where that is so."""
        return next((recipe for place in self.places if (recipe := recipe_of(place))), None)


def recipe_of(place: Place) -> Recipe | None:
    """Give what has to be built for a place; None where all is there."""
    return place.image if not isinstance(place, Physical) and isinstance(place.image, Recipe) else None


def edges_of(place: Place) -> tuple[Edge, ...]:
    """Give the nodes or hosts of a place."""
    return place.nodes if isinstance(place, Physical) else place.hosts


def names_of(place: Place) -> tuple[str, ...]:
    """Give the names of the nodes or hosts of a place."""
    return tuple(edge.node for edge in edges_of(place))
