"""``leasehold token``: who may do what at a gateway."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from leasehold.cli.live.gateway import gateway
from leasehold.cli.live.names import complete_role, complete_site
from leasehold.cli.live.table import answer_rows, columns_of, pick
from leasehold.cli.live.times import show_moment
from leasehold.cli.options import Json
from leasehold.cli.screen import answer, answer_json, talk

if TYPE_CHECKING:
    from leasehold.client import Caller, Token
    from leasehold.client.access import Access

app = typer.Typer(help="Create and revoke tokens.", no_args_is_help=True)


@app.command()
def create(  # noqa: PLR0917 - one argument for each option
    consumer: Annotated[
        str, typer.Argument(metavar="CONSUMER", help="Consumer that the token identifies.", show_default=False)
    ],
    roles: Annotated[
        list[str] | None,
        typer.Option(
            "--role",
            metavar="ROLE",
            help="member, group-manager, site-operator, federation-admin or peer; may be repeated.",
            autocompletion=complete_role,
            show_default="member",
        ),
    ] = None,
    groups: Annotated[
        list[str] | None,
        typer.Option("--group", metavar="NAME", help="A group of the consumer; may be repeated.", show_default=False),
    ] = None,
    sites: Annotated[
        list[str] | None,
        typer.Option(
            "--site",
            metavar="NAME",
            help="Home site of a member, or the operated site; may be repeated.",
            autocompletion=complete_site,
            show_default=False,
        ),
    ] = None,
    expires: Annotated[
        str,
        typer.Option(metavar="TIME", help="Lifetime, such as 30d or 12h.", show_default="unlimited"),
    ] = "",
    note: Annotated[str, typer.Option(metavar="TEXT", help="A note on its purpose.", show_default=False)] = "",
    json: Json = False,
) -> None:
    """Create a token and print it; it is never shown again."""
    from leasehold.client import TokenSpec
    from leasehold.configuration.times import read_duration_s

    spec = TokenSpec.of(
        consumer=consumer,
        roles=roles or ["member"],
        groups=groups,
        sites=sites,
        expires_in_s=read_duration_s("--expires", expires) if expires else None,
        note=note,
    )
    with gateway() as client:
        token = client.tokens.create(spec)
    if json:
        answer_json({"token": token})
    else:
        answer(token.token)
        talk(f"leasehold: {_summary(token)}; keep it safe, it is shown only now")


@app.command("list")
def list_tokens(json: Json = False) -> None:
    """List issued tokens, without their values."""
    from leasehold.client import Token

    with gateway() as client:
        tokens = client.tokens.list()
    answer_rows(
        "tokens",
        tokens,
        pick(columns_of(Token, {}), "id,consumer,roles,groups,sites,created,expires,revoked,note"),
        json=json,
    )


@app.command()
def revoke(
    token_ids: Annotated[list[str], typer.Argument(metavar="ID...", show_default=False)], json: Json = False
) -> None:
    """Revoke tokens."""
    with gateway() as client:
        for token_id in token_ids:
            client.tokens.revoke(token_id)
    if json:
        answer_json({"revoked": token_ids})
    else:
        answer("\n".join(f"token {token_id} is revoked" for token_id in token_ids))


@app.command()
def inspect(json: Json = False) -> None:
    """Show the caller's identity and permissions, and where its token was found."""
    with gateway() as client:
        caller, access = client.tokens.inspect(), client.access
    if json:
        answer_json({"caller": caller, "gateway": access.url, "from": access.token.origin})
    else:
        answer("\n".join(_introduction(caller, access)))


def _summary(token: "Token") -> str:
    """Say in one line whose token it is, and what for."""
    until = "" if token.expires_at is None else f"; until {show_moment(token.expires_at)}"
    return f"token {token.id} is for {_holder(token)}{until}"


def _introduction(caller: "Caller", access: "Access") -> Iterator[str]:
    """Say who is who at a gateway, what they may, and how that is known."""
    yield _holder(caller)
    for name, value in _facts(caller, access):
        yield f"  {name:<10}  {value}"


def _facts(caller: "Caller", access: "Access") -> Iterator[tuple[str, str]]:
    yield "gateway", access.url
    yield "token", f"{caller.token_id or 'of another issuer'}, from {access.token.origin}"
    for permission, scopes in (caller.permissions or {}).items():
        yield "may", f"{permission} ({', '.join(scopes)})"


def _holder(holder: "Caller | Token") -> str:
    groups = f", groups {', '.join(holder.groups)}" if holder.groups else ""
    sites = f", sites {', '.join(holder.sites)}" if holder.sites else ""
    return f"{holder.consumer} as {', '.join(holder.roles)}{groups}{sites}"
