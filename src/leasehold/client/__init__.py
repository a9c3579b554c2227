"""Speak to a gateway from Python: typed, and with every problem as an exception.

::

    from leasehold.client import Client, LeaseSpec

    with Client() as client:
        lease = client.leases.submit(LeaseSpec(type="suspendable", vms=2, duration_s=3600))
        for change in client.leases.watch(lease.id, after=0):
            print(change.state, change.explanation)

What is asked and what comes back are the models of `leasehold.protocol`, which the service has too. The two clients
are imported when they are first asked for: the rest of this package does without httpx2.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from leasehold.client.calls import RetryPolicy
from leasehold.client.errors import (
    BadResponse,
    Conflict,
    Invalid,
    Lost,
    NotAllowed,
    NotFound,
    NotInstalled,
    NotSignedIn,
    ProblemError,
    ServerFailed,
    TooMany,
    Unreachable,
)
from leasehold.protocol.activity import (
    DecisionFilter,
    Held,
    Queue,
    QueuedLeasesFilter,
    QueueFilter,
    QueueGroup,
    Timeline,
    TimelineFilter,
    TimelinePreemption,
)
from leasehold.protocol.agreements import (
    Agreement,
    Penalty,
    Revision,
    Signature,
    SignatureSpec,
)
from leasehold.protocol.coallocations import (
    CoAllocation,
    CoAllocationComponent,
    CoAllocationSpec,
    ComponentSpec,
    InputFile,
)
from leasehold.protocol.explanations import (
    ExplainedPreemption,
    ExplainedStep,
    JobExplanation,
    LeaseExplanation,
    SparedAs,
)
from leasehold.protocol.files import FileSpec, StoredFile
from leasehold.protocol.jobs import (
    Attempt,
    Job,
    JobFilter,
    JobInput,
    JobLog,
    JobNeeds,
    JobOutcome,
    JobPlace,
    JobProspect,
    JobResult,
    JobSpec,
    NodeGroup,
    NodeVerdict,
    OutputFile,
    PlannedJobAlternative,
)
from leasehold.protocol.leases import (
    Change,
    ExpectedStart,
    JournalEntry,
    Lease,
    LeaseAccess,
    LeaseFilter,
    LeaseSpec,
    MachineAccess,
)
from leasehold.protocol.nodes import (
    Image,
    Node,
    NodeFilter,
)
from leasehold.protocol.peers import (
    LinkStatus,
    Peer,
    PeerCapacity,
    PeerSpec,
)
from leasehold.protocol.plans import (
    AnswerElsewhere,
    BlockedSite,
    CoAllocationPlan,
    ComponentEnvironment,
    DomainOffer,
    Elsewhere,
    ForeseenStart,
    LeasePlan,
    PlannedAlternative,
    PlannedDelay,
    PlannedOutcome,
    PlannedVictim,
    PreemptionHistory,
    RuleReading,
)
from leasehold.protocol.problems import (
    Problem,
)
from leasehold.protocol.sites import (
    Capabilities,
    Occupancy,
    Overhead,
    QueueLengths,
    Site,
)
from leasehold.protocol.tokens import (
    Caller,
    NewToken,
    Role,
    Token,
    TokenSpec,
)
from leasehold.protocol.usage import (
    Balance,
    BalanceList,
    BalanceQuery,
    Share,
    Statement,
    StatementLine,
    StatementQuery,
    Usage,
    UsageFilter,
    Use,
)

if TYPE_CHECKING:
    from leasehold.client.client import AsyncClient, Client, Health
else:

    def __getattr__(name: str) -> type:
        """Import a client when it is first asked for."""
        if name not in {"AsyncClient", "Client", "Health"}:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.client"), name)


__all__ = [
    "Agreement",
    "AnswerElsewhere",
    "AsyncClient",
    "Attempt",
    "BadResponse",
    "Balance",
    "BalanceList",
    "BalanceQuery",
    "BlockedSite",
    "Caller",
    "Capabilities",
    "Change",
    "Client",
    "CoAllocation",
    "CoAllocationComponent",
    "CoAllocationPlan",
    "CoAllocationSpec",
    "ComponentEnvironment",
    "ComponentSpec",
    "Conflict",
    "DecisionFilter",
    "DomainOffer",
    "Elsewhere",
    "ExpectedStart",
    "ExplainedPreemption",
    "ExplainedStep",
    "FileSpec",
    "ForeseenStart",
    "Health",
    "Held",
    "Image",
    "InputFile",
    "Invalid",
    "Job",
    "JobExplanation",
    "JobFilter",
    "JobInput",
    "JobLog",
    "JobNeeds",
    "JobOutcome",
    "JobPlace",
    "JobProspect",
    "JobResult",
    "JobSpec",
    "JournalEntry",
    "Lease",
    "LeaseAccess",
    "LeaseExplanation",
    "LeaseFilter",
    "LeasePlan",
    "LeaseSpec",
    "LinkStatus",
    "Lost",
    "MachineAccess",
    "NewToken",
    "Node",
    "NodeFilter",
    "NodeGroup",
    "NodeVerdict",
    "NotAllowed",
    "NotFound",
    "NotInstalled",
    "NotSignedIn",
    "Occupancy",
    "OutputFile",
    "Overhead",
    "Peer",
    "PeerCapacity",
    "PeerSpec",
    "Penalty",
    "PlannedAlternative",
    "PlannedDelay",
    "PlannedJobAlternative",
    "PlannedOutcome",
    "PlannedVictim",
    "PreemptionHistory",
    "Problem",
    "ProblemError",
    "Queue",
    "QueueFilter",
    "QueueGroup",
    "QueueLengths",
    "QueuedLeasesFilter",
    "RetryPolicy",
    "Revision",
    "Role",
    "RuleReading",
    "ServerFailed",
    "Share",
    "Signature",
    "SignatureSpec",
    "Site",
    "SparedAs",
    "Statement",
    "StatementLine",
    "StatementQuery",
    "StoredFile",
    "Timeline",
    "TimelineFilter",
    "TimelinePreemption",
    "Token",
    "TokenSpec",
    "TooMany",
    "Unreachable",
    "Usage",
    "UsageFilter",
    "Use",
]
