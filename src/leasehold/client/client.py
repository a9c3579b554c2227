"""What a client can ask for, noun by noun, and the two clients: one waits for its answers, the other awaits them.

Each method of a noun says which call is made of its arguments; what comes back is what the call reads, at once with
`Client`, awaited with `AsyncClient`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Generic, Self
from urllib.parse import quote
from uuid import uuid4

from leasehold.client.access import Access, find_access
from leasehold.client.calls import Call, Pages, Response, RetryPolicy, as_bytes, nothing, pages, query_of, reads
from leasehold.client.transport import Asking, AsyncTransport, Iterating, Noun, Transport, W
from leasehold.client.watching import Looks, Opened, Watch
from leasehold.protocol.activity import (
    DecisionFilter,
    DecisionPage,
    Queue,
    QueuedLeases,
    QueuedLeasesFilter,
    QueueFilter,
    Timeline,
    TimelineFilter,
)
from leasehold.protocol.agreements import (
    Agreement,
    AgreementList,
    NoteSpec,
    Penalty,
    PenaltyList,
    PublicationSpec,
    SignatureSpec,
)
from leasehold.protocol.base import RequestModel
from leasehold.protocol.coallocations import CoAllocation, CoAllocationPage, CoAllocationSpec
from leasehold.protocol.explanations import JobExplanation, LeaseExplanation
from leasehold.protocol.files import FileList, FileSpec, StoredFile
from leasehold.protocol.forecasts import (
    Calibration,
    EstimateList,
    JobEstimate,
    LeaseEstimate,
    SnapshotQuery,
    WhatIf,
    WhatIfSpec,
)
from leasehold.protocol.jobs import Job, JobFilter, JobLog, JobPage, JobProspect, JobResult, JobSpec
from leasehold.protocol.leases import (
    Change,
    ExtensionSpec,
    JournalEntry,
    JournalPage,
    Lease,
    LeaseAccess,
    LeaseFilter,
    LeasePage,
    LeaseSpec,
)
from leasehold.protocol.nodes import Image, ImageList, Node, NodeFilter, NodePage
from leasehold.protocol.peers import Peer, PeerList, PeerSpec
from leasehold.protocol.plans import CoAllocationPlan, LeasePlan, PlanQuery
from leasehold.protocol.sites import DrainSpec, Site, SiteList
from leasehold.protocol.tokens import Caller, NewToken, Token, TokenList, TokenSpec
from leasehold.protocol.usage import BalanceList, BalanceQuery, Statement, StatementQuery, Usage, UsageFilter


class Leases(Noun[W]):
    """Ask for leases, and look after them."""

    @Asking
    def submit(self, spec: LeaseSpec, *, idempotency_key: str = "") -> Call[Lease]:
        """Ask for a lease.

        Asks again, with the same Idempotency-Key, until it is known what became of it, so that it is taken
        in exactly once. Refused is an answer too: look at ``state``. Raises Lost where the last try ends before
        it is known, and ProblemError.
        """
        return _submitted("/v1/leases", Lease, spec, idempotency_key)

    @Asking
    def plan(self, spec: LeaseSpec, *, within_s: int = 0) -> Call[LeasePlan]:
        """Say what would become of one that is asked for now, without asking for it.

        ``within_s`` is for about how long futures are simulated, which give its start an interval; 0: not at all.
        """
        query = query_of(PlanQuery(within_s=within_s))
        return Call("POST", "/v1/leases/plan", reads(LeasePlan), query=query, body=spec.to_json())

    @Asking
    def get(self, lease_id: int) -> Call[Lease]:
        """Look at one; raises NotFound."""
        return Call("GET", f"/v1/leases/{lease_id}", reads(Lease))

    @Iterating
    def list(self, which: LeaseFilter | None = None) -> Pages[Lease]:
        """Go through those that are asked for, the newest first, one page after the other."""
        return pages("/v1/leases", which, LeasePage, lambda page: page.leases)

    @Asking
    def cancel(self, lease_id: int) -> Call[Lease]:
        """Take one back; what is over stays as it is. Raises NotFound and NotAllowed."""
        return Call("DELETE", f"/v1/leases/{lease_id}", reads(Lease))

    @Asking
    def extend(self, lease_id: int, by_s: float) -> Call[Lease]:
        """Let one last longer; raises Conflict where another is in the way. Never asked twice.

        Where its site has a manager that does not answer within seconds, ``asked_duration_s`` says what that was asked.
        """
        path = f"/v1/leases/{lease_id}/extension"
        return Call("POST", path, reads(Lease), body=ExtensionSpec(by_s=by_s).to_json(), repeatable=False)

    @Asking
    def checkpointed(self, lease_id: int) -> Call[Lease]:
        """Report that the guest of one has saved its work; raises Conflict where it has no machines to save it from."""
        return Call("POST", f"/v1/leases/{lease_id}/checkpointed", reads(Lease))

    @Asking
    def explain(self, lease_id: int) -> Call[LeaseExplanation]:
        """Say what happened to one and why, and what would help; raises NotFound."""
        return Call("GET", f"/v1/leases/{lease_id}/explanation", reads(LeaseExplanation))

    @Iterating
    def journal(self, lease_id: int) -> Pages[JournalEntry]:
        """Tell what happened to one, the oldest first."""
        return pages(f"/v1/leases/{lease_id}/journal", None, JournalPage, lambda page: page.entries)

    @Asking
    def console(self, lease_id: int) -> Call[str]:
        """Give what its machines wrote."""
        return Call("GET", f"/v1/leases/{lease_id}/console", Response.text)

    @Asking
    def access(self, lease_id: int) -> Call[LeaseAccess]:
        """Say where its owner can log in to its machines; raises NotAllowed for anybody else."""
        return Call("GET", f"/v1/leases/{lease_id}/access", reads(LeaseAccess))

    @Iterating
    def watch(self, *lease_ids: int, after: int | None = None, opened: Opened | None = None) -> Watch:
        """Tell what happens to these, or to all that are visible, for ever.

        ``after`` is the ``seq`` of the last change that is known (0: everything from the beginning); without it,
        changes start from now. A broken connection is made again, and no change comes twice. Close it when you
        have seen enough. ``opened`` is called whenever a connection is established: what is looked up from then
        on is no older than the first change.
        Raises Unreachable after the last try, and ProblemError.
        """
        return Watch(lease_ids, after, self.transport.retry, opened)


class Activity(Noun[W]):
    """See what goes on across leases."""

    @Asking
    def queue(self, which: QueueFilter | None = None) -> Call[Queue]:
        """Tell what waits in groups, by consumer, type, reason and state."""
        return Call("GET", "/v1/queue", reads(Queue), query=query_of(which or QueueFilter()))

    @Iterating
    def queued(self, which: QueuedLeasesFilter | None = None) -> Pages[Lease]:
        """Go through the leases that wait, the oldest first."""
        return pages("/v1/queue/leases", which, QueuedLeases, lambda page: page.leases)

    @Iterating
    def decisions(self, which: DecisionFilter | None = None) -> Pages[Change]:
        """Go through what was decided, the latest first."""
        return pages("/v1/decisions", which, DecisionPage, lambda page: page.decisions)

    @Asking
    def timeline(self, which: TimelineFilter | None = None) -> Call[Timeline]:
        """Tell what leases held between two moments, and who took room from whom."""
        return Call("GET", "/v1/timeline", reads(Timeline), query=query_of(which or TimelineFilter()))


class CoAllocations(Noun[W]):
    """Ask for machines at several sites, all or nothing, and look after them."""

    @Asking
    def submit(self, spec: CoAllocationSpec, *, idempotency_key: str = "") -> Call[CoAllocation]:
        """Ask for a co-allocation. Raises as `Leases.submit` does."""
        return _submitted("/v1/coallocations", CoAllocation, spec, idempotency_key)

    @Asking
    def plan(self, spec: CoAllocationSpec) -> Call[CoAllocationPlan]:
        """Say what would become of one, without asking for it."""
        return Call("POST", "/v1/coallocations/plan", reads(CoAllocationPlan), body=spec.to_json())

    @Asking
    def get(self, coallocation_id: int) -> Call[CoAllocation]:
        """Look at one; raises NotFound."""
        return Call("GET", f"/v1/coallocations/{coallocation_id}", reads(CoAllocation))

    @Iterating
    def list(self) -> Pages[CoAllocation]:
        """Go through those that are visible, the newest first."""
        return pages("/v1/coallocations", None, CoAllocationPage, lambda page: page.coallocations)

    @Asking
    def cancel(self, coallocation_id: int) -> Call[CoAllocation]:
        """Take one back, with all of its components; raises NotFound and NotAllowed."""
        return Call("DELETE", f"/v1/coallocations/{coallocation_id}", reads(CoAllocation))


class Jobs(Noun[W]):
    """Ask for commands to be run where there is what they need, and look after them."""

    @Asking
    def submit(self, spec: JobSpec, *, idempotency_key: str = "") -> Call[Job]:
        """Ask for a job. Raises as `Leases.submit` does."""
        return _submitted("/v1/jobs", Job, spec, idempotency_key)

    @Asking
    def plan(self, spec: JobSpec) -> Call[JobProspect]:
        """Say what would become of a job, without asking for it."""
        return Call("POST", "/v1/jobs/plan", reads(JobProspect), body=spec.to_json())

    @Asking
    def explain(self, job_id: int) -> Call[JobExplanation]:
        """Say what happened to one and why, and what each node says to it now; raises NotFound."""
        return Call("GET", f"/v1/jobs/{job_id}/explanation", reads(JobExplanation))

    @Asking
    def get(self, job_id: int) -> Call[Job]:
        """Look at one; raises NotFound."""
        return Call("GET", f"/v1/jobs/{job_id}", reads(Job))

    @Iterating
    def list(self, which: JobFilter | None = None) -> Pages[Job]:
        """Go through those that are asked for, the newest first, one page after the other."""
        return pages("/v1/jobs", which, JobPage, lambda page: page.jobs)

    @Asking
    def cancel(self, job_id: int) -> Call[Job]:
        """Take one back, with all of its attempts; raises NotFound and NotAllowed."""
        return Call("DELETE", f"/v1/jobs/{job_id}", reads(Job))

    @Asking
    def result(self, job_id: int) -> Call[JobResult]:
        """Give what came of one; raises NotFound, also while there is nothing."""
        return Call("GET", f"/v1/jobs/{job_id}/result", reads(JobResult))

    @Asking
    def output(self, job_id: int) -> Call[JobLog]:
        """Give what the command of one has written so far; raises NotFound."""
        return Call("GET", f"/v1/jobs/{job_id}/output", reads(JobLog))

    @Asking
    def read_file(self, job_id: int, name: str, offset: int, count: int) -> Call[bytes]:
        """Read so many bytes of a file that one left behind, fewer at its end; raises NotFound."""
        return _part(f"/v1/jobs/{job_id}/files/{quote(name, safe='')}", offset, count)

    @Iterating
    def follow(self, job_id: int) -> Looks:
        """Give a job as it stands now, and again whenever it stands differently, until it is over."""
        return Looks(job_id)

    @Asking
    def wait(self, job_id: int) -> Looks:
        """Wait until a job is over, and give it as it is then."""
        return Looks(job_id)


class Files(Noun[W]):
    """Store files for jobs, and read them again; `leasehold.client.files` does so with files of this machine."""

    @Asking
    def announce(self, spec: FileSpec) -> Call[StoredFile]:
        """Announce one, or find how much of it has arrived; raises ProblemError beyond a quota."""
        return Call("POST", "/v1/files", reads(StoredFile), body=spec.to_json())

    @Asking
    def write(self, sha256: str, offset: int, piece: bytes, size_bytes: int) -> Call[StoredFile]:
        """Send the piece of one that begins at this offset; raises Conflict where it does not follow what arrived.

        Never asked twice: look with `announce` how much has arrived.
        """
        said = ("Content-Range", f"bytes {offset}-{offset + len(piece) - 1}/{size_bytes}")
        headers = said, ("Content-Type", "application/octet-stream")
        path = _path("files", sha256, "content")
        return Call("PUT", path, reads(StoredFile), content=piece, headers=headers, repeatable=False)

    @Asking
    def list(self) -> Call[tuple[StoredFile, ...]]:
        """Look at all of one's own."""
        return Call("GET", "/v1/files", lambda response: response.read(FileList).files)

    @Asking
    def get(self, sha256: str) -> Call[StoredFile]:
        """Look at one; raises NotFound."""
        return Call("GET", _path("files", sha256), reads(StoredFile))

    @Asking
    def read(self, sha256: str, offset: int, count: int) -> Call[bytes]:
        """Read so many bytes of one's content, fewer at its end; raises NotFound."""
        return _part(_path("files", sha256, "content"), offset, count)

    @Asking
    def remove(self, sha256: str) -> Call[None]:
        """Remove one; raises NotFound."""
        return Call("DELETE", _path("files", sha256), nothing)


