"""``leasehold agreement``: who lends what to whom, and on which terms."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from leasehold.cli.live.gateway import gateway
from leasehold.cli.live.names import complete_agreement, complete_side
from leasehold.cli.live.table import print_rows
from leasehold.cli.options import Json, complete_scenario, switch
from leasehold.cli.screen import answer, answer_json, talk

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
        showing_progress("playing what was asked, twice", quiet=quiet) as report,
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
    from leasehold.cli.live.agreements import agreement_columns

    with gateway() as client:
        agreements = client.agreements.list()
    shown = [one for one in agreements if everything or one.standing not in {"expired", "revoked"}]
    if json:
        answer_json({"agreements": shown})
    else:
        print_rows(agreement_columns(agreements), shown)


@app.command()
def show(name: Name, json: Json = False) -> None:
    """Show an agreement: terms, signatures, and amendments to sign."""
    from leasehold.cli.live.agreements import account, answer_agreement

    with gateway() as client:
        agreement = client.agreements.get(name)
    answer_agreement(agreement, account(agreement), json=json)


@app.command()
def propose(file: File, json: Json = False) -> None:
    """Propose the agreements of a file; each takes effect once both parties have signed it."""
    from leasehold.cli.live.agreements import advice, answer_agreements, read_terms

    terms = read_terms(file)
    with gateway() as client:
        proposed = [client.agreements.propose(one) for one in terms]
    answer_agreements(proposed, advice, json=json)


@app.command()
def amend(file: File, json: Json = False) -> None:
    """Propose new terms for the agreements of a file; the old ones hold until both parties have signed."""
    from leasehold.cli.live.agreements import advice, answer_agreements, read_terms

    terms = read_terms(file)
    with gateway() as client:
        amended = [client.agreements.amend(one) for one in terms]
    answer_agreements(amended, advice, json=json)


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
    from leasehold.cli.live.agreements import advice, answer_agreements, part_of

    with gateway() as client:
        terms = part_of(client.agreements.get(parent), name, consumer, share)
        proposed = client.agreements.propose(terms)
    answer_agreements([proposed], advice, json=json)


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
    from leasehold.cli.live.agreements import advice, answer_agreements, check_side, waiting_revision
    from leasehold.client import SignatureSpec
    from leasehold.sharing.records import AgreementSide

    check_side(side)
    with gateway() as client:
        number = waiting_revision(client.agreements.get(name)) if revision is None else revision
        signed = client.agreements.sign(name, SignatureSpec(side=AgreementSide(side), revision=number))
    answer_agreements([signed], advice, json=json)


@app.command()
def publish(
    name: Name,
    withdraw: Annotated[bool, switch("--withdraw", does="Make it visible to its parties only.")] = False,
    json: Json = False,
) -> None:
    """Make an agreement visible to everyone."""
    from leasehold.cli.live.agreements import answer_agreement

    with gateway() as client:
        published = client.agreements.publish(name, published=not withdraw)
    who = "everybody" if published.published else "only its parties"
    answer_agreement(published, [f"{name} can be seen by {who}"], json=json)


@app.command()
def suspend(name: Name, note: Note = "", json: Json = False) -> None:
    """Suspend an agreement; running leases stay."""
    from leasehold.cli.live.agreements import answer_agreement, standing

    with gateway() as client:
        suspended = client.agreements.suspend(name, note)
    answer_agreement(suspended, [standing(suspended)], json=json)


@app.command()
def resume(name: Name, json: Json = False) -> None:
    """Resume a suspended agreement."""
    from leasehold.cli.live.agreements import answer_agreement, standing

    with gateway() as client:
        resumed = client.agreements.resume(name)
    answer_agreement(resumed, [standing(resumed)], json=json)


@app.command()
def revoke(name: Name, note: Note = "", json: Json = False) -> None:
    """Revoke an agreement and its delegations; running leases stay until their own end."""
    from leasehold.cli.live.agreements import answer_agreement, standing

    with gateway() as client:
        allows = next((site.allows for site in client.sites.list() if site.allows), "")
        revoked = client.agreements.revoke(name, note)
    answer_agreement(revoked, [standing(revoked)], json=json)
    talk(f"leasehold: requests that waited under it are refused. {allows.partition('. ')[2]}".rstrip())


@app.command()
def penalties(
    everything: Annotated[bool, switch("--all", does="Include those that are over.")] = False,
    json: Json = False,
) -> None:
    """List penalties for breaking agreements, and their ends."""
    from leasehold.cli.live.agreements import PENALTIES

    with gateway() as client:
        shown = [one for one in client.agreements.penalties() if everything or one.stands]
    if json:
        answer_json({"penalties": shown})
    else:
        print_rows(PENALTIES, shown)


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
        answer(f"penalty {lifted.id} of {lifted.consumer} at {lifted.provider} stands no more")


@app.command()
def schema(json: Json = False) -> None:  # noqa: ARG001 - it is JSON in any case
    """Print the JSON schema of agreement files."""
    import json as json_

    from leasehold.configuration.agreements import agreement_schema

    answer(json_.dumps(agreement_schema(), indent=2))
