"""``leasehold agreement``: who lends what to whom, and on which terms."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leasehold.cli.live.gateway import gateway
from leasehold.cli.live.names import SIDES, complete_agreement, complete_side
from leasehold.cli.live.table import Column, answer_rows, cell, columns_of, pick
from leasehold.cli.live.times import show_moment
from leasehold.cli.options import Json, complete_scenario, switch
from leasehold.cli.screen import answer, answer_json, talk
from leasehold.model.agreement import MILLION
from leasehold.model.errors import InvalidField
from leasehold.sharing.wording import percent, span

if TYPE_CHECKING:
    from leasehold.client import Agreement, Penalty, Revision
    from leasehold.model.agreement import Agreement as Terms

app = typer.Typer(help="Manage agreements between providers and consumers.", no_args_is_help=True)

LIVE = "live"

Name = Annotated[str, typer.Argument(metavar="NAME", autocompletion=complete_agreement, show_default=False)]
File = Annotated[Path, typer.Argument(metavar="FILE", help="TOML file of agreements.", show_default=False)]
Note = Annotated[str, typer.Option(metavar="TEXT", help="Note for other users.", show_default=False)]


@app.command("try")
def try_agreement(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="TOML file of agreements.", show_default=False)],
    on: Annotated[
        str,
        typer.Option(
            metavar="RUN|live",
            help="A run folder, a scenario, or live: the gateway's recent requests.",
            autocompletion=complete_scenario,
            show_default=False,
        ),
    ],
    days: Annotated[float, typer.Option(metavar="N", help="With live: days to look back.", min=0.01)] = 7.0,
    json: Json = False,
) -> None:
    """Replay requests without and with these agreements, and show the difference for every consumer."""
    from leasehold.cli.agreement_try import as_json, checked_document, past_of_gateway, past_of_run, show_trial
    from leasehold.cli.running import minding_ctrl_c, showing_progress
    from leasehold.simulation.run import RunProgress
    from leasehold.simulation.what_if import try_out

    past = past_of_gateway(days) if on == LIVE else past_of_run(on)
    document = checked_document(file, past)
    quiet = not sys.stderr.isatty()
    with (
        minding_ctrl_c() as interruption,
        showing_progress("replaying the requests, twice", quiet=quiet) as report,
    ):

        def passing(progress: RunProgress) -> None:
            interruption.check()
            report(progress)

        trial = try_out(past, document, passing)
    if json:
        answer_json({"file": str(file), "on": on, **as_json(trial)})
    else:
        show_trial(trial)


@app.command("list")
def list_agreements(
    everything: Annotated[bool, switch("--all", does="Include expired and revoked ones.")] = False,
    json: Json = False,
) -> None:
    """List published agreements, and those of your own groups and sites."""
    with gateway() as client:
        agreements = client.agreements.list()
    shown = [one for one in agreements if everything or one.standing not in {"expired", "revoked"}]
    answer_rows("agreements", shown, _columns(agreements), json=json)


@app.command()
def show(name: Name, json: Json = False) -> None:
    """Show an agreement: terms, signatures, and amendments to sign."""
    with gateway() as client:
        agreement = client.agreements.get(name)
    _answer_one(agreement, _account(agreement), json=json)


@app.command()
def propose(file: File, json: Json = False) -> None:
    """Propose the agreements of a file; each takes effect once both parties have signed it."""
    terms = _read_terms(file)
    with gateway() as client:
        proposed = [client.agreements.propose(one) for one in terms]
    _answer_all(proposed, _advice, json=json)


@app.command()
def amend(file: File, json: Json = False) -> None:
    """Propose new terms for the agreements of a file; the old ones hold until both parties have signed."""
    terms = _read_terms(file)
    with gateway() as client:
        amended = [client.agreements.amend(one) for one in terms]
    _answer_all(amended, _advice, json=json)


@app.command()
def delegate(
    parent: Annotated[
        str,
        typer.Argument(
            metavar="PARENT",
            help="The agreement to delegate from.",
            autocompletion=complete_agreement,
            show_default=False,
        ),
    ],
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="Name of the new agreement.", show_default=False)],
    consumer: Annotated[
        str,
        typer.Option("--to", metavar="PATH", help="Its consumer, such as atlas/production.", show_default=False),
    ],
    share: Annotated[
        float,
        typer.Option(metavar="PART", min=0, max=1, help="Part of the parent's share, from 0 to 1."),
    ],
    json: Json = False,
) -> None:
    """Propose an agreement that delegates part of another; both parties must sign it."""
    with gateway() as client:
        terms = _delegated_terms(client.agreements.get(parent), name, consumer, share)
        proposed = client.agreements.propose(terms)
    _answer_all([proposed], _advice, json=json)


@app.command()
def sign(
    name: Name,
    side: Annotated[
        str,
        typer.Option(
            "--as",
            metavar="SIDE",
            help="Sign as provider or consumer.",
            autocompletion=complete_side,
            show_default=False,
        ),
    ],
    revision: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Revision to sign; default: the pending one.",
            show_default="the one that waits to be signed",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Sign an agreement, or its amendment, for one of its parties."""
    from leasehold.client import SignatureSpec
    from leasehold.sharing.records import AgreementSide

    _check_side(side)
    with gateway() as client:
        number = _waiting_revision(client.agreements.get(name)) if revision is None else revision
        signed = client.agreements.sign(name, SignatureSpec(side=AgreementSide(side), revision=number))
    _answer_all([signed], _advice, json=json)


