"""Where a policy looks for victims: a list of candidates, or an index over thousands that run at a site.

A policy that chooses by an order needs the first leases of that order only, and an index gives these without looking
at the others. Whatever a pool leaves out is in no set that such a policy would choose, nor in the next best one.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from leasehold.leasing.victims.candidate import Candidate, vms_of


class CandidatePool(ABC):
    """Leases that may give way; ``vms`` is what they hold together."""

    vms: int

    @abstractmethod
    def candidates(self) -> Sequence[Candidate]:
        """Give all of them."""

    @abstractmethod
    def cheapest(self, needed_vms: int) -> Sequence[Candidate]:
        """Give, of each width, the cheapest that two sets can be made of, by number where equal; or more of them."""

    @abstractmethod
    def of_use(self, needed_vms: int) -> Sequence[Candidate]:
        """Give, of each width, all that the two best sets by lost work and cost can be made of; or more of them.

        Left out are those for which one more than cover the need alone cost no more and lose no more work; of two
        that are equal the lower number is no worse.
        """

    @abstractmethod
    def youngest(self, needed_vms: int) -> Sequence[Candidate]:
        """Give as many with the highest numbers as cover the need; or more of them."""

    @abstractmethod
    def by_type(self) -> "Sequence[CandidatePool]":
        """Split them by lease type, the least valuable first; no part is empty."""

    @abstractmethod
    def by_run(self, least_run_ms: int, least_run_resumes: int) -> "Sequence[CandidatePool]":
        """Split them into those that have worked for long enough (see `has_run`), and the others; no part is empty."""


def has_run(lease: Candidate, least_run_ms: int, least_run_resumes: int) -> bool:
    """Whether a lease has worked for this long, and so many times as long as it took to come back."""
    return lease.ran_ms >= max(least_run_ms, least_run_resumes * lease.came_back_in_ms)


class Listed(CandidatePool):
    """A list: every candidate is looked at."""

    def __init__(self, candidates: Sequence[Candidate]) -> None:
        """Take these."""
        self._candidates = candidates
        self.vms = vms_of(candidates)

    def candidates(self) -> Sequence[Candidate]:
        """Give all of them."""
        return self._candidates

    def cheapest(self, needed_vms: int) -> Sequence[Candidate]:  # noqa: ARG002 - all are at hand
        """Give all of them."""
        return self._candidates

    def of_use(self, needed_vms: int) -> Sequence[Candidate]:  # noqa: ARG002 - all are at hand
        """Give all of them."""
        return self._candidates

    def youngest(self, needed_vms: int) -> Sequence[Candidate]:  # noqa: ARG002 - all are at hand
        """Give all of them."""
        return self._candidates

    def by_type(self) -> Sequence[CandidatePool]:
        """Split them."""
        types = sorted({lease.lease_type for lease in self._candidates})
        return [Listed([lease for lease in self._candidates if lease.lease_type is kind]) for kind in types]

    def by_run(self, least_run_ms: int, least_run_resumes: int) -> Sequence[CandidatePool]:
        """Split them."""
        long, short = list[Candidate](), list[Candidate]()
        for lease in self._candidates:
            (long if has_run(lease, least_run_ms, least_run_resumes) else short).append(lease)
        return [Listed(part) for part in (long, short) if part]