class Nodes(Noun[W]):
    """Look at the nodes that jobs run on."""

    @Iterating
    def list(self, which: NodeFilter | None = None) -> Pages[Node]:
        """Go through them by name."""
        return pages("/v1/nodes", which, NodePage, lambda page: page.nodes)


class Images(Noun[W]):
    """Look at the images that machines are built with."""

    @Asking
    def list(self) -> Call[tuple[Image, ...]]:
        """Look at all of them, those that are being built or could not be among them."""
        return Call("GET", "/v1/images", lambda response: response.read(ImageList).images)


class Sites(Noun[W]):
    """Look at sites, and drain them."""

    @Asking
    def list(self) -> Call[tuple[Site, ...]]:
        """Look at all of them."""
        return Call("GET", "/v1/sites", lambda response: response.read(SiteList).sites)

    @Asking
    def get(self, name: str) -> Call[Site]:
        """Look at one; raises NotFound."""
        return Call("GET", _path("sites", name), reads(Site))

    @Asking
    def drain(self, name: str, note: str = "") -> Call[Site]:
        """Take no new guests there; those that run there stay."""
        return Call("POST", _path("sites", name, "drain"), reads(Site), body=DrainSpec(note=note).to_json())

    @Asking
    def resume(self, name: str) -> Call[Site]:
        """Let it take guests again."""
        return Call("POST", _path("sites", name, "resume"), reads(Site))

    @Asking
    def forget(self, name: str) -> Call[None]:
        """Remove one that will not come back; the leases there have failed.

        Raises NotFound, and Conflict where it has been heard of lately, or is the gateway's own.
        """
        return Call("DELETE", _path("sites", name), nothing)