@app.command()
def publish(
    name: Name,
    withdraw: Annotated[bool, switch("--withdraw", does="Make it visible to its parties only.")] = False,
    json: Json = False,
) -> None:
    """Make an agreement visible to everyone."""
    with gateway() as client:
        published = client.agreements.publish(name, published=not withdraw)
    readers = "everybody" if published.published else "only its parties"
    _answer_one(published, [f"{name} can be seen by {readers}"], json=json)


@app.command()
def suspend(name: Name, note: Note = "", json: Json = False) -> None:
    """Suspend an agreement; running leases stay."""
    with gateway() as client:
        suspended = client.agreements.suspend(name, note)
    _answer_one(suspended, [_standing(suspended)], json=json)


@app.command()
def resume(name: Name, json: Json = False) -> None:
    """Resume a suspended agreement."""
    with gateway() as client:
        resumed = client.agreements.resume(name)
    _answer_one(resumed, [_standing(resumed)], json=json)


@app.command()
def revoke(name: Name, note: Note = "", json: Json = False) -> None:
    """Revoke an agreement and its delegations; running leases stay until their own end."""
    with gateway() as client:
        allows = next((site.allows for site in client.sites.list() if site.allows), "")
        revoked = client.agreements.revoke(name, note)
    _answer_one(revoked, [_standing(revoked)], json=json)
    talk(f"leasehold: requests that waited under it are refused. {allows.partition('. ')[2]}".rstrip())


@app.command()
def penalties(
    everything: Annotated[bool, switch("--all", does="Include those that have ended.")] = False,
    json: Json = False,
) -> None:
    """List penalties for breaking agreements, and their ends."""
    with gateway() as client:
        shown = [one for one in client.agreements.penalties() if everything or one.stands]
    answer_rows("penalties", shown, _penalty_columns(), json=json)


@app.command()
def lift(
    penalty_id: Annotated[int, typer.Argument(metavar="ID", min=0, show_default=False)],
    json: Json = False,
) -> None:
    """Lift a penalty before its end."""
    with gateway() as client:
        lifted = client.agreements.lift(penalty_id)
    if json:
        answer_json({"penalty": lifted})
    else:
        answer(f"penalty {lifted.id} of {lifted.consumer} at {lifted.provider} is lifted")


@app.command()
def schema(json: Json = False) -> None:  # noqa: ARG001 - it is JSON in any case
    """Print the JSON schema of agreement files."""
    import json as json_

    from leasehold.configuration.agreements import agreement_schema

    answer(json_.dumps(agreement_schema(), indent=2))


def _read_terms(path: Path) -> list[dict[str, Any]]:
    """Read the agreements of a file, in the form that a gateway takes; raises InputError with file and line."""
    from leasehold.configuration.agreements import agreement_to_dict, read_agreements
    from leasehold.configuration.keys import Keys
    from leasehold.configuration.times import UNIX_TIME
    from leasehold.configuration.toml import read_toml

    file = read_toml(path)
    with file.naming_lines():
        keys = Keys(file.values)
        agreements = read_agreements(keys, UNIX_TIME)
        keys.done()
        if not agreements:
            raise InvalidField("agreement", None, "at least one [[agreement]]")
    return [agreement_to_dict(agreement) for agreement in agreements]


def _delegated_terms(parent: "Agreement", name: str, consumer: str, share: float) -> dict[str, Any]:
    """Give the terms of an agreement that passes a part of another one on, on the same terms otherwise."""
    left_out = {"priority", "lending_limit", "relative", "parent"}
    terms = {key: value for key, value in parent.current.terms.items() if key not in left_out}
    parts = {key: share for key in terms if key in {"share", "epoch_share", "burst_share"}}
    if not parts:
        expected = "an agreement with a limit, of which a part can be passed on"
        raise InvalidField("PARENT", parent.name, expected)
    return {**terms, **parts, "name": name, "consumer": consumer, "parent": parent.name, "relative": True}


def _check_side(side: str) -> None:
    """Refuse an unknown side; raises InvalidField."""
    if side not in SIDES:
        raise InvalidField("--as", side, f"one of {', '.join(SIDES)}")


def _waiting_revision(agreement: "Agreement") -> int:
    """Give the number of the revision that waits for signatures; without one, of the one that holds."""
    return (agreement.to_sign or agreement.current).revision


def _answer_all(
    agreements: "Sequence[Agreement]",
    say: "Callable[[Agreement], Iterable[str]]",
    *,
    json: bool,
) -> None:
    """Answer with how agreements stand, and say beside it what is still to be done."""
    if json:
        answer_json({"agreements": agreements})
        return
    for agreement in agreements:
        answer(_standing(agreement))
        for line in say(agreement):
            talk(f"leasehold: {line}")


