"""``leasehold usage``: what was used, by whom and of what."""

from typing import Annotated

import typer

from leasehold.cli.live import times
from leasehold.cli.live.gateway import gateway
from leasehold.cli.live.names import complete_by, complete_site
from leasehold.cli.live.table import print_rows, print_table
from leasehold.cli.options import Json
from leasehold.cli.screen import answer, answer_json

app = typer.Typer(help="Show usage and statements.", no_args_is_help=True)


@app.command()
def show(  # noqa: PLR0917 - one argument for each option
    consumer: Annotated[
        str,
        typer.Option(metavar="PATH", help="Only this VO, group or user, such as atlas/production.", show_default=False),
    ] = "",
    domain: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Run only at this virtual domain or site.",
            autocompletion=complete_site,
            show_default=False,
        ),
    ] = "",
    since: Annotated[
        str,
        typer.Option(metavar="TIME", help="Begin of the period.", show_default="the begin of this month, in UTC"),
    ] = "",
    until: Annotated[str, typer.Option(metavar="TIME", help="End of the period, exclusive.", show_default="now")] = "",
    by: Annotated[
        str,
        typer.Option(
            metavar="WINDOW",
            help="Group by hour, day or month, in UTC.",
            autocompletion=complete_by,
            show_default="in all",
        ),
    ] = "",
    depth: Annotated[
        int, typer.Option(metavar="N", min=1, max=10, help="Depth of consumer paths: 1 for VOs, 2 for their groups.")
    ] = 1,
    json: Json = False,
) -> None:
    """Show usage by consumer and virtual domain in VM-seconds, exact to the millisecond."""
    from leasehold.cli.live.agreements import check_by, usage_columns
    from leasehold.client import UsageFilter

    at = times.now()
    check_by(by)
    which = UsageFilter.of(
        consumer=consumer,
        domain=domain,
        since=times.read_moment("--since", since, at) if since else None,
        until=times.read_moment("--until", until, at) if until else None,
        by=by,
        depth=depth,
    )
    with gateway() as client:
        used = client.usage.used(which)
    if json:
        answer_json({"usage": used})
    else:
        print_rows(usage_columns(by), used.usage)


@app.command()
def statement(
    month: Annotated[
        str, typer.Option(metavar="YYYY-MM", help="The month in UTC, such as 2026-10.", show_default=False)
    ],
    consumer: Annotated[str, typer.Option(metavar="PATH", help="The VO, or a group in it.", show_default=False)],
    json: Json = False,
) -> None:
    """Print a VO's statement for a month: agreed, used and penalised, by virtual domain."""
    from leasehold.cli.live.agreements import STATEMENT_HEADS, heading, lines, notes
    from leasehold.client import StatementQuery

    with gateway() as client:
        found = client.usage.statement(StatementQuery(month=month, consumer=consumer))
    if json:
        answer_json({"statement": found})
        return
    answer(heading(found))
    print_table(STATEMENT_HEADS, lines(found), figures=range(2, 10))
    for note in notes(found):
        answer(note)
