"""What can be asked of a gateway about agreements and usage."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypedDict
from urllib.parse import quote

from leasehold.client.calls import insist_on_zones
from leasehold.client.question import Call, all_of, one
from leasehold.client.reading import wire
from leasehold.client.sharing_records import Penalty, Statement, Usage, UsageAgreement

_AGREEMENTS = "/v1/agreements"


class WhichUse(TypedDict, total=False):
    """Which use: that of everybody who is visible since the begin of this month, without any of these.

    ``consumer``      a path: a VO, a group in it, a user
    ``domain``        a virtual domain, or a site
    ``since, until``  moments with their zone
    ``by``            in windows: total, hour, day or month
    ``depth``         how deep paths are told apart: 1 for VOs
    """

    consumer: str
    domain: str
    since: datetime | None
    until: datetime | None
    by: str
    depth: int


def agreements() -> Call[tuple[UsageAgreement, ...]]:
    """Ask for all that may be seen."""
    return Call("GET", _AGREEMENTS, all_of("agreements", UsageAgreement))


def agreement(name: str) -> Call[UsageAgreement]:
    """Ask for one."""
    return Call("GET", _path(name), one(UsageAgreement))


def propose(terms: Mapping[str, Any]) -> Call[UsageAgreement]:
    """Draw one up; the same again changes nothing."""
    return Call("POST", _AGREEMENTS, one(UsageAgreement), body=terms)


def amend(terms: Mapping[str, Any]) -> Call[UsageAgreement]:
    """Draw up other terms for one; the same again changes nothing."""
    return Call("PUT", _path(str(terms.get("name", ""))), one(UsageAgreement), body=terms)


def sign(name: str, side: str, revision: int) -> Call[UsageAgreement]:
    """Sign a revision for one side."""
    return _move(name, "sign", {"side": side, "revision": revision})


def publish(name: str, *, published: bool) -> Call[UsageAgreement]:
    """Let everybody see one, or only its parties."""
    return _move(name, "publish", {"published": published})


def suspend(name: str, note: str) -> Call[UsageAgreement]:
    """Put one out of force for a while."""
    return _move(name, "suspend", {"note": note})


def resume(name: str) -> Call[UsageAgreement]:
    """Put one in force again."""
    return _move(name, "resume", None)


def revoke(name: str, note: str) -> Call[UsageAgreement]:
    """End one."""
    return _move(name, "revoke", {"note": note})


def penalties() -> Call[tuple[Penalty, ...]]:
    """Ask who is punished, or was."""
    return Call("GET", "/v1/penalties", all_of("penalties", Penalty))


def lift(penalty_id: int) -> Call[Penalty]:
    """Let a punishment end now."""
    return Call("POST", f"/v1/penalties/{penalty_id}/lift", one(Penalty))


def usage(which: WhichUse) -> Call[Usage]:
    """Ask what was used; raises InvalidField for a time without its zone."""
    insist_on_zones(since=which.get("since"), until=which.get("until"))
    words = tuple((name, str(wire(value))) for name, value in which.items() if value)
    return Call("GET", "/v1/usage", one(Usage), query=words)


def statement(month: str, consumer: str) -> Call[Statement]:
    """Ask for the statement of a consumer for a month such as 2026-10."""
    words = (("month", month), ("consumer", consumer))
    return Call("GET", "/v1/usage/statement", one(Statement), query=words)


def _move(name: str, move: str, body: Mapping[str, Any] | None) -> Call[UsageAgreement]:
    return Call("POST", f"{_path(name)}/{move}", one(UsageAgreement), body=body)


def _path(name: str) -> str:
    return f"{_AGREEMENTS}/{quote(name, safe='')}"