class Peers(Noun[W]):
    """Agree with other gateways, and see what goes to and fro."""

    @Asking
    def list(self) -> Call[tuple[Peer, ...]]:
        """Look at all of them."""
        return Call("GET", "/v1/peers", lambda response: response.read(PeerList).peers)

    @Asking
    def get(self, name: str) -> Call[Peer]:
        """Look at one; raises NotFound."""
        return Call("GET", _path("peers", name), reads(Peer))

    @Asking
    def keep(self, name: str, spec: PeerSpec) -> Call[Peer]:
        """Exchange requests with a gateway, known before or not, on these terms from now on."""
        return Call("PUT", _path("peers", name), reads(Peer), body=spec.to_json())

    @Asking
    def remove(self, name: str) -> Call[None]:
        """Exchange nothing with one any more, and refuse the tokens that were made for it.

        Raises NotFound, and Conflict while leases are under way between the two and it is in touch.
        """
        return Call("DELETE", _path("peers", name), nothing)


class Tokens(Noun[W]):
    """Give out tokens, and take them back."""

    @Asking
    def create(self, spec: TokenSpec) -> Call[NewToken]:
        """Issue a token; its text is returned here and never again. The request is never repeated."""
        return Call("POST", "/v1/tokens", reads(NewToken), body=spec.to_json(), repeatable=False)

    @Asking
    def list(self) -> Call[tuple[Token, ...]]:
        """Look at all of them; none of them tells its text again."""
        return Call("GET", "/v1/tokens", lambda response: response.read(TokenList).tokens)

    @Asking
    def revoke(self, token_id: str) -> Call[None]:
        """Refuse one from now on; raises NotFound."""
        return Call("DELETE", _path("tokens", token_id), nothing)

    @Asking
    def inspect(self) -> Call[Caller]:
        """Show the caller's identity and permissions."""
        return Call("GET", "/v1/tokens/self", reads(Caller))


