"""``leasehold peer``: the gateways that ours exchanges requests with."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leasehold.cli.live import times
from leasehold.cli.live.gateway import gateway
from leasehold.cli.live.names import complete_ask, complete_peer
from leasehold.cli.live.table import print_rows
from leasehold.cli.options import Json
from leasehold.cli.screen import answer, answer_json, talk

if TYPE_CHECKING:
    from leasehold.client import Client, NewToken, Peer

app = typer.Typer(help="Exchange requests with other gateways, by agreement.", no_args_is_help=True)

ANY = -1

Name = Annotated[str, typer.Argument(metavar="NAME", autocompletion=complete_peer, show_default=False)]


@app.command()
def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the other gateway here.", show_default=False)],
    url: Annotated[
        str,
        typer.Option(
            metavar="URL",
            help="Its address, so that it can send us requests; without one we only send.",
            show_default=False,
        ),
    ] = "",
    token_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File with the token it created for us.", show_default=False),
    ] = None,
    max_vms: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=ANY,
            help="VMs it may hold here at once; -1 for any number.",
            show_default="any number",
        ),
    ] = None,
    ask: Annotated[
        str,
        typer.Option(
            metavar="WHEN",
            help="When to send it requests: if none-can of our sites take them, none-can-now, or never.",
            autocompletion=complete_ask,
            show_default="none-can",
        ),
    ] = "",
    json: Json = False,
) -> None:
    """Add or change a peer gateway; creates the token for the other side."""
    from leasehold.cli.live.sites import advice, check_ask, read_token
    from leasehold.client import PeerSpec

    check_ask(ask)
    shown = None if token_file is None else read_token(token_file)
    with gateway() as client:
        before = _known(client, name)
        spec = PeerSpec.of(
            url=url or (before.url if before else ""),
            token=shown,
            ask=ask or (before.ask if before else "none-can"),
            max_vms=_most(max_vms, before),
        )
        peer = client.peers.keep(name, spec)
        made = None if before else _token_for(client, name)
        address = client.access.url
    if json:
        answer_json({"peer": peer, "token": None if made is None else made.token})
        return
    if made is not None:
        answer(made.token)
    for line in advice(peer, address, is_new=made is not None):
        talk(line)


def _known(client: "Client", name: str) -> "Peer | None":
    return next((peer for peer in client.peers.list() if peer.name == name), None)


def _most(wanted: int | None, before: "Peer | None") -> int | None:
    if wanted is None:
        return None if before is None else before.max_vms
    return None if wanted == ANY else wanted


def _token_for(client: "Client", name: str) -> "NewToken":
    """Make what the other gateway has to show us."""
    from leasehold.client import Role, TokenSpec

    note = f"for the gateway of {name}"
    return client.tokens.create(TokenSpec(consumer=f"peer/{name}", roles=[Role.PEER], sites=[name], note=note))


@app.command("list")
def list_peers(json: Json = False) -> None:
    """List peers: connection state and exchanged leases."""
    from leasehold.cli.live.sites import PEERS

    with gateway() as client:
        peers = client.peers.list()
    if json:
        answer_json({"peers": peers})
    else:
        print_rows(PEERS, peers)


@app.command()
def show(name: Name, json: Json = False) -> None:
    """Show everything known about a peer: requests offered, accepted and refused in both directions."""
    from leasehold.cli.live.sites import peer_account

    with gateway() as client:
        peer = client.peers.get(name)
    if json:
        answer_json({"peer": peer})
    else:
        answer("\n".join(peer_account(peer, times.now())))


@app.command()
def remove(name: Name, json: Json = False) -> None:
    """Remove a peer; refused while leases exist between the two, unless it is unreachable."""
    with gateway() as client:
        client.peers.remove(name)
    if json:
        answer_json({"removed": name})
    else:
        answer(f"{name} is no peer any more; the tokens that were made for it count no more")
