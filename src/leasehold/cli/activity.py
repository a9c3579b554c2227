"""``leasehold lease queue``, ``decisions`` and ``timeline``: what goes on across leases."""

from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from leasehold.cli.live import times
from leasehold.cli.live.gateway import gateway
from leasehold.cli.live.names import complete_site, complete_type
from leasehold.cli.live.table import Column, columns_of, pick, print_rows
from leasehold.cli.live.times import show_duration, show_moment
from leasehold.cli.options import Json, switch
from leasehold.cli.screen import answer, answer_json, talk

if TYPE_CHECKING:
    from leasehold.client import Change, Held, QueueGroup, TimelinePreemption

Site = Annotated[
    str, typer.Option(metavar="NAME", help="Only at this site.", autocompletion=complete_site, show_default=False)
]
Consumer = Annotated[str, typer.Option(metavar="NAME", help="Only of this consumer.", show_default=False)]
Reason = Annotated[
    str, typer.Option(metavar="REASON", help="Only for this reason, such as room-in-use.", show_default=False)
]
Limit = Annotated[int, typer.Option("--limit", "-n", metavar="N", help="At most so many; 0 for all.", min=0)]


def queue(  # noqa: PLR0917 - one argument for each option
    consumer: Consumer = "",
    type_: Annotated[
        str,
        typer.Option(
            "--type", metavar="TYPE", help="Only of this type.", autocompletion=complete_type, show_default=False
        ),
    ] = "",
    reason: Reason = "",
    site: Site = "",
    leases: Annotated[bool, switch("--leases", "-l", does="List the leases, oldest first, instead of groups.")] = False,
    limit: Limit = 200,
    json: Json = False,
) -> None:
    """Show what waits, in groups: by consumer, type and reason, with the oldest and the next planned start."""
    from leasehold.cli.live.leases import answer_leases, read_columns
    from leasehold.client import QueuedLeasesFilter, QueueFilter

    chosen = {"consumer": consumer, "type": type_, "reason": reason, "site": site}
    with gateway() as client:
        if leases:
            answer_leases(client.activity.queued(QueuedLeasesFilter.of(**chosen)), read_columns(""), limit, json=json)
            return
        found = client.activity.queue(QueueFilter.of(**chosen))
    if json:
        answer_json({"queue": found})
    else:
        print_rows(_group_columns(), found.groups[: limit or None])


def _group_columns() -> "list[Column[QueueGroup]]":
    from leasehold.client import QueueGroup

    special: dict[str, Column[QueueGroup]] = {
        "type": Column("TYPE", lambda group, _: "own users" if group.local else group.type),
        "oldest": Column(
            "WAITS", lambda group, at: show_duration((at - group.oldest_at).total_seconds()), is_figure=True
        ),
        "sites": Column("SITES", lambda group, _: ",".join(group.sites) or "gateway"),
        "next-start": Column(
            "NEXT_START", lambda group, _: show_moment(group.next_start_at) if group.next_start_at else ""
        ),
        "reason": Column("REASON", lambda group, _: group.reason or group.state),
    }
    return pick(columns_of(QueueGroup, special), "consumer,type,leases,vms,oldest,next-start,reason,sites")


def decisions(  # noqa: PLR0917 - one argument for each option
    what: Annotated[
        str,
        typer.Option(
            metavar="WHAT", help="Only decisions of this kind: start, preempt, closed, ...", show_default=False
        ),
    ] = "",
    reason: Reason = "",
    site: Site = "",
    consumer: Consumer = "",
    lease: Annotated[
        int | None, typer.Option(metavar="ID", min=0, help="Only about this lease.", show_default=False)
    ] = None,
    limit: Limit = 50,
    json: Json = False,
) -> None:
    """Show what was decided, latest first, each with its reason."""
    from leasehold.client import DecisionFilter

    which = DecisionFilter.of(what=what, reason=reason, site=site, consumer=consumer, lease=lease)
    with gateway() as client:
        found = list(islice(client.activity.decisions(which), limit + 1 if limit else None))
    shown = found[:limit] if limit else found
    if json:
        answer_json({"decisions": shown, "more": len(found) > len(shown)})
    else:
        print_rows(_decision_columns(), shown)


def _decision_columns() -> "list[Column[Change]]":
    from leasehold.client import Change

    special: dict[str, Column[Change]] = {
        "id": Column("ID", lambda change, _: "" if change.lease is None else str(change.lease), is_figure=True),
        "at": Column("TIME", lambda change, _: show_moment(change.at)),
        "explanation": Column(
            "WHY", lambda change, _: f"{change.explanation} ({change.reason})" if change.reason else ""
        ),
    }
    return pick(columns_of(Change, special), "at,what,id,consumer,site,state,explanation")


def timeline(
    since: Annotated[str, typer.Option(metavar="TIME", help="Begin.", show_default="an hour before the end")] = "",
    until: Annotated[str, typer.Option(metavar="TIME", help="End.", show_default="now")] = "",
    site: Site = "",
    json: Json = False,
) -> None:
    """Show what leases held at each site between two moments, and who took room from whom."""
    from leasehold.client import TimelineFilter

    at = times.now()
    which = TimelineFilter.of(
        since=times.read_moment("--since", since, at) if since else None,
        until=times.read_moment("--until", until, at) if until else None,
        site=site,
    )
    with gateway() as client:
        found = client.activity.timeline(which)
    if json:
        answer_json({"timeline": found})
        return
    print_rows(_held_columns(), sorted(found.held, key=lambda held: held.site))
    for one in found.preemptions:
        answer(_taken(one))
    if found.more:
        talk(f"leasehold: more was held than these {len(found.held)}; a shorter time, or --site, shows all")


def _held_columns() -> "list[Column[Held]]":
    from leasehold.client import Held

    special: dict[str, Column[Held]] = {
        "lease": Column("ID", lambda held, _: str(held.lease), is_figure=True),
        "type": Column("TYPE", lambda held, _: "own users" if held.local else held.type),
        "end": Column("END", lambda held, _: show_moment(held.end) if held.end else "now"),
    }
    return pick(columns_of(Held, special), "site,lease,consumer,type,vms,begin,end")


def _taken(one: "TimelinePreemption") -> str:
    gave = ", ".join(map(str, one.leases))
    return f"{show_moment(one.at)}  {one.site}: {one.for_lease} took room from {gave}"