class Agreements(Noun[W]):
    """Discover agreements, draw them up, sign them, and let them end."""

    @Asking
    def list(self) -> Call[tuple[Agreement, ...]]:
        """Look at those that are published, and at those of one's own groups and sites."""
        return Call("GET", "/v1/agreements", lambda response: response.read(AgreementList).agreements)

    @Asking
    def get(self, name: str) -> Call[Agreement]:
        """Look at one; raises NotFound."""
        return Call("GET", _path("agreements", name), reads(Agreement))

    @Asking
    def propose(self, terms: Mapping[str, Any]) -> Call[Agreement]:
        """Draw one up, under the keys of a file of agreements; raises Conflict for a name that is taken."""
        return Call("POST", "/v1/agreements", reads(Agreement), body=terms)

    @Asking
    def amend(self, terms: Mapping[str, Any]) -> Call[Agreement]:
        """Draw up other terms for the one of this name; the old ones hold until both have signed these."""
        return Call("PUT", _path("agreements", str(terms.get("name", ""))), reads(Agreement), body=terms)

    @Asking
    def sign(self, name: str, spec: SignatureSpec) -> Call[Agreement]:
        """Sign a revision for the provider or the consumer; raises Conflict where another waits for that."""
        return _moved(name, "sign", spec)

    @Asking
    def publish(self, name: str, *, published: bool = True) -> Call[Agreement]:
        """Make an agreement visible to all callers, or only to its parties."""
        return _moved(name, "publish", PublicationSpec(published=published))

    @Asking
    def suspend(self, name: str, note: str = "") -> Call[Agreement]:
        """Put one out of force for a while; leases that run stay."""
        return _moved(name, "suspend", NoteSpec(note=note))

    @Asking
    def resume(self, name: str) -> Call[Agreement]:
        """Put one in force again."""
        return _moved(name, "resume")

    @Asking
    def revoke(self, name: str, note: str = "") -> Call[Agreement]:
        """End one and all that was passed on of it; leases that run stay."""
        return _moved(name, "revoke", NoteSpec(note=note))

    @Asking
    def penalties(self) -> Call[tuple[Penalty, ...]]:
        """List penalties, past ones included, newest first."""
        return Call("GET", "/v1/penalties", lambda response: response.read(PenaltyList).penalties)

    @Asking
    def lift(self, penalty_id: int) -> Call[Penalty]:
        """Let a punishment end now; raises NotFound."""
        return Call("POST", f"/v1/penalties/{penalty_id}/lift", reads(Penalty))


