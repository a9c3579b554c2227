"""``leasehold node``: what the nodes have that jobs run on."""

from typing import Annotated

import typer

from leasehold.cli.live.gateway import gateway
from leasehold.cli.live.names import complete_site
from leasehold.cli.live.table import answer_rows
from leasehold.cli.options import Json

app = typer.Typer(help="Inspect the nodes that jobs run on.", no_args_is_help=True)


@app.command("list")
def list_nodes(
    site: Annotated[
        str,
        typer.Option(metavar="NAME", help="Only at this site.", autocompletion=complete_site, show_default=False),
    ] = "",
    software: Annotated[
        list[str] | None,
        typer.Option(
            "--software",
            "-s",
            metavar="TEXT",
            help='Only nodes with this software, such as "gcc >= 12"; may be repeated.',
            show_default=False,
        ),
    ] = None,
    json: Json = False,
) -> None:
    """List nodes: free and total resources, when last seen, and number of failures.

    --json includes all installed software, with versions.
    """
    from leasehold.cli.live.jobs import node_columns
    from leasehold.client import NodeFilter

    with gateway() as client:
        nodes = list(client.nodes.list(NodeFilter.of(site=site, software=software, brief=None if json else True)))
    answer_rows("nodes", nodes, node_columns(nodes), json=json)


@app.command()
def images(json: Json = False) -> None:
    """List images for machines on the nodes, including those that could not be built."""
    from leasehold.cli.live.jobs import IMAGES

    with gateway() as client:
        found = client.images.list()
    answer_rows("images", found, IMAGES, json=json)
