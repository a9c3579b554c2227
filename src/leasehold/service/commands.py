"""Commands to the engine. Each is answered once all of its effects are in the store."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from leasehold.gateway.planning import Prospect
from leasehold.jobs.job import Backup
from leasehold.matching.needs import Needs
from leasehold.model.agreement import Agreement
from leasehold.model.coallocation import CoAllocationRequest
from leasehold.model.event import Carried, Event
from leasehold.model.request import LeaseType, Request
from leasehold.service.drivers.facts import Buildable, ImageFacts, NodeFacts, Output
from leasehold.service.drivers.protocol import NativeJob, Observation, Problem
from leasehold.service.messages.about_plans import Planned
from leasehold.service.store.rows import LeaseMetadata, OutputFile
from leasehold.sharing.records import AgreementSide

if TYPE_CHECKING:
    from leasehold.service.messages.site_status import SiteStatus


@dataclass(frozen=True, slots=True)
class Submit:
    """Submit a request for a lease.

    ``request``            the request; the engine assigns its number and times, so that ``id`` and ``submit_ms``
                           are ignored, and a ``ready_ms`` that is past means now
    ``metadata``           the metadata of its lease
    ``key, request_hash``  the consumer's Idempotency-Key ("" without) and a hash of the request
    ``carried``            what it brings along, if another site handed it back
    """

    request: Request
    metadata: LeaseMetadata
    key: str = ""
    request_hash: str = ""
    carried: Carried | None = None

    @property
    def consumer(self) -> str:
        """The consumer that submits the request."""
        return self.request.consumer


@dataclass(frozen=True, slots=True)
class SubmitCoAllocation:
    """Submit a co-allocation: its components run together or not at all.

    ``request``            the request; the engine assigns its numbers and times, as in `Submit`
    ``name, command``      of each component's lease
    ``key, request_hash``  as in `Submit`
    """

    request: CoAllocationRequest
    name: str = ""
    command: tuple[str, ...] = ()
    key: str = ""
    request_hash: str = ""

    @property
    def consumer(self) -> str:
        """The consumer that submits the request."""
        return self.request.consumer


@dataclass(frozen=True, slots=True)
class CancelCoAllocation:
    """Cancel a co-allocation with all of its components."""

    coallocation_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitJob:
    """Submit a job: a command, and its needs; or an array of such jobs, one for each index in ``array``.

    ``key, request_hash``  as in `Submit`
    The rest is as in `leasehold.jobs.job.JobRequest`.
    """

    consumer: str
    command: tuple[str, ...]
    needs: Needs
    name: str = ""
    group: str = ""
    environment: tuple[tuple[str, str], ...] = ()
    array: tuple[int, ...] = ()
    deadline_ms: int | None = None
    lease_type: LeaseType = LeaseType.SUSPENDABLE
    backup: Backup = Backup.NONE
    reliability: float | None = None
    restarts: int = 3
    key: str = ""
    request_hash: str = ""
    is_foreign: bool = False


@dataclass(frozen=True, slots=True)
class CancelJob:
    """Cancel a job with all of its attempts."""

    job_id: int


@dataclass(frozen=True, slots=True)
class JobNodesSeen:
    """A site was asked for its nodes at ``asked_ms``, or just now (None).

    ``names``  all that it has, where ``nodes`` are only some of them; None: there are no others
    """

    site: str
    nodes: tuple[NodeFacts, ...]
    asked_ms: int | None = None
    names: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class JobNodesOffered:
    """Nodes of a site offer themselves, as they are at ``asked_ms``; the offers expire at ``until_ms``.

    Answered with a `leasehold.jobs.offers.OfferAnswer` for each node.
    """

    site: str
    nodes: tuple[NodeFacts, ...]
    asked_ms: int
    until_ms: int


@dataclass(frozen=True, slots=True)
class JobSiteSilent:
    """A site has not reported its nodes for too long; ``why`` is the last error."""

    site: str
    why: str


@dataclass(frozen=True, slots=True)
class JobImagesSeen:
    """A site was asked for its images, and for what could be built into new ones (None: nothing)."""

    site: str
    images: tuple[ImageFacts, ...]
    buildable: Buildable | None


@dataclass(frozen=True, slots=True)
class JobImageBuilt:
    """A site has built the image that was asked for under this key."""

    key: str
    site: str
    image: ImageFacts


@dataclass(frozen=True, slots=True)
class JobImageFailed:
    """A site could not build an image; ``again`` says whether another try may help."""

    key: str
    site: str
    why: str
    again: bool = False


@dataclass(frozen=True, slots=True)
class JobOutput:
    """What the command of a lease wrote and left; with a ``problem`` it could not be fetched, and is given up."""

    lease_id: int
    output: Output
    problem: str = ""
    files: tuple[OutputFile, ...] = ()


@dataclass(frozen=True, slots=True)
class AskForOutput:
    """Ask the manager of the site of a lease for what its command has written so far; the answer is `OutputHeard`."""

    lease_id: int


@dataclass(frozen=True, slots=True)
class GuestOutput:
    """What the command of a lease here has written so far, for the gateway that has sent it and wants to know.

    With a ``problem`` it could not be read.
    """

    lease_id: int
    output: Output
    problem: str = ""


@dataclass(frozen=True, slots=True)
class AskForFiles:
    """Ask the manager of the site of a lease for the files that its command has left; the answer is `FilesHeard`."""

    lease_id: int


@dataclass(frozen=True, slots=True)
class GuestFiles:
    """What has become of the files that the command of a lease here has left, for the gateway that wants them.

    With a ``problem`` they could not all be sent there.
    """

    lease_id: int
    files: tuple[OutputFile, ...]
    problem: str = ""


@dataclass(frozen=True, slots=True)
class AskForPlan:
    """Ask a site with a manager, or a peer, what would become of a request there; the answer is `PlanHeard`.

    ``within_ms``  for so long that is waited for
    """

    number: int
    site: str
    request: Request
    metadata: LeaseMetadata
    within_ms: int


@dataclass(frozen=True, slots=True)
class GuestPlan:
    """What would become of a request here, for the gateway that wants to know; None: ``problem`` says why not.

    ``beyond``  what whoever would decide instead says of it, None where nobody would or nothing was heard in time
    """

    number: int
    gateway: str
    prospect: Prospect | None
    beyond: Planned | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Cancel:
    """Cancel a lease."""

    lease_id: int


@dataclass(frozen=True, slots=True)
class ReportCheckpoint:
    """The guest in a lease's machines has saved its work by its own means, just now."""

    lease_id: int


