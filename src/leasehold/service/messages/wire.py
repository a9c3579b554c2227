"""The bodies of messages: offers and orders to a site, reports and answers to a gateway; what is said about jobs.

A message is kept by its sender until it was acknowledged, and sent again until then. Its receiver takes in those
that follow the last one that it has taken in, in the transaction in which it does what they ask for.

The fields of an offer are those of a request, except the ones that each end has for itself: a field that a request
gains travels, or this module cannot be imported because it does not say how.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal, get_type_hints

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    create_model,
)
from pydantic.types import Strict

from leasehold.gateway.peering import MOST_HOPS, Hop
from leasehold.gateway.sites import carried_by
from leasehold.model.errors import InvalidField
from leasehold.model.event import Carried, ExtensionAnswered, SiteReported
from leasehold.model.lease import Lease, LeaseState
from leasehold.model.reason import Reason
from leasehold.model.request import LEASE_TYPES, MOST_DURATION_MS, LeaseType, Request, check_on_nodes
from leasehold.model.resources import check_gpus
from leasehold.service.commands import Submit
from leasehold.service.drivers.protocol import NO_CONSTRAINTS, PlacementConstraints
from leasehold.service.drivers.staging import NO_FILES, JobFiles, StagedFile
from leasehold.service.messages.about_jobs import (
    AboutJobs,
    BuildableTold,
    BuildTold,
    BuildWanted,
    CommandTold,
    FilesNeeded,
    FilesSent,
    FilesWanted,
    ImagesTold,
    LookWanted,
    NodesOffered,
    NodesTold,
    OutputTold,
    OutputWanted,
    Placed,
)
from leasehold.service.messages.about_plans import MOST_WITHIN_MS, Planned
from leasehold.service.messages.endpoints import asking_peer
from leasehold.service.messages.fields import Id, Moment, Natural, Text, Whole
from leasehold.service.messages.site_status import MOST_NODES, MOST_VMS, GatewayId, Name, first_of
from leasehold.service.store.rows import LeaseMetadata
from leasehold.sharing.parties import is_path

Body = dict[str, Any]
MOST_MEMORY_MIB = 2**31
_Duration = Annotated[int, Strict(), Field(ge=1, le=MOST_DURATION_MS)]
_MOST_WORDS, _MOST_CLAIMS = 1_024, 64
"""Of words in a command, and of further resources."""


# What stands in a body


def _path(text: str) -> str:
    if not is_path(text):
        raise ValueError("not the path of a consumer or group")
    return text


def _lease_type(label: object) -> object:
    return LEASE_TYPES.get(label) if isinstance(label, str) else None


Path = Annotated[Text, AfterValidator(_path)]
Claims = Annotated[tuple[tuple[Text, Whole], ...], Field(max_length=_MOST_CLAIMS)]

GlobalId = Annotated[str, StringConstraints(strict=True, max_length=100, pattern=r"^[0-9A-Za-z-]+/[1-9][0-9]*$")]

_OWN_FIELDS = {"id", "submit_ms", "site", "from_peer", "is_foreign", "max_restarts", "goes_back"}
"""What each end says of a request for itself: its own gateway, which knows all sites, lets it begin again."""

_BY_NAME: Mapping[str, Any] = {
    "consumer": Path,
    "group": Path | Literal[""],
    "ready_ms": Natural | None,
    "deadline_ms": Natural | None,
    "prepared_until_ms": Natural | None,
    "global_id": GlobalId,
    "via": Annotated[tuple[GatewayId, ...], Field(min_length=1, max_length=MOST_HOPS)],
    "hop_limit": Annotated[int, Strict(), Field(ge=0, lt=MOST_HOPS)],
    "on_nodes": Annotated[tuple[Name, ...], Field(max_length=MOST_NODES)],
}
_BY_TYPE: Mapping[Any, Any] = {
    int: Whole,
    str: Text,
    bool: Annotated[bool, Strict()],
    LeaseType: Annotated[LeaseType, BeforeValidator(_lease_type)],
    tuple[tuple[str, int], ...]: Claims,
}
"""How a value of a request is checked when it comes in, by its name or else by its type."""

_OFFERED = {name: hint for name, hint in get_type_hints(Request).items() if name not in _OWN_FIELDS}


class _Carried(BaseModel):
    """What a lease brings along whose memory another site has saved."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    work_left: Id
    preemptions: Natural
    migrations: Natural
    overhead_vm_ms: Natural


