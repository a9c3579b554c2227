"""``leasehold usage``: what was used, by whom and of what."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from leasehold.cli.live import times
from leasehold.cli.live.gateway import gateway
from leasehold.cli.live.names import WINDOWS, complete_by, complete_site
from leasehold.cli.live.table import Column, columns_of, pick, print_rows, print_table
from leasehold.cli.live.times import show_moment
from leasehold.cli.options import Json
from leasehold.cli.screen import answer, answer_json
from leasehold.model.agreement import MILLION
from leasehold.model.errors import InvalidField
from leasehold.sharing.wording import percent

if TYPE_CHECKING:
    from leasehold.client import Balance, Share, Statement, StatementLine, Use

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
        typer.Option(metavar="TIME", help="Begin of the period.", show_default="the beginning of this month, in UTC"),
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
    from leasehold.client import UsageFilter

    at = times.now()
    _check_by(by)
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
        print_rows(_columns(by, has_gpus=any(use.gpu_s for use in used.usage)), used.usage)


@app.command()
def balance(
    since: Annotated[
        str,
        typer.Option(metavar="TIME", help="Begin of the period.", show_default="the beginning of this month, in UTC"),
    ] = "",
    until: Annotated[str, typer.Option(metavar="TIME", help="End of the period, exclusive.", show_default="now")] = "",
    json: Json = False,
) -> None:
    """Show who owes whom, in VM-seconds: for each pair, what one lent to the other, and what it got in return."""
    from leasehold.client import BalanceQuery

    at = times.now()
    which = BalanceQuery.of(
        since=times.read_moment("--since", since, at) if since else None,
        until=times.read_moment("--until", until, at) if until else None,
    )
    with gateway() as client:
        found = client.usage.balance(which)
    if json:
        answer_json({"balance": found})
    else:
        print_rows(_balance_columns(), found.balances)


def _balance_columns() -> "list[Column[Balance]]":
    from leasehold.client import Balance

    special: dict[str, Column[Balance]] = {
        "lent": Column("LENT", lambda one, _: _figure(one.lent_slot_s), is_figure=True),
        "returned": Column("IN_RETURN", lambda one, _: _figure(one.returned_slot_s), is_figure=True),
        "owed": Column("OWED", lambda one, _: _figure(one.owed_slot_s), is_figure=True),
    }
    return pick(columns_of(Balance, special), "debtor,creditor,lent,returned,owed")


@app.command()
def statement(
    month: Annotated[
        str, typer.Option(metavar="YYYY-MM", help="The month in UTC, such as 2026-10.", show_default=False)
    ],
    consumer: Annotated[str, typer.Option(metavar="PATH", help="The VO, or a group in it.", show_default=False)],
    json: Json = False,
) -> None:
    """Print a VO's statement for a month: agreed, used and penalised, by virtual domain."""
    from leasehold.client import StatementQuery

    with gateway() as client:
        found = client.usage.statement(StatementQuery(month=month, consumer=consumer))
    if json:
        answer_json({"statement": found})
        return
    answer(_heading(found))
    print_table(STATEMENT_HEADS, _lines(found), figures=range(2, 10))
    for note in _notes(found):
        answer(note)


STATEMENT_HEADS = [
    "DOMAIN",
    "AGREEMENT",
    "SHARE",
    "BURST",
    "AGREED_SLOT_S",
    "USED_SLOT_S",
    "USED",
    "PEAK_VMS",
    "LEASES",
    "PENALTIES",
]

_FORMS = {"hour": "%Y-%m-%dT%HZ", "day": "%Y-%m-%d", "month": "%Y-%m"}
_ALL = "*"


def _check_by(by: str) -> None:
    """Refuse an invalid window; raises InvalidField."""
    if by and by not in WINDOWS:
        raise InvalidField("--by", by, f"one of {', '.join(WINDOWS)}")


def _columns(by: str, *, has_gpus: bool) -> "list[Column[Use]]":
    """Say what is shown of each consumer, domain and window."""
    from leasehold.client import Use

    special: dict[str, Column[Use]] = {
        "window": Column("WINDOW", lambda use, _: _window(use, by)),
        "who": Column("WHO", lambda use, _: "locals" if use.local else "guests"),
        "slot": Column("SLOT_SECONDS", lambda use, _: _figure(use.slot_s), is_figure=True),
        "gpu": Column("GPU_SECONDS", lambda use, _: _figure(use.gpu_s or 0), is_figure=True),
    }
    gpus = "gpu," if has_gpus else ""
    shown = f"window,consumer,domain,who,slot,{gpus}leases,peak-vms"
    return pick(columns_of(Use, special), shown)


def _window(use: "Use", by: str) -> str:
    if by in _FORMS:
        return _in_utc(use.begin, _FORMS[by])
    return f"{show_moment(use.begin)} - {show_moment(use.end)}"


def _in_utc(moment: datetime, form: str) -> str:
    return f"{moment.astimezone(UTC):{form}}"


def _figure(slot_s: float) -> str:
    """Write slot-seconds: whole, or with all three decimals."""
    return str(slot_s) if isinstance(slot_s, int) else f"{slot_s:.3f}"


def _heading(statement: "Statement") -> str:
    """Say what a statement is of."""
    begin, end = (_in_utc(moment, "%Y-%m-%d") for moment in (statement.begin, statement.end))
    return f"statement of {statement.consumer} for {statement.month} ({begin} to before {end}, UTC)"


def _lines(statement: "Statement") -> list[list[str]]:
    """Show a statement: a line for each virtual domain, or for each agreement there; and the sum."""
    return [row for line in statement.lines for row in _rows(line)]


def _rows(line: "StatementLine") -> Iterator[list[str]]:
    first, *more = line.shares or (None,)
    yield [
        "all" if line.domain == _ALL else line.domain,
        *_share(first),
        _figure(line.slot_s),
        percent(round(line.used_share * MILLION)),
        str(line.peak_vms),
        str(line.leases),
        str(len(line.penalties)),
    ]
    for share in more:
        yield ["", *_share(share), "", "", "", "", ""]


def _share(share: "Share | None") -> list[str]:
    if share is None:
        return ["", "", "", ""]
    long_run, burst = (percent(round(part * MILLION)) for part in (share.share, share.burst_share))
    return [share.agreement, long_run, burst, _figure(share.slot_s)]


def _notes(statement: "Statement") -> Iterator[str]:
    """Say how many GPU-hours were used, and name the penalties of the month."""
    for line in statement.lines:
        if line.gpu_s:
            yield f"GPUs of {'all' if line.domain == _ALL else line.domain}: {line.gpu_s / 3_600:.2f} GPU-hours"
    for penalty in statement.lines[-1].penalties if statement.lines else ():
        end = "" if penalty.until is None else f" until {show_moment(penalty.until)}"
        lifted = f", lifted by {penalty.lifted_by}" if penalty.lifted_at is not None else ""
        yield (
            f"penalty {penalty.id}: {penalty.agreement} was broken by lease {penalty.lease},"
            f" {show_moment(penalty.since)}{end}{lifted}"
        )