@dataclass(frozen=True, slots=True)
class Extend:
    """Extend a lease, if no other lease needs its machines."""

    lease_id: int
    by_ms: int


@dataclass(frozen=True, slots=True)
class Drain:
    """Drain a site: start no more leases there; running ones stay."""

    site: str
    by: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Undrain:
    """Let a drained site take leases again."""

    site: str
    by: str


@dataclass(frozen=True, slots=True)
class ForgetSite:
    """Forget a remote site that will not come back, and close the leases there."""

    site: str
    by: str


@dataclass(frozen=True, slots=True)
class KeepPeer:
    """Add another gateway as a peer, or change its terms.

    ``url``      where it is called, so that it can ask us; "" where we lend it nothing
    ``ask``      when it is asked, `leasehold.gateway.peering.AskWhen`
    ``max_vms``  most VMs that it may have here at a time; None: any number
    ``max_hops`` most hops in all of requests that are exchanged with it, `leasehold.gateway.peering.Terms`
    ``line``     a new name for the exchange of messages, used if the gateway was not a peer before
    """

    name: str
    url: str
    ask: str
    max_vms: int | None
    max_hops: int
    by: str
    line: str


@dataclass(frozen=True, slots=True)
class RemovePeer:
    """Remove a peer.

    ``silent``  as whom it has not been heard of for too long: what it has, or is had from it, is given up
    """

    name: str
    silent: frozenset[str]
    by: str