class _Named(BaseModel):
    """What travels of a lease besides its request."""

    kind: Literal["offer"]
    lease: Id
    name: Text
    project: Text
    notify: Text
    ssh_key: Text
    command: Annotated[tuple[Text, ...], Field(max_length=_MOST_WORDS)]
    carried: _Carried | None
    placed: Placed | None
    files: FilesNeeded | None


_FIELDS: Any = {name: (_BY_NAME.get(name) or _BY_TYPE[hint], ...) for name, hint in _OFFERED.items()}
_OfferBody = create_model("_OfferBody", __base__=_Named, **_FIELDS)


class _PlanBody(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["plan"]
    number: Id
    within_ms: Annotated[int, Strict(), Field(ge=1, le=MOST_WITHIN_MS)]
    asked: _OfferBody  # type: ignore[valid-type]  # made above


class _RecallBody(BaseModel):
    kind: Literal["recall"]
    lease: Id


class _CommitBody(BaseModel):
    kind: Literal["commit"]
    lease: Id


class _ExtendBody(BaseModel):
    kind: Literal["extend"]
    lease: Id
    duration_ms: _Duration


class Extended(BaseModel):
    """For how long, in all, a lease may last that the gateway sent there; with a ``refusal``, not for so long."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["extended"]
    lease: Id
    duration_ms: _Duration
    refusal: Reason | None


class _CheckpointedBody(BaseModel):
    kind: Literal["checkpointed"]
    lease: Id


class Report(BaseModel):
    """What has become of a lease that the gateway sent there."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["report"]
    lease: Id
    state: LeaseState
    reason: Reason | Literal[""]
    planned_ms: Moment
    first_start_ms: Moment
    preemptions: Natural
    overhead_vm_ms: Natural
    migrations: Natural
    work_left: Moment
    prepared_until_ms: Moment
    onward: Annotated[tuple[Name, ...], Field(max_length=MOST_HOPS)]
    command: CommandTold | None


_KINDS: Mapping[str, type[BaseModel]] = {
    "offer": _OfferBody,
    "plan": _PlanBody,
    "planned": Planned,
    "recall": _RecallBody,
    "commit": _CommitBody,
    "extend": _ExtendBody,
    "extended": Extended,
    "checkpointed": _CheckpointedBody,
    "report": Report,
    "nodes": NodesTold,
    "offered": NodesOffered,
    "images": ImagesTold,
    "buildable": BuildableTold,
    "built": BuildTold,
    "output": OutputTold,
    "sent": FilesSent,
    "read": OutputWanted,
    "collect": FilesWanted,
    "build": BuildWanted,
    "look": LookWanted,
}


# Reading


@dataclass(frozen=True, slots=True)
class Offer:
    """A request that a site is asked to take in; ``lease_id`` is its number at the gateway."""

    lease_id: int
    submit: Submit


@dataclass(frozen=True, slots=True)
class PlanWanted:
    """A question what would become of a request; ``number`` is that of the question.

    ``within_ms``  for so long its answer is waited for
    """

    number: int
    submit: Submit
    within_ms: int


@dataclass(frozen=True, slots=True)
class Recall:
    """A lease that the gateway's user wants back."""

    lease_id: int


@dataclass(frozen=True, slots=True)
class Commit:
    """A component whose promise holds: the other sites of its co-allocation have promised theirs."""

    lease_id: int


@dataclass(frozen=True, slots=True)
class Extend:
    """A lease that the gateway wants to last ``duration_ms`` in all."""

    lease_id: int
    duration_ms: int


@dataclass(frozen=True, slots=True)
class Checkpointed:
    """A lease whose guest has saved its work by its own means."""

    lease_id: int


@dataclass(frozen=True, slots=True)
class Reported:
    """What has become of a lease at a site, and of its command as far as the site has followed that."""

    news: SiteReported
    command: CommandTold | None = None


About = PlanWanted | Planned | AboutJobs
Message = Offer | Recall | Commit | Extend | Checkpointed | Reported | ExtensionAnswered | About


def read(body: object, sender: str) -> Message:  # noqa: C901, PLR0911 - one for each kind
    """Understand a message; raises InvalidField for what does not make sense."""
    kind = body.get("kind") if isinstance(body, dict) else None
    model = _KINDS.get(kind) if isinstance(kind, str) else None
    if model is None:
        raise InvalidField("message.kind", kind, f"{', '.join(_KINDS)}: is one of the two of another version?")
    try:
        understood = model.model_validate(body)
    except ValidationError as error:
        raise first_of(error, "message") from None
    if isinstance(understood, AboutJobs | Planned):
        return understood
    if isinstance(understood, _PlanBody):
        asked: Body = dict(understood.asked)
        del asked["kind"]
        lease_id = asked.pop("lease")
        return PlanWanted(understood.number, _submit(asked, sender, lease_id), understood.within_ms)
    read = dict(understood)
    del read["kind"]
    lease_id = read.pop("lease")
    if model is _RecallBody:
        return Recall(lease_id)
    if model is _CommitBody:
        return Commit(lease_id)
    if model is _CheckpointedBody:
        return Checkpointed(lease_id)
    if model is _ExtendBody:
        return Extend(lease_id, **read)
    if model is Extended:
        return ExtensionAnswered(lease_id, sender, **read)
    if model is Report:
        command = read.pop("command")
        return Reported(SiteReported(lease_id, sender, **read | {"reason": read["reason"] or Reason.ROUTED}), command)
    return Offer(lease_id, _submit(read, sender, lease_id))


def _submit(read: Body, gateway: str, lease_id: int) -> Submit:
    peer = asking_peer(gateway)
    brought: _Carried | None = read.pop("carried")
    carried = None if brought is None else Carried(gateway, **dict(brought))
    placed: Placed | None = read.pop("placed")
    more = {name: read.pop(name) for name in ("project", "notify", "ssh_key")}
    more["constraints"] = NO_CONSTRAINTS if placed is None else PlacementConstraints(**dict(placed))
    more["files"] = _files(read.pop("files"), gateway, lease_id)
    metadata = LeaseMetadata(read.pop("name"), read.pop("command"), gateway, lease_id, **more)
    read |= {
        "ready_ms": read["ready_ms"] or 0,
        "consumer": _called_here(gateway, read["consumer"]),
        "group": _called_here(gateway, read["group"]) if read["group"] else "",
    }
    return Submit(
        Request(id=0, submit_ms=0, from_peer=peer, is_foreign=bool(peer), max_restarts=0, goes_back=True, **read),
        metadata,
        carried=carried,
    )


def _files(needed: FilesNeeded | None, gateway: str, lease_id: int) -> JobFiles:
    if needed is None:
        return NO_FILES
    inputs = tuple(StagedFile(**dict(file)) for file in needed.inputs)
    return JobFiles(inputs, needed.outputs, gateway, lease_id)


def _called_here(gateway: str, name: str) -> str:
    """Give the path by which a consumer or group is known here: a peer's are not ours, even if called alike."""
    return f"{gateway}/{name}" if asking_peer(gateway) else name


def check_offer(request: Request) -> None:
    """Refuse a request that was understood, and that could not have been made here; raises InvalidField."""
    for name, most in (("vms", MOST_VMS), ("duration_ms", MOST_DURATION_MS), ("memory_mib", MOST_MEMORY_MIB)):
        if not 1 <= getattr(request, name) <= most:
            raise InvalidField(name, getattr(request, name), f"a whole number from 1 to {most}")
    if request.cores < 1:
        raise InvalidField("cores", request.cores, "a whole number of at least 1")
    check_gpus(request.gpu_model, request.gpu_milli)
    check_on_nodes(request)
    until_ms = request.prepared_until_ms
    if until_ms is not None and (request.lease_type is not LeaseType.NON_PREEMPTABLE or request.wait):
        raise InvalidField("prepared_until_ms", until_ms, "null, or a non-preemptable lease that does not wait")
    if until_ms is not None and until_ms > request.ready_ms:
        raise InvalidField("prepared_until_ms", until_ms, f"at most {request.ready_ms}, its start")
    for name, units in request.claims:
        if units < 1:
            raise InvalidField(f"claims.{name}", units, "a whole number of at least 1")


# Writing


def offer(lease: Lease, metadata: LeaseMetadata, hop: Hop, *, wait: bool = False) -> Body:
    """Ask a site or peer to take a lease in; ``hop`` is the path by which it comes there.

    A ready time that has come is left out: the site's clock may be behind, and it would wait for nothing.
    """
    request, carried = lease.request, carried_by(lease)
    return (
        {name: getattr(request, name) for name in _OFFERED}
        | asdict(hop)
        | {
            "kind": "offer",
            "lease": lease.id,
            "lease_type": request.lease_type.label,
            "ready_ms": request.ready_ms if request.ready_ms > lease.dispatched_ms else None,
            "wait": wait,
            "name": metadata.name,
            "project": metadata.project,
            "notify": metadata.notify,
            "ssh_key": metadata.ssh_key,
            "command": metadata.command,
            "carried": None if carried is None else {name: getattr(carried, name) for name in _Carried.model_fields},
            "placed": _placed(metadata.constraints),
            "files": _needed(metadata.files),
        }
    )


def plan(number: int, offered: Body, within_ms: int) -> Body:
    """Ask a site or peer what would become of an offer, which is not made; the answer is waited for so long."""
    return {"kind": "plan", "number": number, "within_ms": within_ms, "asked": offered}


def cannot_plan(number: int, problem: str) -> Planned:
    """Make the answer that nothing can be said of a request."""
    return Planned(number=number, state=LeaseState.REFUSED, reason=Reason.POLICY_REFUSED, problem=problem)


def _placed(constraints: PlacementConstraints) -> Body | None:
    """Say where its machines are to be, where matching has chosen that."""
    if constraints == NO_CONSTRAINTS:
        return None
    return {name: getattr(constraints, name) for name in Placed.model_fields}


def _needed(files: JobFiles) -> Body | None:
    """Say which files its command reads and leaves, where it has any."""
    if not files:
        return None
    return {"inputs": [asdict(file) for file in files.inputs], "outputs": list(files.outputs)}


def recall(lease: Lease) -> Body:
    """Make the message that asks a site to give up a lease."""
    return {"kind": "recall", "lease": lease.id}


def commit(lease: Lease) -> Body:
    """Make the message that the promise of a component holds."""
    return {"kind": "commit", "lease": lease.id}


def extend(lease: Lease, duration_ms: int) -> Body:
    """Make the message that asks a site to let a lease last so long in all."""
    return {"kind": "extend", "lease": lease.id, "duration_ms": duration_ms}


def extended(lease_id: int, duration_ms: int, refusal: Reason | None) -> Body:
    """Make the answer to the gateway: how long its lease may last in all, or why not so long."""
    return {"kind": "extended", "lease": lease_id, "duration_ms": duration_ms, "refusal": refusal}


def checkpointed(lease: Lease) -> Body:
    """Make the message that the guest of a lease has saved its work."""
    return {"kind": "checkpointed", "lease": lease.id}


def report(lease: Lease, metadata: LeaseMetadata, onward: tuple[str, ...], command: CommandTold | None = None) -> Body:
    """Make the report to the gateway on a lease that it sent, and on its command.

    ``onward`` are the gateways that it went on to.
    """
    news = SiteReported(
        metadata.origin_id,
        "",
        lease.state,
        Reason(metadata.reason or Reason.ROUTED),
        lease.reserved_ms,
        lease.first_start_ms,
        lease.preemptions,
        lease.overhead_vm_ms,
        lease.migrations,
        lease.work_left,
        -1 if lease.request.prepared_until_ms is None else lease.request.prepared_until_ms,
        onward,
    )
    return _report(news, command)


def refusal(lease_id: int, reason: Reason) -> Body:
    """Make the report to the gateway that an offer is refused here."""
    return _report(SiteReported(lease_id, "", LeaseState.REFUSED, reason))


def not_there(lease_id: int, problem: str) -> Body:
    """Make the report to the gateway that the nodes are not there any more on which a command was to run."""
    news = SiteReported(lease_id, "", LeaseState.REFUSED, Reason.NEVER_STARTED)
    return _report(news, CommandTold(refused=problem, full=True))


def _report(news: SiteReported, command: CommandTold | None = None) -> Body:
    own = {
        "kind": "report",
        "lease": news.lease_id,
        "command": None if command is None else command.model_dump(mode="json"),
    }
    return own | {name: getattr(news, name) for name in Report.model_fields.keys() - own.keys()}