def _answer_one(agreement: "Agreement", lines: Iterable[str], *, json: bool) -> None:
    """Answer with one agreement, in these lines."""
    if json:
        answer_json({"agreement": agreement})
    else:
        answer("\n".join(lines))


def _columns(known: "Iterable[Agreement]") -> "list[Column[Agreement]]":
    """Say what a list shows of each agreement; ``known`` are all that can be seen, parents among them."""
    from leasehold.client import Agreement

    by_name = {one.name: one for one in known}
    special: dict[str, Column[Agreement]] = {
        "force": Column("FORCE", lambda one, _: cell(one.in_force)),
        "provider": Column("PROVIDER", lambda one, _: str(one.current.terms.get("provider", ""))),
        "consumer": Column("CONSUMER", lambda one, _: str(one.current.terms.get("consumer", ""))),
        "gives": Column("GIVES", lambda one, _: _gives_beneath(one, by_name)),
        "rev": Column("REV", lambda one, _: str(one.current.revision), is_figure=True),
        "to-sign": Column("TO_SIGN", lambda one, _: ", ".join(_unsigned_sides(one.to_sign))),
    }
    return pick(columns_of(Agreement, special), "name,standing,force,provider,consumer,gives,rev,to-sign")


def _penalty_columns() -> "list[Column[Penalty]]":
    """Give the columns of a list of penalties."""
    from leasehold.client import Penalty

    return pick(
        columns_of(
            Penalty,
            {
                "until": Column("UNTIL", lambda one, _: cell(one.until) or "it is lifted"),
                "note": Column("NOTE", lambda one, _: "" if one.lifted_at is None else f"lifted by {one.lifted_by}"),
            },
        ),
        "id,agreement,provider,consumer,points,since,until,lease,note",
    )


def _standing(agreement: "Agreement") -> str:
    """Say in a line how an agreement stands."""
    held = "in force" if agreement.in_force else "not in force"
    note = f": {agreement.note}" if agreement.note else ""
    return f"{agreement.name} (revision {agreement.current.revision}) is {agreement.standing}, {held}{note}"


def _advice(agreement: "Agreement") -> Iterator[str]:
    """Say what is still to be done before it holds, or holds on other terms."""
    waiting = agreement.to_sign
    for side in _unsigned_sides(waiting):
        assert waiting is not None
        words = f"leasehold agreement sign {agreement.name} --as {side} --revision {waiting.revision}"
        yield f"the {side} has to sign revision {waiting.revision}: {words}"


def _unsigned_sides(revision: "Revision | None") -> list[str]:
    """Name who has not signed yet what waits for signatures."""
    if revision is None:
        return []
    signed = {"provider": revision.provider, "consumer": revision.consumer}
    return [side for side, signature in signed.items() if signature is None]


def _account(agreement: "Agreement") -> Iterator[str]:
    """Tell all that is known of an agreement, line by line."""
    yield _standing(agreement)
    by = f" by {agreement.since_by}" if agreement.since_by else ""
    yield f"  since       {show_moment(agreement.since)}{by}"
    yield f"  seen by     {'everybody' if agreement.published else 'its parties'}"
    yield from _revision("terms", agreement.current)
    if agreement.amendment is not None:
        yield from _revision("amendment", agreement.amendment)


def _revision(name: str, revision: "Revision") -> Iterator[str]:
    yield f"  {name:<10}  revision {revision.revision}, {_gives(revision.terms)}"
    for key, value in revision.terms.items():
        if key != "name":
            yield f"  {'':<10}  {key} = {value}"
    yield f"  {'':<10}  drawn up by {revision.drawn_up.by}, {show_moment(revision.drawn_up.at)}"
    for side, signed in (("provider", revision.provider), ("consumer", revision.consumer)):
        signature = "not signed yet" if signed is None else f"signed by {signed.by}, {show_moment(signed.at)}"
        yield f"  {'':<10}  for the {side}: {signature}"


def _gives_beneath(agreement: "Agreement", known: "Mapping[str, Agreement]") -> str:
    """Say how much an agreement gives beneath its parents; where those are not seen, which part of theirs."""
    from leasehold.configuration.agreements import agreement_to_dict

    terms = agreement.current.terms
    parent = terms.get("parent", "")
    if parent in known:
        return _gives(agreement_to_dict(_effective(agreement, known)))
    return f"{_gives(terms)} of {parent}" if terms.get("relative") else _gives(terms)


def _effective(agreement: "Agreement", known: "Mapping[str, Agreement]") -> "Terms":
    from leasehold.configuration.agreements import agreement_from_dict
    from leasehold.sharing.book import under

    own, parent = agreement_from_dict(agreement.current.terms), agreement.current.terms.get("parent", "")
    return under(own, _effective(known[parent], known)) if parent in known else own


def _gives(terms: Mapping[str, Any]) -> str:
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
