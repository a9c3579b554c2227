"""``leasehold serve``: be a gateway."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from leasehold.cli.options import Config, Data, Json, StoreUrl, Wanted, needing_the_service, switch
from leasehold.cli.screen import answer, answer_json

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
            help="Port to listen on (default: 8470); 0 picks a free one.",
            show_default=False,
        ),
    ] = None,
    host: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS",
            help="Address to listen on (default: 127.0.0.1); other than loopback only with TLS.",
            show_default=False,
        ),
    ] = "",
    demo: Annotated[bool, switch("--demo", does="Serve three emulated sites with a running workload.")] = False,
    store: StoreUrl = "",
    print_config: Annotated[
        bool, switch("--print-config", does="Print the effective configuration, with comments, and exit.")
    ] = False,
    json: Json = False,
) -> None:
    """Run a gateway and its sites."""
    with needing_the_service("`leasehold serve`"):
        from leasehold.cli import serving
    wanted = Wanted(config, data, store, host, port, demo)
    configuration = wanted.configuration()
    if print_config:
        _print(configuration, json=json)
        return
    serving.be_a_gateway(wanted, configuration, sys.stderr, json=json)


def _print(configuration: "ServiceConfig", *, json: bool) -> None:
    from leasehold.service.config_file import commented_toml

    if json:
        answer_json({"configuration": configuration.to_dict()})
    else:
        answer(commented_toml(configuration).rstrip())
