"""``leasehold serve``: be a gateway."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from leasehold.cli.options import Json, switch
from leasehold.cli.service_options import Config, Data, StoreUrl, Wanted, needing_the_service

if TYPE_CHECKING:
    from leasehold.service.config import ServiceConfig


def serve(  # noqa: PLR0913, PLR0917 - one argument for each option
    config: Config = None,
    data: Data = None,
    port: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            max=65_535,
            help="Listen at this port (default: 8470); 0 is any free one.",
            show_default=False,
        ),
    ] = None,
    host: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS",
            help="Listen at this address (default: 127.0.0.1); beyond this machine only with TLS.",
            show_default=False,
        ),
    ] = "",
    demo: Annotated[bool, switch("--demo", does="Three emulated sites, with a workload that runs.")] = False,
    store: StoreUrl = "",
    print_config: Annotated[
        bool, switch("--print-config", does="Print the configuration in force, with comments, and stop.")
    ] = False,
    json: Json = False,
) -> None:
    """Be a gateway, with its sites: take requests, decide, and look after the machines."""
    with needing_the_service("`leasehold serve`"):
        from leasehold.cli import serving
    wanted = Wanted(config, data, store, host, port, demo)
    configuration = wanted.configuration()
    if print_config:
        _print(configuration, json=json)
        return
    serving.be_a_gateway(wanted, configuration, sys.stderr, json=json)


def _print(configuration: "ServiceConfig", *, json: bool) -> None:
    from leasehold.cli.screen import answer, answer_json
    from leasehold.service.config_file import commented_toml

    if json:
        answer_json({"configuration": configuration.to_dict()})
    else:
        answer(commented_toml(configuration).rstrip())
