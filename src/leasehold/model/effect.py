"""What the gateway wants done and what it wants known. Carried out by simulator or service.

Each effect that concerns machines carries the lease in its state after the decision.
"""

from dataclasses import dataclass
from typing import Any

from leasehold.model.agreement import Breach, Penalty
from leasehold.model.coallocation import CoAllocation
from leasehold.model.lease import Lease
from leasehold.model.reason import Outcome, Reason


@dataclass(slots=True)
class StartLease:
    """Boot the VMs of a lease at its site."""

    lease: Lease


@dataclass(slots=True)
class SuspendLease:
    """Save the memory of a lease and free its VMs; takes ``save_ms``, during which they cannot resume."""

    lease: Lease
    save_ms: int


@dataclass(slots=True)
class ResumeLease:
    """Bring a suspended lease back from its saved memory; its work continues after ``resume_ms``."""

    lease: Lease
    resume_ms: int


@dataclass(slots=True)
class MigrateLease:
    """Move a lease from ``source`` to the site it now names; its work continues after ``transfer_ms``."""

    lease: Lease
    source: str
    transfer_ms: int


@dataclass(slots=True)
class StopLease:
    """Shut the VMs of a lease down before its end: terminated, failed or cancelled."""

    lease: Lease


@dataclass(slots=True)
class WithdrawLease:
    """Stop what is left at ``site`` of a start that was never seen, or whose machines are lost; the lease goes on."""

    lease: Lease
    site: str
    incarnation: int


@dataclass(slots=True)
class OfferLease:
    """Ask a site that decides for itself to take a lease in; it reports whether it does.

    ``wait``  whether it may wait there for room that comes free later
    """

    lease: Lease
    wait: bool = False


@dataclass(slots=True)
class RecallLease:
    """Ask such a site to give a lease up, because its user wants that; it reports when it has."""

    lease: Lease


@dataclass(slots=True)
class ExtendLease:
    """Ask such a site to let a lease last ``duration_ms`` in all; it reports what it decides (`ExtensionAnswered`)."""

    lease: Lease
    duration_ms: int


@dataclass(slots=True)
class CommitLease:
    """Tell such a site that what it has promised a component holds: all others have promised theirs."""

    lease: Lease


@dataclass(slots=True)
class LeaseClosed:
    """The lease is in a final state, and why."""

    lease: Lease
    reason: Reason


@dataclass(slots=True)
class WakeAt:
    """Send a Tick for this site ("" is the gateway itself) at that time."""

    site: str
    at_ms: int


@dataclass(slots=True)
class AlarmCalledOff:
    """No longer send the gateway the Tick that it wanted at this time; one that comes nevertheless does no harm."""

    at_ms: int


@dataclass(slots=True)
class Preemption:
    """A preemption: the beneficiary, the cost, and the alternatives considered.

    One per choice of victims; a beneficiary causes at most one, so that ``beneficiary`` names it.
    ``considered`` is how many sets of victims the choice was made from, and ``candidates``
    (`leasehold.leasing.victims.candidate.Candidate`) all leases that could have given way, where they were few
    enough to be kept: the policy makes the same choice of them again.
    """

    beneficiary: int
    victims: tuple[int, ...]
    needed_vms: int
    freed_vms: int
    cost_vm_ms: int
    runner_up: tuple[int, ...] | None
    runner_up_cost_vm_ms: int | None
    exact: bool
    considered: int = 0
    candidates: tuple[Any, ...] = ()


@dataclass(slots=True)
class SiteRefusal:
    """Why a site does not take a request now, with the ``breach`` of an agreement where that is the reason."""

    site: str
    reason: Reason
    breach: Breach | None = None


@dataclass(slots=True)
class Decision:
    """One decision with its reason as data.

    ``rule`` names the policy or rule that decided; ``planned_ms`` is the promised start of a waiting lease.
    ``breach`` has the figures where an agreement is the reason; ``sites`` says why none of them takes a request
    that is refused or kept at the gateway. ``duration_ms`` is for how long, in all, a lease may last that is extended,
    or was to last that is not.
    """

    lease: Lease
    site: str
    outcome: Outcome
    reason: Reason
    rule: str
    planned_ms: int | None = None
    preemption: Preemption | None = None
    breach: Breach | None = None
    sites: tuple[SiteRefusal, ...] = ()
    duration_ms: int | None = None


@dataclass(slots=True)
class Used:
    """A lease held machines of a site for a half-open interval; emitted when it releases them."""

    lease: Lease
    site: str
    begin_ms: int
    end_ms: int


@dataclass(slots=True)
class PenaltyImposed:
    """A consumer is punished for an agreement that was broken when this lease was granted."""

    lease: Lease
    penalty: Penalty


@dataclass(slots=True)
class PartLeased:
    """A component of a co-allocation has this lease from now on, its first or another."""

    lease: Lease
    coallocation: CoAllocation
    index: int


@dataclass(slots=True)
class CoAllocationStarted:
    """All components of a co-allocation hold their machines, and their common time has come.

    ``idle_vm_ms``  VM-milliseconds for which machines were held idle until then
    """

    coallocation: CoAllocation
    idle_vm_ms: int


@dataclass(slots=True)
class CoAllocationClosed:
    """A co-allocation is over, every component of it, and why; ``idle_vm_ms`` in all."""

    coallocation: CoAllocation
    reason: Reason
    idle_vm_ms: int


Effect = (
    StartLease
    | SuspendLease
    | ResumeLease
    | MigrateLease
    | StopLease
    | WithdrawLease
    | OfferLease
    | RecallLease
    | ExtendLease
    | CommitLease
    | LeaseClosed
    | WakeAt
    | AlarmCalledOff
    | Decision
    | Used
    | PenaltyImposed
    | PartLeased
    | CoAllocationStarted
    | CoAllocationClosed
)
