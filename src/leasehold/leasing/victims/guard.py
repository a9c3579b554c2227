"""What a site guarantees its guests whoever chooses the victims: time to work, and turns."""

from dataclasses import dataclass

from leasehold.leasing.victims.dearer_again import DearerAgain, Surcharge
from leasehold.leasing.victims.least_run import LeastRun
from leasehold.leasing.victims.policy import VictimPolicy
from leasehold.leasing.victims.turns import InTurns

USUAL_HALVES_MS = 600_000


@dataclass(frozen=True, slots=True)
class Guard:
    """The guarantees of a site; whatever is 0 is not guaranteed, and nothing changes.

    ``least_run_ms``      how long a guest works after it started or came back before it may be preempted
    ``most_preemptions``  how often one guest is preempted while others could be
    ``surcharge``         how much dearer each earlier preemption makes it, as a share of its cost
    ``halves_ms``         after so much work since it came back, the surcharge is half
    ``least_run_resumes`` it works at least so many times as long as it took to come back
    """

    least_run_ms: int = 0
    most_preemptions: int = 0
    surcharge: float = 0.0
    halves_ms: int = USUAL_HALVES_MS
    least_run_resumes: int = 0

    def around(self, policy: VictimPolicy) -> VictimPolicy:
        """Put the guarantees before a policy, the order of the lease types being part of it.

        The guaranteed time comes before the turns, and both before anything that the policy weighs.
        """
        guarded = policy
        if self.most_preemptions:
            guarded = InTurns(guarded, self.most_preemptions)
        if self.least_run_ms or self.least_run_resumes:
            guarded = LeastRun(guarded, self.least_run_ms, self.least_run_resumes)
        return guarded

    def within(self, policy: VictimPolicy) -> VictimPolicy:
        """Make a policy that weighs costs weigh those of whoever was preempted before higher."""
        return DearerAgain(policy, Surcharge(self.surcharge, self.halves_ms)) if self.surcharge else policy
