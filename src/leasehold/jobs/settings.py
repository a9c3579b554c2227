"""How jobs are queued, placed, tried again and made sure: everything that an operator may set."""

from dataclasses import dataclass, field
from enum import StrEnum

from leasehold.matching.choice import MachineMaking, MatchSettings, Retrying
from leasehold.matching.queues import job_queue
from leasehold.matching.reliability import FailureRate
from leasehold.matching.resource_sets import AS_PRINTED, BestFit
from leasehold.model.errors import InvalidField


class Matching(StrEnum):
    """How nodes are chosen when several jobs are considered together.

    GREEDY   each in the order of the queue, among what those before it left
    OPTIMAL  all together, so that transfers and waiting add up to the least (`matching.assignment.optimal`)
    """

    GREEDY = "greedy"
    OPTIMAL = "optimal"


class Machines(StrEnum):
    """For which jobs machines are built.

    FOR_WANT_OF_NODES   only if too few nodes have what is needed, used by others or not (Thamarai Selvi et
                        al., section 4.4)
    RATHER_THAN_REFUSE  also for a job that has waited for such nodes as long as is allowed
    """

    FOR_WANT_OF_NODES = "for-want-of-nodes"
    RATHER_THAN_REFUSE = "rather-than-refuse"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSettings:
    """What an operator may set about jobs; times in ms.

    ``queue``           in which order waiting jobs are looked at (`leasehold.matching.queues`)
    ``patience_ms``     a job that has waited that long goes ahead of all others; None: none does
    ``retrying``        how often a job that found no room is tried again, and for how long
    ``eager``           whether waiting jobs are looked at whenever there may be room, not only at their times
    ``best_fit``        how near in memory a node has to be; None: every node that fits comes into question
    ``machines``        for which jobs machines are built
    ``making``          what it takes to make a machine; ``build_ms``: how long an image is thought to take
    ``fresh_for_ms``    how long what was seen of a node can be relied upon; None: until it is seen again
    ``hot_copies``      how many copies of a job run that asks for hot ones and for no reliability
    ``spares``          how many copies a job may have beyond one, so that it is as sure as it asks
    ``takeover_ms``     how long it is thought to take from a fault until a cold copy begins
    ``belief``          what is thought of a node's failures before it was watched
    ``offers_last_ms``  how long a node's offer of light load stays valid
    ``waits_last_ms``   for how long a measured waiting time of a node counts
    ``warm_for_ms``     how long a machine is thought to stay warm at a host after a job; 0: not at all
    ``sites``           the sites that report their nodes: until each has, no job is refused as never here
    ``images_awaited``  whether images are reported: until they are, likewise

    Raises InvalidField, or UnknownName for the queue.
    """

    queue: str = "min-wait-deadline-first"
    patience_ms: int | None = 240_000
    retrying: Retrying = Retrying()  # noqa: RUF009 - frozen
    eager: bool = True
    matching: Matching = Matching.GREEDY
    best_fit: BestFit | None = AS_PRINTED
    machines: Machines = Machines.FOR_WANT_OF_NODES
    making: MachineMaking = MachineMaking()  # noqa: RUF009 - frozen
    build_ms: int = 300_000
    fresh_for_ms: int | None = None
    hot_copies: int = 2
    spares: int = 3
    takeover_ms: int = 10_000
    belief: FailureRate = FailureRate()  # noqa: RUF009 - frozen
    offers_last_ms: int = 300_000
    waits_last_ms: int = 600_000
    warm_for_ms: int = 0
    sites: frozenset[str] = field(default_factory=frozenset)
    images_awaited: bool = False

    def __post_init__(self) -> None:
        """Refuse what makes no sense."""
        job_queue(self.queue, self.patience_ms)
        least = {"hot_copies": 2, "spares": 0, "takeover_ms": 0, "build_ms": 0, "offers_last_ms": 0}
        for name, value in (*least.items(), ("warm_for_ms", 0), ("waits_last_ms", 0)):
            if getattr(self, name) < value:
                raise InvalidField(name, getattr(self, name), f"at least {value}")
        if self.fresh_for_ms is not None and self.fresh_for_ms < 1:
            raise InvalidField("fresh_for_ms", self.fresh_for_ms, "at least 1")

    @property
    def choosing(self) -> MatchSettings:
        """The part that matching asks for."""
        return MatchSettings(self.best_fit, self.retrying, self.making)
