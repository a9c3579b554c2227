"""``leasehold site``: look at the sites of a federation, drain them, or be the manager of one."""

import sys
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leasehold.cli.live import times
from leasehold.cli.live.gateway import gateway
from leasehold.cli.live.names import complete_site
from leasehold.cli.live.table import Column, answer_rows, cell, columns_of, pick, print_table
from leasehold.cli.live.times import show_distance, show_moment, show_times
from leasehold.cli.options import Config, Data, Json, StoreUrl, Wanted, needing_the_service
from leasehold.cli.screen import answer, answer_json

if TYPE_CHECKING:
    from leasehold.client import Overhead, Site

app = typer.Typer(help="Inspect and drain the sites of a federation, or run a site manager.")

Name = Annotated[str, typer.Argument(metavar="NAME", autocompletion=complete_site, show_default=False)]


@app.callback(invoke_without_command=True)
def site(  # noqa: PLR0913, PLR0917 - one argument for each option
    context: typer.Context,
    gateway: Annotated[
        str,
        typer.Option(
            metavar="URL",
            envvar="LEASEHOLD_GATEWAY",
            show_envvar=False,
            help="Run a site manager connected to this gateway.",
            show_default=False,
        ),
    ] = "",
    name: Annotated[
        str, typer.Option(metavar="NAME", help="Name of the site at the gateway.", show_default=False)
    ] = "",
    slots: Annotated[int | None, typer.Option(metavar="N", min=1, help="Number of VMs.", show_default=False)] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="File with the gateway's token with role peer for this site; default: LEASEHOLD_GATEWAY_TOKEN.",
            show_default=False,
        ),
    ] = None,
    config: Config = None,
    data: Data = None,
    port: Annotated[int, typer.Option(metavar="N", min=0, max=65_535, help="Port for the site's own users.")] = 8471,
    store: StoreUrl = "",
) -> None:
    """Look at the sites of a federation, drain them, or (with --gateway) be the manager of one."""
    if context.invoked_subcommand is not None:
        return
    if not gateway:
        typer.echo(context.get_help())
        return
    with needing_the_service("`leasehold site --gateway`"):
        from leasehold.cli.serving import line_to, manage, site_configuration
    wanted = Wanted(config, data or _usual_folder(name), store, "", port)
    configuration = site_configuration(wanted, name, slots)
    manage(line_to(gateway, token_file, configuration), wanted, configuration, sys.stderr)


def _usual_folder(name: str) -> Path:
    """A site keeps its things apart from those of a gateway on the same machine."""
    from leasehold.client.access import data_folder

    return data_folder() / f"site-{name}" if name else data_folder() / "site"


@app.command("list")
def list_sites(json: Json = False) -> None:
    """List sites: number of machines, their use, and waiting requests."""
    with gateway() as client:
        sites = client.sites.list()
    answer_rows("sites", sites, _columns(), json=json)


@app.command()
def show(name: Name, json: Json = False) -> None:
    """Show everything known about a site."""
    with gateway() as client:
        _tell(client.sites.get(name), json=json)


@app.command()
def drain(
    name: Name,
    note: Annotated[str, typer.Option(metavar="TEXT", help="Note for other users.", show_default=False)] = "",
    json: Json = False,
) -> None:
    """Drain a site: no new guests start; running ones stay."""
    with gateway() as client:
        _tell(client.sites.drain(name, note), json=json)


@app.command()
def resume(name: Name, json: Json = False) -> None:
    """Let a drained site take guests again."""
    with gateway() as client:
        _tell(client.sites.resume(name), json=json)


@app.command()
def forget(name: Name, json: Json = False) -> None:
    """Remove a site whose manager will not return; its guests begin again elsewhere, or fail."""
    with gateway() as client:
        client.sites.forget(name)
    if json:
        answer_json({"forgotten": name})
    else:
        answer(f"site {name} is forgotten; it may come again with an empty store")


@app.command()
def capabilities(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", autocompletion=complete_site, show_default=False)
    ] = None,
    json: Json = False,
) -> None:
    """Show the capabilities of the sites' machines."""
    with gateway() as client:
        sites = client.sites.list() if name is None else (client.sites.get(name),)
    if json:
        answer_json({"sites": {site.name: site.capabilities for site in sites}})
    else:
        _print_capabilities(sites)


def _tell(site: "Site", *, json: bool) -> None:
    if json:
        answer_json({"site": site})
    else:
        answer("\n".join(_account(site, times.now())))


def _columns() -> "list[Column[Site]]":
    """Give the columns of a list of sites: VMs first, then leases that wait."""
    from leasehold.client import Site

    return pick(
        columns_of(
            Site,
            {
                "state": Column("STATE", lambda site, _: site.status),
                "free": Column("FREE", lambda site, _: str(site.vms.free), is_figure=True),
                "local": Column("LOCAL", lambda site, _: str(site.vms.local), is_figure=True),
                "guests": Column("GUESTS", lambda site, _: str(site.vms.guests), is_figure=True),
                "waiting-local": Column("WAITING_LOCAL", lambda site, _: str(site.waiting.local), is_figure=True),
                "waiting-guests": Column("WAITING_GUESTS", lambda site, _: str(site.waiting.guests), is_figure=True),
                "note": Column("NOTE", lambda site, _: site.problem or site.note),
            },
        ),
        "name,state,slots,free,local,guests,waiting-local,waiting-guests,driver,note",
    )


def _print_capabilities(sites: "Iterable[Site]") -> None:
    """Print what the machines of each site can do."""
    from leasehold.client import Capabilities

    shown = [[site.name, *(cell(can) for _, can in site.capabilities)] for site in sites]
    print_table(["NAME", *map(str.upper, Capabilities.model_fields)], shown)


def _account(site: "Site", at: datetime) -> Iterator[str]:
    """Tell all that is known of a site, line by line."""
    yield f"site {site.name} is {site.status}{_by_whom(site)}"
    for name, value in _site_facts(site, at):
        if value:
            yield f"  {name:<10}  {value}"


def _by_whom(site: "Site") -> str:
    by = f" by {site.drained_by}" if site.drained_by else ""
    return f"{by}: {site.note}" if site.note else by


def _site_facts(site: "Site", at: datetime) -> Iterator[tuple[str, str]]:
    vms, waiting = site.vms, site.waiting
    yield "machines", f"{site.slots} of {site.speed_mips} MIPS each, made by {site.driver}"
    yield "in use", f"{vms.local} by its own users, {vms.guests} by guests, {vms.free} free"
    yield "waiting", f"{waiting.local} of its own, {waiting.guests} guests"
    yield "lends to", site.allows
    yield "images", ", ".join(site.images)
    yield "can", ", ".join(name for name, can in site.capabilities if can)
    if site.last_seen_at is not None:
        yield "last seen", f"{show_moment(site.last_seen_at)} ({show_distance(site.last_seen_at, at)})"
    for overhead in site.overheads:
        yield overhead.operation, _overhead(overhead)
    yield "problem", site.problem


def _overhead(overhead: "Overhead") -> str:
    """Say how long an operation takes, and how that is known; "" where nothing is."""
    learnt, configured = overhead.learnt_s, overhead.configured_s
    if not overhead.count:
        return "" if configured is None else f"{configured:g} s, as configured"
    took = f"{learnt:g} s, measured {show_times(overhead.count)}"
    return took if configured is None else f"{took}; configured {configured:g} s"
