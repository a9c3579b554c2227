"""What a scenario says about events besides its jobs: `[[timeline]]`, and failures of nodes."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any

from leasehold.configuration.agreements import agreement_to_dict, read_agreement
from leasehold.configuration.declaration import Choice, Number, Plain, Seconds, Table, Text, Whole
from leasehold.configuration.keys import Keys
from leasehold.configuration.times import Clock
from leasehold.model.agreement import Agreement
from leasehold.model.errors import InvalidField, UnknownName

NATIVE_ORDERS = ("fifo", "shortest", "narrowest", "widest")
LOOKS_AGAIN_MS = 1_000
"""How soon the queue of a cluster's own scheduler is looked at again, where its decision could not be followed yet."""
DISTRIBUTIONS = ("exponential", "weibull")


class JobNumber(Text):
    """The number of a job, as a number or as a text."""

    accepts = "number or text"

    def read(self, keys: Keys, name: str, default: object) -> object:
        """Take the number as a text."""
        value = keys.take(name, default)
        if value is default or (isinstance(value, str) and value) or type(value) is int:
            return str(value)
        raise InvalidField(keys.where(name), value, "the number of a job, such as 17")


@dataclass(frozen=True, slots=True)
class NodeFailureRates:
    """How often the nodes of a cluster fail, each by itself, and how long they are down."""

    mtbf_ms: Annotated[int, Seconds("mean time between the repair of a node and its next failure", least_ms=1)]
    mttr_ms: Annotated[
        int,
        Seconds(
            "mean time to repair a node, exponentially distributed",
            more="; the gateway expects each node back after this time, and each time that it is not, after it again",
            least_ms=1,
        ),
    ]
    distribution: Annotated[str, Choice("distribution of the times between failures", of=DISTRIBUTIONS)] = "exponential"
    shape: Annotated[
        float,
        Number(
            "Weibull shape", more=": below 1, a node that was just repaired is more likely to fail", least=0.1, most=10
        ),
    ] = 0.7


FAILURES = Table(NodeFailureRates, "Failures of the nodes of a cluster.")


@dataclass(frozen=True, slots=True)
class StartTimes:
    """How long the machines of a lease take to start at a cluster, and how often they do not."""

    mean_ms: Annotated[int, Seconds("mean time from the order until the machines of a lease are there", least_ms=1)]
    least_ms: Annotated[
        int, Seconds("least time", more="; what is beyond it is exponentially distributed", least_ms=0)
    ] = 0
    fail_share: Annotated[
        float,
        Number(
            "share of the starts that fail",
            more=", after the same time: a guest is tried at another cluster, other leases fail",
            least=0,
            most=1,
        ),
    ] = 0.0


STARTS = Table(StartTimes, "How long the machines of a cluster take to start.")


@dataclass(frozen=True, slots=True)
class StreamUsers:
    """What the users of a stream do with their requests besides waiting for them."""

    patience_ms: Annotated[
        int | None,
        Seconds(
            "mean time, exponentially distributed, after which a request is cancelled that has not started",
            unset="for ever",
            least_ms=1,
        ),
    ] = None
    cancel_share: Annotated[
        float,
        Number(
            "share of the requests that are cancelled, waiting or running",
            more=", at a time drawn uniformly from the requested time after the submission",
            least=0,
            most=1,
        ),
    ] = 0.0
    extend_share: Annotated[
        float,
        Number(
            "share of the requests for which more time is asked",
            more=", after nine tenths of the requested time",
            least=0,
            most=1,
        ),
    ] = 0.0
    extend_by: Annotated[float, Number("extension, as a part of the requested time", least=0.001, most=1000)] = 0.5
    checkpoint_every_ms: Annotated[
        int | None,
        Seconds(
            "interval at which a guest saves its work by itself and reports a checkpoint",
            more=", from its start on, while it runs; the victim policy `least-lost` looks at what was done since",
            unset="never",
            least_ms=1,
        ),
    ] = None