class Accounts(Noun[W]):
    """See what was used."""

    @Asking
    def used(self, which: UsageFilter | None = None) -> Call[Usage]:
        """Tell what was used, by consumer and virtual domain."""
        return Call("GET", "/v1/usage", reads(Usage), query=query_of(which or UsageFilter()))

    @Asking
    def balance(self, which: BalanceQuery | None = None) -> Call[BalanceList]:
        """Say who owes whom for a period, the largest debt first."""
        return Call("GET", "/v1/usage/balance", reads(BalanceList), query=query_of(which or BalanceQuery()))

    @Asking
    def statement(self, which: StatementQuery) -> Call[Statement]:
        """Give the statement of a consumer for a month."""
        return Call("GET", "/v1/usage/statement", reads(Statement), query=query_of(which))


class Forecasts(Noun[W]):
    """Ask when leases start, continue and end, how earlier answers did, and what would happen if."""

    @Asking
    def list(self) -> Call[EstimateList]:
        """Give what is expected of the open leases, and of the jobs that wait for nodes, that are visible."""
        return Call("GET", "/v1/estimates", reads(EstimateList))

    @Asking
    def get(self, lease_id: int) -> Call[LeaseEstimate]:
        """Give what is expected of one lease; raises NotFound, also where nothing is said of it yet."""
        return Call("GET", f"/v1/estimates/{lease_id}", reads(LeaseEstimate))

    @Asking
    def of_job(self, job_id: int) -> Call[JobEstimate]:
        """Give what is expected of a job that waits for nodes; raises NotFound, also where nothing is said of it."""
        return Call("GET", f"/v1/jobs/{job_id}/estimate", reads(JobEstimate))

    @Asking
    def calibration(self) -> Call[Calibration]:
        """Tell how earlier predictions did."""
        return Call("GET", "/v1/calibration", reads(Calibration))

    @Asking
    def what_if(self, spec: WhatIfSpec) -> Call[WhatIf]:
        """Compare the future as things stand with that after changes."""
        return Call("POST", "/v1/whatif", reads(WhatIf), body=spec.to_json())

    @Asking
    def snapshot(self, which: SnapshotQuery | None = None) -> Call[bytes]:
        """Take a snapshot, and record what follows it for as long as asked for; gives the content of a file."""
        return Call("GET", "/v1/snapshot", _content, query=query_of(which or SnapshotQuery()))


