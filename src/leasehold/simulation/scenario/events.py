"""What a scenario says about events besides its jobs: `[[timeline]]`, and failures of nodes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from leasehold.configuration.declaration import Choice, Number, Plain, Seconds, Table, Text, Whole
from leasehold.configuration.keys import Keys
from leasehold.model.errors import InvalidField, UnknownName

DISTRIBUTIONS = ("exponential", "weibull")


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
class TimelineEntry:
    """One event at a time that the scenario says; which keys it takes depends on its kind (`KINDS`)."""

    at_ms: Annotated[int, Seconds("time of the event")]
    kind: Annotated[str, Choice("kind of the event, as in the table below", of=lambda: KINDS)]
    site: Annotated[str, Text("cluster that it concerns", unset="none", optional=True)] = ""
    nodes: Annotated[int | None, Whole("number of nodes", unset="1")] = None
    lasts_ms: Annotated[int | None, Seconds("duration", least_ms=1)] = None

    def to_dict(self) -> Plain:
        """Give the keys of ``[[timeline]]``."""
        return TIMELINE.to_dict(self)


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
        "so many nodes of the cluster, chosen at random, fail with all that runs on them, and are back after `lasts_s`,"
        " as the gateway is told at once",
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
        " resumes there; what runs goes on",
    ),
    "reachable": TimelineKind(("site",), (), "the machines of the cluster answer again"),
}
"""The kinds of `[[timeline]]`."""


def read_timeline(keys: Keys) -> tuple[TimelineEntry, ...]:
    """Read ``[[timeline]]``; raises InvalidField for a key that the kind does not take, or lacks."""
    return tuple(_read_entry(table) for table in keys.tables("timeline"))


def _read_entry(keys: Keys) -> TimelineEntry:
    present = set(keys.left())
    entry = TIMELINE.read(keys)
    kind = KINDS[entry.kind]
    takes = (*kind.needs, *kind.may_have)
    for key in sorted(present - {"at_s", "kind", *takes}):
        raise InvalidField(keys.where(key), entry.kind, f"no {key}: {entry.kind} takes at_s, {', '.join(takes)}")
    for key in kind.needs:
        if key not in present:
            raise InvalidField(keys.where(key), None, f"a value: {entry.kind} takes at_s, {', '.join(takes)}")
    return entry


def check_timeline(entries: Iterable[TimelineEntry], clusters: Iterable[str]) -> None:
    """Refuse entries about clusters that are not there; raises UnknownName."""
    known = list(clusters)
    for index, entry in enumerate(entries):
        if entry.site and entry.site not in known:
            raise UnknownName(f"timeline[{index}].site", entry.site, known)


def kinds_reference() -> list[str]:
    """Give the rows of the reference of kinds, in Markdown."""
    return [
        f"| `{name}` | {', '.join(f'`{key}`' for key in kind.needs)} |"
        f" {', '.join(f'`{key}`' for key in kind.may_have) or '-'} | {kind.effect} |"
        for name, kind in KINDS.items()
    ]


def failures_to_dict(failures: NodeFailureRates | None) -> dict[str, Any]:
    """Give the key ``failures`` of a cluster; nothing where its nodes do not fail."""
    return {} if failures is None else {"failures": FAILURES.to_dict(failures)}