@dataclass(frozen=True, slots=True)
class ProposeAgreement:
    """Propose an agreement; it takes effect once both parties have signed it."""

    agreement: Agreement
    by: str


@dataclass(frozen=True, slots=True)
class AmendAgreement:
    """Propose new terms for an agreement; they replace the old ones once both parties have signed them."""

    agreement: Agreement
    by: str


@dataclass(frozen=True, slots=True)
class SignAgreement:
    """Sign a revision of an agreement for one of its parties."""

    name: str
    side: AgreementSide
    revision: int
    by: str


@dataclass(frozen=True, slots=True)
class PublishAgreement:
    """Make an agreement visible to all callers, or (with False) only to its parties."""

    name: str
    published: bool
    by: str


@dataclass(frozen=True, slots=True)
class SuspendAgreement:
    """Suspend an agreement."""

    name: str
    by: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class ResumeAgreement:
    """Resume a suspended agreement."""

    name: str
    by: str


@dataclass(frozen=True, slots=True)
class RevokeAgreement:
    """Revoke an agreement and everything delegated from it."""

    name: str
    by: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class LiftPenalty:
    """Lift a penalty before it ends."""

    penalty_id: int
    by: str


@dataclass(frozen=True, slots=True)
class Observed:
    """A driver saw this."""

    site: str
    observations: tuple[Observation, ...]


@dataclass(frozen=True, slots=True)
class OrdersSent:
    """These orders were sent to a driver; it did not accept those with a problem.

    ``answered``  whether the driver answered at all
    """

    site: str
    orders: tuple[str, ...]
    problems: dict[str, Problem]
    answered: bool = True


@dataclass(frozen=True, slots=True)
class MachinesSilent:
    """The machines of a site have not answered for too long, and why, as far as that is known."""

    site: str
    problem: str


@dataclass(frozen=True, slots=True)
class MachinesAnswer:
    """The machines of a site that was silent answer again."""

    site: str


@dataclass(frozen=True, slots=True)
class SiteObserved:
    """All instances of a site were observed: one that is not among these does not exist.

    ``asked_ms``  when observing began; orders issued later are not judged by it
    ``is_known``  whether the observations themselves were reported before, in parts
    """

    site: str
    observations: tuple[Observation, ...]
    asked_ms: int
    is_known: bool = False


@dataclass(frozen=True, slots=True)
class NativeJobsSeen:
    """All jobs that a site's own users have with its own scheduler, in the order in which it starts them.

    It is answered with the names of those for which there is room now.
    """

    site: str
    jobs: tuple[NativeJob, ...]


@dataclass(frozen=True, slots=True)
class MessageBatch:
    """Messages from an endpoint, each with its number, and the last of ours that arrived there.

    ``status``  what a site says of itself; None from a gateway
    """

    endpoint: str
    messages: "tuple[tuple[int, str], ...]"
    acknowledged: int
    status: "SiteStatus | None" = None


@dataclass(frozen=True, slots=True)
class Happened:
    """Something for the decision core as it is."""

    event: Event


Command = (
    Submit
    | SubmitCoAllocation
    | CancelCoAllocation
    | SubmitJob
    | CancelJob
    | JobNodesSeen
    | JobNodesOffered
    | JobSiteSilent
    | JobImagesSeen
    | JobImageBuilt
    | JobImageFailed
    | JobOutput
    | AskForOutput
    | GuestOutput
    | AskForFiles
    | GuestFiles
    | AskForPlan
    | GuestPlan
    | Cancel
    | ReportCheckpoint
    | Extend
    | Drain
    | Undrain
    | ForgetSite
    | KeepPeer
    | RemovePeer
    | ProposeAgreement
    | AmendAgreement
    | SignAgreement
    | PublishAgreement
    | SuspendAgreement
    | ResumeAgreement
    | RevokeAgreement
    | LiftPenalty
    | Observed
    | OrdersSent
    | MachinesSilent
    | MachinesAnswer
    | SiteObserved
    | NativeJobsSeen
    | MessageBatch
    | Happened
)