def _content(response: Response) -> bytes:
    response.text()
    return response.content


class Probes(Noun[W]):
    """Whether the gateway works."""

    @Asking
    def alive(self) -> Call[bool]:
        """Say whether the gateway lives."""
        return Call("GET", "/healthz", lambda response: response.is_yes, repeatable=False)

    @Asking
    def why_not_ready(self) -> Call[str]:
        """Say what keeps the gateway from serving; "" where nothing does."""
        return Call("GET", "/readyz", _why_not, repeatable=False)


def _why_not(response: Response) -> str:
    return "" if response.is_yes else response.problem().detail or f"it answers with status {response.status}"


def _submitted(path: str, kind: Any, spec: RequestModel, key: str) -> Call[Any]:  # noqa: ANN401 - the callers say which
    return Call("POST", path, reads(kind), body=spec.to_json(), key=key or str(uuid4()))


def _part(path: str, offset: int, count: int) -> Call[bytes]:
    headers = (("Range", f"bytes={offset}-{offset + count - 1}"), ("Accept", "*/*"))
    return Call("GET", path, as_bytes, headers=headers)


def _moved(name: str, move: str, spec: RequestModel | None = None) -> Call[Agreement]:
    body = None if spec is None else spec.to_json()
    return Call("POST", _path("agreements", name, move), reads(Agreement), body=body)


def _path(noun: str, name: str, move: str = "") -> str:
    path = f"/v1/{noun}/{quote(name, safe='')}"
    return f"{path}/{move}" if move else path


@dataclass(frozen=True, slots=True)
class Health:
    """Whether a gateway lives, whether it serves, and if not, why not."""

    alive: bool
    ready: bool
    why_not: str = ""


class _Nouns(Generic[W]):
    """What both clients have methods for."""

    def __init__(self, access: Access, transport: W) -> None:
        self.access = access
        self._transport = transport
        self._probes = Probes(transport)
        self.leases = Leases(transport)
        self.coallocations = CoAllocations(transport)
        self.jobs = Jobs(transport)
        self.files = Files(transport)
        self.nodes = Nodes(transport)
        self.images = Images(transport)
        self.sites = Sites(transport)
        self.peers = Peers(transport)
        self.tokens = Tokens(transport)
        self.agreements = Agreements(transport)
        self.usage = Accounts(transport)
        self.activity = Activity(transport)
        self.forecasts = Forecasts(transport)


class Client(_Nouns[Transport]):
    """Speaks to a gateway.

    ``url, token``  without them they are looked for (see `leasehold.client.access.find_access`)
    ``retry``       how often to ask again what may be asked twice
    ``timeout_s``   how long to wait for one response

    Raises InvalidField for an address that is none, or where a token could be read on the way. Every method
    raises Unreachable, ProblemError and BadResponse. May be shared by threads.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        retry: RetryPolicy | None = None,
        timeout_s: float = 30.0,
    ) -> None:
        access = find_access(url, token)
        super().__init__(access, Transport(access, retry or RetryPolicy(), timeout_s))

    def health(self) -> Health:
        """Say whether the gateway lives and serves; raises Unreachable where there is none."""
        alive, why_not = self._probes.alive(), self._probes.why_not_ready()
        return Health(alive, not why_not, why_not)

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncClient(_Nouns[AsyncTransport]):
    """Speaks to a gateway from asyncio; arguments, methods and errors are those of `Client`."""

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        retry: RetryPolicy | None = None,
        timeout_s: float = 30.0,
    ) -> None:
        access = find_access(url, token)
        super().__init__(access, AsyncTransport(access, retry or RetryPolicy(), timeout_s))

    async def health(self) -> Health:
        """Say whether the gateway lives and serves; raises Unreachable where there is none."""
        alive, why_not = await self._probes.alive(), await self._probes.why_not_ready()
        return Health(alive, not why_not, why_not)

    async def close(self) -> None:
        """Close the connections."""
        await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
