"""Which lease type an external request has where its source does not say, and how much time it allows."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from leasehold.model.errors import InvalidField, UnknownName
from leasehold.model.request import LEASE_TYPES, LeaseType
from leasehold.simulation.workload.job import WorkloadJob
from leasehold.simulation.workload.streams import check_number, random_stream

_EVEN = dict.fromkeys(LeaseType, 0.25)


@dataclass(frozen=True, slots=True)
class LeaseMix:
    """The shares of the lease types among external requests; a quarter each by default (JPDC 2012, s. 5.2).

    A Migratable request must end by ready time + duration * (1 + U), U uniform on ``slack``: the paper gives
    such requests deadlines but no rule for them. Non-preemptable ones start at their ready time or never.
    """

    shares: Mapping[LeaseType, float] = field(default_factory=lambda: _EVEN)
    slack: tuple[float, float] = (1.0, 3.0)
    _ends: tuple[tuple[float, LeaseType], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for kind, share in self.shares.items():
            check_number(f"share of {kind.label}", share, 0.0, 1.0)
        total = math.fsum(self.shares.values())
        if not math.isclose(total, 1.0, abs_tol=1e-9):
            raise InvalidField("sum of the lease type shares", total, "1")
        check_number("slack", self.slack[0], 0.0, check_number("slack", self.slack[1], 0.0))
        present = [kind for kind in LeaseType if self.shares.get(kind, 0.0) > 0.0]
        ends = accumulate(self.shares[kind] for kind in present)
        object.__setattr__(self, "_ends", tuple(zip(ends, present, strict=True)))

    @classmethod
    def named(cls, shares: Mapping[str, float]) -> "LeaseMix":
        """Return the mix of these labels, as in ``{"cancelable": 0.5, "migratable": 0.5}``.

        Raises UnknownName for an unknown lease type, InvalidField unless the shares add up to 1.
        """
        for label in shares:
            if label not in LEASE_TYPES:
                raise UnknownName("lease type", label, LEASE_TYPES)
        return cls({LEASE_TYPES[label]: share for label, share in shares.items()})

    @classmethod
    def only(cls, kind: LeaseType) -> "LeaseMix":
        """Return the mix in which every request has this type."""
        return cls({kind: 1.0})

    def pick(self, place: float) -> LeaseType:
        """Return the type at this place (0 to 1) of the shares laid end to end, the least valuable first."""
        for end, kind in self._ends:
            if place < end:
                return kind
        return self._ends[-1][1]

    def picks(self, places: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        """Return `pick` of each place, as numbers."""
        ends, kinds = zip(*self._ends, strict=True)
        found = np.searchsorted(ends, places, side="right")
        return np.array(kinds, np.int64)[np.minimum(found, len(kinds) - 1)]


EVEN_MIX = LeaseMix()


class LeaseTypeDraws:
    """Gives the external jobs of a stream their types and deadlines, each from a random stream of its own."""

    def __init__(self, seed: int, stream: str) -> None:
        self._types = random_stream(seed, stream, "types")
        self._deadlines = random_stream(seed, stream, "deadlines")

    def assign(self, job: WorkloadJob, mix: LeaseMix) -> None:
        """Give the job a type of the mix, and a deadline if it is Migratable.

        Both streams advance with every job: another mix changes no other job's draw.
        """
        job.lease_type = mix.pick(self._types.random())
        slack = self._deadlines.uniform(*mix.slack)
        if job.lease_type is LeaseType.MIGRATABLE:
            job.deadline_ms = job.ready_ms + math.ceil(job.requested_ms * (1.0 + slack))

    def draw(self, count: int) -> tuple[list[float], list[float]]:
        """Return what the next so many jobs draw: each a place for its type, and one on the range of the slack."""
        types, deadlines = self._types.random, self._deadlines.random
        return [types() for _ in range(count)], [deadlines() for _ in range(count)]
