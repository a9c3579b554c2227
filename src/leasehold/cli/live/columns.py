"""What a list of leases shows of each."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from leasehold.cli.live.durations import show_duration
from leasehold.cli.live.moments import show_moment
from leasehold.cli.live.states import CODES
from leasehold.client import Lease
from leasehold.model.errors import UnknownName
from leasehold.model.lease import LeaseState

Show = Callable[[Lease, datetime], str]


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its head, what it shows of a lease at this time, and whether that is a figure."""

    head: str
    show: Show
    is_figure: bool = False


_REASON_MATTERS = frozenset(LeaseState) - {LeaseState.RUNNING, LeaseState.COMPLETED}


def time_used_s(lease: Lease, at: datetime) -> float:
    """Say for how long a lease has lasted since its first start, suspensions included; 0 before it."""
    if lease.started_at is None:
        return 0.0
    return ((lease.ended_at or at) - lease.started_at).total_seconds()


def site_or_reason(lease: Lease) -> str:
    """Say where a lease is; and why, in parentheses, where it does not just run."""
    reason = f"({lease.reason})" if lease.reason and lease.state in _REASON_MATTERS else ""
    return " ".join(filter(None, (lease.site, reason)))


def show_claims(claims: Mapping[str, int]) -> str:
    """Say what a lease holds besides its machines: ``licence:matlab=2``."""
    return ",".join(f"{resource}={units}" for resource, units in claims.items())


def _left(lease: Lease, at: datetime) -> str:
    return "" if lease.ends_at is None else show_duration((lease.ends_at - at).total_seconds())


def _at(pick: Callable[[Lease], datetime | None]) -> Show:
    """Show a point in time that a lease may have."""

    def show(lease: Lease, _: datetime) -> str:
        moment = pick(lease)
        return "" if moment is None else show_moment(moment)

    return show


COLUMNS: dict[str, Column] = {
    "id": Column("ID", lambda lease, _: str(lease.id)),
    "name": Column("NAME", lambda lease, _: lease.name),
    "type": Column("TYPE", lambda lease, _: lease.type),
    "consumer": Column("CONSUMER", lambda lease, _: lease.consumer),
    "group": Column("GROUP", lambda lease, _: lease.group),
    "st": Column("ST", lambda lease, _: CODES[lease.state]),
    "state": Column("STATE", lambda lease, _: lease.state),
    "time": Column("TIME", lambda lease, at: show_duration(time_used_s(lease, at)), is_figure=True),
    "left": Column("TIME_LEFT", _left, is_figure=True),
    "duration": Column("TIME_LIMIT", lambda lease, _: show_duration(lease.duration_s), is_figure=True),
    "vms": Column("VMS", lambda lease, _: str(lease.vms), is_figure=True),
    "memory": Column("MIB", lambda lease, _: str(lease.memory_mib), is_figure=True),
    "site": Column("SITE", lambda lease, _: lease.site),
    "home": Column("HOME", lambda lease, _: lease.home or ""),
    "reason": Column("REASON", lambda lease, _: lease.reason),
    "explanation": Column("EXPLANATION", lambda lease, _: lease.explanation),
    "site-reason": Column("SITE(REASON)", lambda lease, _: site_or_reason(lease)),
    "submitted": Column("SUBMITTED", _at(lambda lease: lease.submitted_at)),
    "ready": Column("READY", _at(lambda lease: lease.ready_at)),
    "deadline": Column("DEADLINE", _at(lambda lease: lease.deadline_at)),
    "start": Column("START", _at(lambda lease: lease.started_at or lease.planned_start_at)),
    "end": Column("END", _at(lambda lease: lease.ended_at or lease.ends_at)),
    "preemptions": Column("PREEMPTIONS", lambda lease, _: str(lease.preemptions), is_figure=True),
    "migrations": Column("MIGRATIONS", lambda lease, _: str(lease.migrations), is_figure=True),
    "domain": Column("DOMAIN", lambda lease, _: lease.domain),
    "coallocation": Column(
        "COALLOCATION", lambda lease, _: "" if lease.coallocation is None else str(lease.coallocation)
    ),
    "claims": Column("CLAIMS", lambda lease, _: show_claims(lease.claims)),
    "command": Column("COMMAND", lambda lease, _: " ".join(lease.command)),
}

USUAL = "id,name,type,consumer,st,time,vms,site-reason"


def read_columns(text: str) -> list[Column]:
    """Read which columns are wanted, with commas between; raises UnknownName."""
    names = [name.strip().lower() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in COLUMNS:
            raise UnknownName("--format", name, COLUMNS)
    return [COLUMNS[name] for name in names] or read_columns(USUAL)


def rows(leases: Sequence[Lease], columns: Sequence[Column], at: datetime) -> list[list[str]]:
    """Show leases as they are at this time."""
    return [[column.show(lease, at) for column in columns] for lease in leases]