USERS = Table(StreamUsers, "What the users of a stream do with their requests.")


@dataclass(frozen=True, slots=True)
class TimelineEntry:
    """One event at a time that the scenario says; which keys it takes depends on its kind (`KINDS`)."""

    at_ms: Annotated[int, Seconds("time of the event")]
    kind: Annotated[str, Choice("kind of the event, as in the table below", of=lambda: KINDS)]
    site: Annotated[str, Text("cluster that it concerns", unset="none", optional=True)] = ""
    nodes: Annotated[int | None, Whole("number of nodes", unset="1")] = None
    lasts_ms: Annotated[int | None, Seconds("duration", least_ms=1)] = None
    stream: Annotated[str, Text("stream of the job that it concerns", unset="none", optional=True)] = ""
    job: Annotated[
        str, JobNumber("number of the job", more=" in its log, or in the stream", unset="none", optional=True)
    ] = ""
    by_ms: Annotated[int | None, Seconds("extension", least_ms=1)] = None
    agreement: Annotated[
        str,
        Text(
            "name of the agreement",
            more="; of `agree`, a table with the keys of an [agreement](agreements.md)",
            unset="none",
            optional=True,
        ),
    ] = ""
    consumer: Annotated[str, Text("consumer that was punished", unset="none", optional=True)] = ""
    terms: Agreement | None = None

    def to_dict(self, clock: Clock) -> Plain:
        """Give the keys of ``[[timeline]]``."""
        terms = {} if self.terms is None else {"agreement": agreement_to_dict(self.terms, clock)}
        return TIMELINE.to_dict(self) | terms


TIMELINE = Table(TimelineEntry, "An event at a given time.")


@dataclass(frozen=True, slots=True)
class TimelineKind:
    """Which keys a kind of event takes besides ``at_s`` and ``kind``, and what it does."""

    needs: tuple[str, ...]
    may_have: tuple[str, ...]
    effect: str


KINDS: Mapping[str, TimelineKind] = {
    "node-failure": TimelineKind(
        ("site", "lasts_s"),
        ("nodes",),
        "this many nodes of the cluster, chosen at random, fail with everything that runs on them, and are back"
        " after `lasts_s`; the gateway learns of it at once",
    ),
    "drain": TimelineKind(
        ("site",),
        ("lasts_s",),
        "the cluster takes no new guests, for `lasts_s` or until it is resumed; guests that run there stay",
    ),
    "resume": TimelineKind(("site",), (), "the cluster takes guests again"),
    "unreachable": TimelineKind(
        ("site",),
        ("lasts_s",),
        "the machines of the cluster do not answer, for `lasts_s` or until they are reachable: no guest starts or"
        " resumes there; what runs continues",
    ),
    "reachable": TimelineKind(("site",), (), "the machines of the cluster answer again"),
    "forget": TimelineKind(
        ("site",),
        (),
        "a cluster with a manager of its own is given up for lost: what the gateway has there has failed",
    ),
    "cancel": TimelineKind(
        ("stream", "job"), (), "the user cancels the job, waiting or running; a co-allocation with all its components"
    ),
    "extend": TimelineKind(
        ("stream", "job", "by_s"), (), "the user asks for more time; granted if the lease runs and there is room"
    ),
    "agree": TimelineKind(
        ("agreement",), (), "this agreement is signed, or replaces the one of the same name; what was used counts"
    ),
    "revoke": TimelineKind(
        ("agreement",),
        (),
        "the agreement ends, with those that delegate parts of it; guests that wait under it are refused, guests that"
        " run stay",
    ),
    "lift-penalty": TimelineKind(
        ("agreement", "consumer"), (), "the penalty of the consumer for breaking the agreement ends"
    ),
}
"""The kinds of `[[timeline]]`."""


AGREEMENT_KINDS = ("agree", "revoke", "lift-penalty")


