"""How usage and statements look."""

from collections.abc import Iterator
from datetime import UTC, datetime

from leasehold.cli.live.completion import WINDOWS
from leasehold.cli.live.moments import show_moment
from leasehold.client import Share, Statement, StatementLine, Usage, Use
from leasehold.model.agreement import MILLION
from leasehold.model.errors import InvalidField
from leasehold.sharing.wording import percent

HEADS = ["WINDOW", "CONSUMER", "DOMAIN", "WHO", "SLOT_SECONDS", "LEASES", "PEAK_VMS"]
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


def check_by(by: str) -> None:
    """Refuse what is no window; raises InvalidField."""
    if by and by not in WINDOWS:
        raise InvalidField("--by", by, f"one of {', '.join(WINDOWS)}")


def overview(used: Usage, by: str) -> list[list[str]]:
    """Show what was used, a line for each consumer, domain and window."""
    return [
        [
            _window(use, by),
            use.consumer,
            use.domain,
            "locals" if use.local else "guests",
            figure(use.slot_s),
            str(use.leases),
            str(use.peak_vms),
        ]
        for use in used.usage
    ]


def _window(use: Use, by: str) -> str:
    if by in _FORMS:
        return _in_utc(use.begin, _FORMS[by])
    return f"{show_moment(use.begin)} - {show_moment(use.end)}"


def _in_utc(moment: datetime, form: str) -> str:
    return f"{moment.astimezone(UTC):{form}}"


def figure(slot_s: float) -> str:
    """Write slot-seconds: whole, or with all three decimals."""
    return str(slot_s) if isinstance(slot_s, int) else f"{slot_s:.3f}"


def heading(statement: Statement) -> str:
    """Say what a statement is of."""
    begin, end = (_in_utc(moment, "%Y-%m-%d") for moment in (statement.begin, statement.end))
    return f"statement of {statement.consumer} for {statement.month} ({begin} to before {end}, UTC)"


def lines(statement: Statement) -> list[list[str]]:
    """Show a statement: a line for each virtual domain, or for each agreement there; and the sum."""
    return [row for line in statement.lines for row in _rows(line)]


def _rows(line: StatementLine) -> Iterator[list[str]]:
    first, *more = line.shares or (None,)
    yield [
        "all" if line.domain == _ALL else line.domain,
        *_share(first),
        figure(line.slot_s),
        percent(round(line.used_share * MILLION)),
        str(line.peak_vms),
        str(line.leases),
        str(len(line.penalties)),
    ]
    for share in more:
        yield ["", *_share(share), "", "", "", "", ""]


def _share(share: Share | None) -> list[str]:
    if share is None:
        return ["", "", "", ""]
    long_run, burst = (percent(round(part * MILLION)) for part in (share.share, share.burst_share))
    return [share.agreement, long_run, burst, figure(share.slot_s)]


def notes(statement: Statement) -> Iterator[str]:
    """Name the penalties of the month."""
    for penalty in statement.lines[-1].penalties if statement.lines else ():
        end = "" if penalty.until is None else f" until {show_moment(penalty.until)}"
        lifted = f", lifted by {penalty.lifted_by}" if penalty.lifted_at is not None else ""
        yield (
            f"penalty {penalty.id}: {penalty.agreement} was broken by lease {penalty.lease},"
            f" {show_moment(penalty.since)}{end}{lifted}"
        )
