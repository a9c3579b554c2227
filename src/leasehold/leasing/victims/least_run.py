"""A guaranteed run time, put before any policy."""

from leasehold.leasing.victims.candidate import Candidate
from leasehold.leasing.victims.policy import VictimPolicy
from leasehold.leasing.victims.tiers import Guarantee


class LeastRun(Guarantee):
    """Which candidate set leaves those alone who have only just begun, and is good by another policy?

    Rule: a lease whose work has gone on for less than the guaranteed time, since it started or last came
        back, is touched only if all others together are not enough. The time is a fixed one, or so many times
        as long as it took to come back, whichever is longer.

    A guest that is loaded from its saved memory and at once saved again has cost its site twice and got
    nothing done. Unlike an exemption, the guarantee never keeps the owner's users waiting: where nobody else
    is left, it gives way.
    """

    def __init__(self, policy: VictimPolicy, least_run_ms: int, least_run_resumes: int = 0) -> None:
        super().__init__(policy, "least-run")
        self.least_run_ms = least_run_ms
        self.least_run_resumes = least_run_resumes

    def tier(self, lease: Candidate) -> int:
        """Give 1 to whom the guarantee protects."""
        return int(lease.ran_ms < max(self.least_run_ms, self.least_run_resumes * lease.came_back_in_ms))
