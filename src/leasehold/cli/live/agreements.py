"""How agreements look: in a line, and in full; what is still to be done; and how a file of them is read."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from leasehold.cli.live.completion import SIDES
from leasehold.cli.live.moments import show_moment
from leasehold.cli.screen import answer, answer_json, talk
from leasehold.client import Agreement, Penalty, Revision
from leasehold.configuration.agreements import agreement_from_dict, agreement_to_dict, read_agreements
from leasehold.configuration.keys import Keys
from leasehold.configuration.times import UNIX_TIME
from leasehold.configuration.toml import read_toml
from leasehold.model.agreement import MILLION
from leasehold.model.agreement import Agreement as Terms
from leasehold.model.errors import InvalidField
from leasehold.sharing.book import under
from leasehold.sharing.wording import percent, span

HEADS = ["NAME", "STANDING", "FORCE", "PROVIDER", "CONSUMER", "GIVES", "REV", "TO_SIGN"]
PENALTY_HEADS = ["ID", "AGREEMENT", "PROVIDER", "CONSUMER", "POINTS", "SINCE", "UNTIL", "LEASE", "NOTE"]

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


def overview(agreements: Iterable[Agreement], known: Iterable[Agreement]) -> list[list[str]]:
    """Show each agreement in a line; ``known`` are all that can be seen, parents among them."""
    by_name = {one.name: one for one in known}
    return [
        [
            one.name,
            one.standing,
            "yes" if one.in_force else "no",
            str(one.current.terms.get("provider", "")),
            str(one.current.terms.get("consumer", "")),
            _gives_beneath(one, by_name),
            str(one.current.revision),
            ", ".join(sides_to_sign(one.to_sign)),
        ]
        for one in agreements
    ]


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


def punishments(penalties: Iterable[Penalty]) -> list[list[str]]:
    """Show each penalty in a line."""
    return [
        [
            str(one.id),
            one.agreement,
            one.provider,
            one.consumer,
            str(one.points),
            show_moment(one.since),
            "it is lifted" if one.until is None else show_moment(one.until),
            str(one.lease),
            f"lifted by {one.lifted_by}" if one.lifted_at is not None else "",
        ]
        for one in penalties
    ]