def agreements_after(
    agreements: tuple[Agreement, ...], entry: TimelineEntry
) -> tuple[tuple[Agreement, ...], frozenset[str]]:
    """Give the agreements that are signed after an entry, and the names of those that it revokes."""
    if entry.kind == "agree" and entry.terms is not None:
        by_name = {one.name: one for one in agreements} | {entry.terms.name: entry.terms}
        return tuple(by_name.values()), frozenset()
    revoked = {entry.agreement} if entry.kind == "revoke" else set[str]()
    while below := {one.name for one in agreements if one.parent in revoked} - revoked:
        revoked |= below
    return tuple(one for one in agreements if one.name not in revoked), frozenset(revoked)


def read_timeline(keys: Keys, clock: Clock) -> tuple[TimelineEntry, ...]:
    """Read ``[[timeline]]``; raises InvalidField for a key that the kind does not take, or lacks."""
    return tuple(_read_entry(table, clock) for table in keys.tables("timeline"))


def _read_entry(keys: Keys, clock: Clock) -> TimelineEntry:
    present, terms = set(keys.left()), None
    if keys.peek("kind") == "agree" and "agreement" in keys:
        terms = read_agreement(keys.table("agreement"), clock)
    entry = replace(TIMELINE.read(keys), terms=terms)
    kind = KINDS[entry.kind]
    takes = (*kind.needs, *kind.may_have)
    for key in sorted(present - {"at_s", "kind", *takes}):
        raise InvalidField(keys.where(key), entry.kind, f"no {key}: {entry.kind} takes at_s, {', '.join(takes)}")
    for key in kind.needs:
        if key not in present:
            raise InvalidField(keys.where(key), None, f"a value: {entry.kind} takes at_s, {', '.join(takes)}")
    return entry


def check_timeline(entries: Iterable[TimelineEntry], known: Mapping[str, Collection[str]]) -> None:
    """Refuse entries about what is not there; ``known`` has the names for each key. Raises UnknownName."""
    for index, entry in enumerate(entries):
        for key, names in known.items():
            if (name := getattr(entry, key)) and name not in names:
                raise UnknownName(f"timeline[{index}].{key}", name, names)


def check_kinds(entries: Iterable[TimelineEntry], managed: Collection[str]) -> None:
    """Refuse what only happens at clusters with managers of their own elsewhere, and the other way round."""
    for index, entry in enumerate(entries):
        is_managed, place = entry.site in managed, f"timeline[{index}].site"
        if entry.kind == "forget" and not is_managed:
            raise InvalidField(place, entry.site, "a cluster with manager_delay_s: others cannot be forgotten")
        if entry.kind == "node-failure" and is_managed:
            raise InvalidField(place, entry.site, "a cluster without manager_delay_s: its manager sees its nodes")


def kinds_reference() -> list[str]:
    """Give the rows of the reference of kinds, in Markdown."""
    return [
        f"| `{name}` | {', '.join(f'`{key}`' for key in kind.needs)} |"
        f" {', '.join(f'`{key}`' for key in kind.may_have) or '-'} | {kind.effect} |"
        for name, kind in KINDS.items()
    ]


def machines_to_dict(failures: NodeFailureRates | None, starts: StartTimes | None) -> dict[str, Any]:
    """Give the keys of a cluster about its machines; nothing where they start at once and do not fail."""
    plain = {} if failures is None else {"failures": FAILURES.to_dict(failures)}
    return plain if starts is None else plain | {"starts": STARTS.to_dict(starts)}


def read_starts(keys: Keys) -> StartTimes:
    """Read the table ``starts`` of a cluster; raises InvalidField."""
    times = STARTS.read(keys)
    if times.least_ms >= times.mean_ms:
        raise InvalidField(keys.where("least_s"), times.least_ms / 1000, "less than mean_s")
    return times


def users_to_dict(users: StreamUsers | None) -> dict[str, Any]:
    """Give the key ``users`` of a stream; nothing where they only wait."""
    return {} if users is None else {"users": USERS.to_dict(users)}
