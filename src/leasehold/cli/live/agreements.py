"""Agreements, penalties and usage: in a line each, and in full; how a file of agreements is read."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from leasehold.cli.live.names import SIDES, WINDOWS
from leasehold.cli.live.table import Column, cell, columns_of, pick
from leasehold.cli.live.times import show_moment
from leasehold.cli.screen import answer, answer_json, talk
from leasehold.client import Agreement, Penalty, Revision, Share, Statement, StatementLine, Use
from leasehold.configuration.agreements import agreement_from_dict, agreement_to_dict, read_agreements
from leasehold.configuration.keys import Keys
from leasehold.configuration.times import UNIX_TIME
from leasehold.configuration.toml import read_toml
from leasehold.model.agreement import MILLION
from leasehold.model.agreement import Agreement as Terms
from leasehold.model.errors import InvalidField
from leasehold.sharing.book import under
from leasehold.sharing.wording import percent, span

# Reading


def read_terms(path: Path) -> list[dict[str, Any]]:
    """Read the agreements of a file, as a gateway is told of them; raises InputError with file and line."""
    file = read_toml(path)
    with file.naming_lines():
        keys = Keys(file.values)
        agreements = read_agreements(keys, UNIX_TIME)
        keys.done()
        if not agreements:
            raise InvalidField("agreement", None, "at least one [[agreement]]")
    return [agreement_to_dict(agreement) for agreement in agreements]


def part_of(parent: Agreement, name: str, consumer: str, share: float) -> dict[str, Any]:
    """Give the terms of an agreement that passes a part of another one on, on the same terms otherwise."""
    left_out = {"priority", "lending_limit", "relative", "parent"}
    terms = {key: value for key, value in parent.current.terms.items() if key not in left_out}
    parts = {key: share for key in terms if key in {"share", "epoch_share", "burst_share"}}
    if not parts:
        expected = "an agreement with a limit, of which a part can be passed on"
        raise InvalidField("PARENT", parent.name, expected)
    return {**terms, **parts, "name": name, "consumer": consumer, "parent": parent.name, "relative": True}


def check_side(side: str) -> None:
    """Refuse what is no side; raises InvalidField."""
    if side not in SIDES:
        raise InvalidField("--as", side, f"one of {', '.join(SIDES)}")


def waiting_revision(agreement: Agreement) -> int:
    """Give the number of the revision that waits for signatures; without one, of the one that holds."""
    return (agreement.to_sign or agreement.current).revision


# Answering


def answer_agreements(
    agreements: Sequence[Agreement],
    say: Callable[[Agreement], Iterable[str]],
    *,
    json: bool,
) -> None:
    """Answer with how agreements stand, and say beside it what is still to be done."""
    if json:
        answer_json({"agreements": agreements})
        return
    for agreement in agreements:
        answer(standing(agreement))
        for line in say(agreement):
            talk(f"leasehold: {line}")


def answer_agreement(agreement: Agreement, lines: Iterable[str], *, json: bool) -> None:
    """Answer with one agreement, in these lines."""
    if json:
        answer_json({"agreement": agreement})
    else:
        answer("\n".join(lines))


def agreement_columns(known: Iterable[Agreement]) -> list[Column[Agreement]]:
    """Say what a list shows of each agreement; ``known`` are all that can be seen, parents among them."""
    by_name = {one.name: one for one in known}
    special: dict[str, Column[Agreement]] = {
        "force": Column("FORCE", lambda one, _: cell(one.in_force)),
        "provider": Column("PROVIDER", lambda one, _: str(one.current.terms.get("provider", ""))),
        "consumer": Column("CONSUMER", lambda one, _: str(one.current.terms.get("consumer", ""))),
        "gives": Column("GIVES", lambda one, _: _gives_beneath(one, by_name)),
        "rev": Column("REV", lambda one, _: str(one.current.revision), is_figure=True),
        "to-sign": Column("TO_SIGN", lambda one, _: ", ".join(sides_to_sign(one.to_sign))),
    }
    return pick(columns_of(Agreement, special), "name,standing,force,provider,consumer,gives,rev,to-sign")


PENALTIES = pick(
    columns_of(
        Penalty,
        {
            "until": Column("UNTIL", lambda one, _: cell(one.until) or "it is lifted"),
            "note": Column("NOTE", lambda one, _: f"lifted by {one.lifted_by}" if one.lifted_at is not None else ""),
        },
    ),
    "id,agreement,provider,consumer,points,since,until,lease,note",
)


def standing(agreement: Agreement) -> str:
    """Say in a line how an agreement stands."""
    held = "in force" if agreement.in_force else "not in force"
    note = f": {agreement.note}" if agreement.note else ""
    return f"{agreement.name} (revision {agreement.current.revision}) is {agreement.standing}, {held}{note}"


def advice(agreement: Agreement) -> Iterator[str]:
    """Say what is still to be done before it holds, or holds on other terms."""
    waiting = agreement.to_sign
    for side in sides_to_sign(waiting):
        assert waiting is not None
        words = f"leasehold agreement sign {agreement.name} --as {side} --revision {waiting.revision}"
        yield f"the {side} has to sign revision {waiting.revision}: {words}"


def sides_to_sign(revision: Revision | None) -> list[str]:
    """Name who has not signed yet what waits for signatures."""
    if revision is None:
        return []
    signed = {"provider": revision.provider, "consumer": revision.consumer}
    return [side for side, signature in signed.items() if signature is None]


def account(agreement: Agreement) -> Iterator[str]:
    """Tell all that is known of an agreement, line by line."""
    yield standing(agreement)
    by = f" by {agreement.since_by}" if agreement.since_by else ""
    yield f"  since       {show_moment(agreement.since)}{by}"
    yield f"  seen by     {'everybody' if agreement.published else 'its parties'}"
    yield from _revision("terms", agreement.current)
    if agreement.amendment is not None:
        yield from _revision("amendment", agreement.amendment)


def _revision(name: str, revision: Revision) -> Iterator[str]:
    yield f"  {name:<10}  revision {revision.revision}, {gives(revision.terms)}"
    for key, value in revision.terms.items():
        if key != "name":
            yield f"  {'':<10}  {key} = {value}"
    yield f"  {'':<10}  drawn up by {revision.drawn_up.by}, {show_moment(revision.drawn_up.at)}"
    for side, signed in (("provider", revision.provider), ("consumer", revision.consumer)):
        told = "not signed yet" if signed is None else f"signed by {signed.by}, {show_moment(signed.at)}"
        yield f"  {'':<10}  for the {side}: {told}"


def _gives_beneath(agreement: Agreement, known: Mapping[str, Agreement]) -> str:
    """Say how much an agreement gives beneath its parents; where those are not seen, which part of theirs."""
    terms = agreement.current.terms
    parent = terms.get("parent", "")
    if parent in known:
        return gives(agreement_to_dict(_effective(agreement, known)))
    return f"{gives(terms)} of {parent}" if terms.get("relative") else gives(terms)


def _effective(agreement: Agreement, known: Mapping[str, Agreement]) -> Terms:
    own, parent = agreement_from_dict(agreement.current.terms), agreement.current.terms.get("parent", "")
    return under(own, _effective(known[parent], known)) if parent in known else own


def gives(terms: Mapping[str, Any]) -> str:
    """Say in a few words how much an agreement gives."""
    most = f", at most {terms['lending_limit']}" if "lending_limit" in terms else ""
    what = "" if "resource" not in terms else f" of {terms['resource']}"
    return f"{_limit(terms)}{what}{most}"


def _limit(terms: Mapping[str, Any]) -> str:
    if "epoch_share" in terms:
        epoch = f"{_part(terms['epoch_share'])}/{_time(terms['epoch_s'])}"
        return f"{epoch} and {_part(terms['burst_share'])}/{_time(terms['burst_s'])}"
    if "share" in terms:
        return f"{_part(terms['share'])} decayed/{_time(terms['window_s'])}"
    return "no limit"


def _part(share: float) -> str:
    return percent(round(share * MILLION))


def _time(seconds: float) -> str:
    return span(round(seconds * 1000))


# Usage and statements


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


def usage_columns(by: str) -> list[Column[Use]]:
    """Say what is shown of each consumer, domain and window."""
    special: dict[str, Column[Use]] = {
        "window": Column("WINDOW", lambda use, _: _window(use, by)),
        "who": Column("WHO", lambda use, _: "locals" if use.local else "guests"),
        "slot": Column("SLOT_SECONDS", lambda use, _: figure(use.slot_s), is_figure=True),
    }
    return pick(columns_of(Use, special), "window,consumer,domain,who,slot,leases,peak-vms")


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
