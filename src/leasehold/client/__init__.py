"""Speak to a gateway from Python: typed, and with every problem as an exception.

::

    from leasehold.client import Client

    with Client() as client:
        lease = client.leases.submit(type="suspendable", vms=2, duration_s=3600)
        for change in client.leases.watch(lease.id, after=0):
            print(change.state, change.explanation)

The two clients are imported when they are first asked for: the rest of this package does without httpx2.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from leasehold.client.calls import Agreement, Rights, Which, Wish
from leasehold.client.coallocation_calls import CoAllocationSpec, ComponentWish
from leasehold.client.coallocation_records import (
    Barred,
    CoAllocation,
    CoAllocationComponent,
    CoAllocationExplanation,
    ComponentEnvironment,
    DomainOffer,
    Elsewhere,
    InputFile,
    LeaseExplanation,
    RuleReading,
)
from leasehold.client.errors import (
    BadAnswer,
    Conflict,
    Invalid,
    Lost,
    NotAllowed,
    NotFound,
    NotInstalled,
    NotSignedIn,
    Problem,
    ProblemError,
    ServerFailed,
    TooMany,
    Unreachable,
)
from leasehold.client.job_calls import JobWish, WhichJobs
from leasehold.client.job_records import (
    Attempt,
    Image,
    Job,
    JobInput,
    JobNeeds,
    JobPlace,
    JobProspect,
    JobResult,
    Node,
    NodeGroup,
    NodeVerdict,
)
from leasehold.client.patience import Patience
from leasehold.client.records import (
    Caller,
    Capabilities,
    Change,
    Entry,
    Health,
    Lease,
    Lent,
    NewToken,
    Occupancy,
    Overhead,
    Peer,
    Queue,
    Site,
    Token,
    Way,
)
from leasehold.client.sharing_calls import WhichUse
from leasehold.client.sharing_records import (
    Penalty,
    Revision,
    Share,
    Signature,
    Statement,
    StatementLine,
    Usage,
    UsageAgreement,
    Use,
)

if TYPE_CHECKING:
    from leasehold.client.async_client import AsyncClient
    from leasehold.client.client import Client
else:

    def __getattr__(name: str) -> type:
        """Import a client when it is first asked for."""
        homes = {"AsyncClient": "async_client", "Client": "client"}
        if name not in homes:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{homes[name]}"), name)


__all__ = [
    "Agreement",
    "AsyncClient",
    "Attempt",
    "BadAnswer",
    "Barred",
    "Caller",
    "Capabilities",
    "Change",
    "Client",
    "CoAllocation",
    "CoAllocationComponent",
    "CoAllocationExplanation",
    "CoAllocationSpec",
    "ComponentEnvironment",
    "ComponentWish",
    "Conflict",
    "DomainOffer",
    "Elsewhere",
    "Entry",
    "Health",
    "Image",
    "InputFile",
    "Invalid",
    "Job",
    "JobInput",
    "JobNeeds",
    "JobPlace",
    "JobProspect",
    "JobResult",
    "JobWish",
    "Lease",
    "LeaseExplanation",
    "Lent",
    "Lost",
    "NewToken",
    "Node",
    "NodeGroup",
    "NodeVerdict",
    "NotAllowed",
    "NotFound",
    "NotInstalled",
    "NotSignedIn",
    "Occupancy",
    "Overhead",
    "Patience",
    "Peer",
    "Penalty",
    "Problem",
    "ProblemError",
    "Queue",
    "Revision",
    "Rights",
    "RuleReading",
    "ServerFailed",
    "Share",
    "Signature",
    "Site",
    "Statement",
    "StatementLine",
    "Token",
    "TooMany",
    "Unreachable",
    "Usage",
    "UsageAgreement",
    "Use",
    "Way",
    "Which",
    "WhichJobs",
    "WhichUse",
    "Wish",
]
