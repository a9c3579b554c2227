"""Which nodes offer themselves now? Receiver-initiated load balancing, decided where the nodes are.

Rule: a node whose load has fallen to `OfferTerms.below` or less offers itself. Having done so, it does not again until
its load has been `OfferTerms.again_above` or more in between, or its offer has expired. Its load is the largest part of
its cores or memory that is in use. Of many such nodes the least loaded come first, by name where equal, and no more
than `MOST_STANDING` of a site have offered themselves at a time. A node that cannot be used, or is gone, has no offer;
once it is back, it may offer itself again.
Source: Thamarai Selvi et al., section 4.6.1, where lightly loaded resources tell the scheduler that they are. How light
that is, is not printed; two thresholds keep a node at the edge of one from offering itself again and again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from heapq import nsmallest

from leasehold.matching.needs import Amounts
from leasehold.model.errors import InvalidField

MILLION = 1_000_000
MOST_STANDING = 32
"""More are of no use to a job that looks for a place, and a large site may be idle."""


class OfferAnswer(StrEnum):
    """What a gateway answers to an offer.

    TAKEN     a job that waited starts there
    STANDING  no job wants it now; until it expires, jobs that wait or lose their place look there first
    DECLINED  nothing can start there: the site is closed to new leases, or the node is not known to be sound
    """

    TAKEN = "taken"
    STANDING = "standing"
    DECLINED = "declined"


@dataclass(frozen=True, slots=True)
class OfferTerms:
    """When nodes of a site offer themselves; loads in millionths, raises InvalidField for what makes no sense.

    ``below``        at this load or less
    ``again_above``  not again until the load was at least so much
    ``lasts_ms``     for how long an offer is valid
    """

    below: int = 250_000
    again_above: int = 500_000
    lasts_ms: int = 300_000

    def __post_init__(self) -> None:
        """Refuse thresholds that are no hysteresis."""
        if not 0 <= self.below < self.again_above <= MILLION:
            expected = f"more than offer_below, {self.below / MILLION:g}, and at most 1"
            raise InvalidField("offer_again_above", self.again_above / MILLION, expected)


def load_of(total: Amounts, free: Amounts) -> int:
    """Give the load of a node, in millionths."""
    cores = MILLION - MILLION * free.cores // total.cores if total.cores else 0
    memory = MILLION - MILLION * free.memory_mib // total.memory_mib if total.memory_mib else 0
    return max(cores, memory)


class OfferingNodes:
    """The nodes of one site, and until when they have offered themselves."""

    def __init__(self, terms: OfferTerms) -> None:
        self._terms = terms
        self._until_ms: dict[str, int] = {}

    def due(self, loads: Mapping[str, int], now_ms: int) -> list[str]:
        """Name those that offer themselves now, given the loads of all that can be used."""
        terms = self._terms
        self._until_ms = {
            name: until_ms
            for name, until_ms in self._until_ms.items()
            if name in loads and loads[name] < terms.again_above and now_ms < until_ms
        }
        light = [(load, name) for name, load in loads.items() if load <= terms.below and name not in self._until_ms]
        due = [name for _, name in nsmallest(MOST_STANDING - len(self._until_ms), light)]
        self._until_ms |= dict.fromkeys(due, now_ms + terms.lasts_ms)
        return due

    def unheard(self, name: str) -> None:
        """The gateway did not take an offer in: it is made again."""
        self._until_ms.pop(name, None)
