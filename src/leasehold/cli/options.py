"""Options that several commands share, the completion of names, and the configuration that options select."""

import inspect
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leasehold.cli.live.names import complete_backup, complete_type

if TYPE_CHECKING:
    from leasehold.service.config import ServiceConfig
    from leasehold.service.serving import DataFolder


_LEAN_TABLES = {
    "POLARS_MAX_THREADS": "1",
    "POLARS_ROW_GROUP_PREFETCH_SIZE": "1",
    "_RJEM_MALLOC_CONF": "narenas:1,tcache:false,dirty_decay_ms:200,muzzy_decay_ms:0",
}


def keep_tables_lean() -> None:
    """Keep the library of tables small, whatever the number of cores: for commands that read tables slice by slice.

    It reads these settings from the environment when it is first imported; a user's own stay.
    """
    for name, setting in _LEAN_TABLES.items():
        os.environ.setdefault(name, setting)


def complete_discipline(incomplete: str) -> list[str]:
    """Complete a backfilling discipline."""
    from leasehold.leasing.backfill import DISCIPLINES

    return _beginning(incomplete, DISCIPLINES)


def complete_victims(incomplete: str) -> list[str]:
    """Complete a victim policy."""
    from leasehold.leasing.victims.registry import victim_policy_names

    return _beginning(incomplete, victim_policy_names())


def complete_routing(incomplete: str) -> list[str]:
    """Complete a routing policy."""
    from leasehold.routing.registry import routing_policy_names

    return _beginning(incomplete, routing_policy_names())


def complete_policy(incomplete: str) -> list[str]:
    """Complete a policy of any kind."""
    return [
        name for complete in (complete_routing, complete_victims, complete_discipline) for name in complete(incomplete)
    ]


def complete_mapping(incomplete: str) -> list[str]:
    """Complete a mapping that comes with Leasehold, or a file."""
    from leasehold.simulation.workload.mapping import packaged_mappings

    return _beginning(incomplete, list(packaged_mappings())) + list(map(str, _matching_files(incomplete)))


def complete_scenario(incomplete: str) -> list[str]:
    """Complete a scenario that comes with Leasehold, or a file."""
    from leasehold.simulation.scenario.parse import packaged_names

    files = [str(path) + ("/" if path.is_dir() else "") for path in _matching_files(incomplete)]
    return _beginning(incomplete, packaged_names()) + files


def _beginning(incomplete: str, names: "list[str] | dict[str, int | None]") -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def _matching_files(incomplete: str) -> list[Path]:
    folder, _, start = incomplete.rpartition("/")
    try:
        return sorted(path for path in Path(folder or ".").iterdir() if path.name.startswith(start))
    except OSError:
        return []


def switch(*names: str, does: str) -> Any:  # noqa: ANN401 - what typer takes for an option
    """Make an option without a value, shown without one in the help."""
    return typer.Option(*names, help=does, metavar="")


Name = Annotated[str, typer.Option(metavar="NAME", help="A name for it.", show_default=False)]
Group = Annotated[str, typer.Option(metavar="NAME", help="Request for this one of your groups.", show_default=False)]
IdempotencyKey = Annotated[
    str,
    typer.Option(
        metavar="KEY",
        help="Requests with the same key are accepted once.",
        show_default=False,
    ),
]
Json = Annotated[bool, switch("--json", does="Answer with one JSON object.")]
Quiet = Annotated[bool, switch("--quiet", "-q", does="Print only the path of the result.")]
Force = Annotated[bool, switch("--force", does="Replace an existing run folder.")]
Out = Annotated[
    Path | None,
    typer.Option("--out", "-o", metavar="PATH", help="Output path.", show_default=False),
]
ReportFile = Annotated[
    Path | None,
    typer.Option("--report", "-r", metavar="FILE", help="Write a report, one HTML file.", show_default=False),
]
Seed = Annotated[int | None, typer.Option(metavar="N", help="Seed of all random streams.", show_default=False)]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.", show_default=False)]
Claims = Annotated[
    list[str] | None,
    typer.Option(
        "--claim",
        metavar="RESOURCE=N",
        help="Licence or service units it uses while it runs, such as licence:matlab=2; may be repeated.",
        rich_help_panel="What",
        show_default=False,
    ),
]


def taking(options: type[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command an option for each field of a dataclass; it gets an instance as its first argument."""
    fields = inspect.signature(options).parameters

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        _, *own = inspect.signature(command).parameters.values()

        @wraps(command)
        def asked(**values: object) -> None:
            command(options(**{name: values.pop(name) for name in fields}), **values)

        # What has to be given goes first, as Python wants it; the order of options is kept.
        parameters = sorted([*fields.values(), *own], key=lambda one: one.default is not one.empty)
        asked.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what typer looks at
        asked.__annotations__ = {one.name: one.annotation for one in parameters}
        return asked

    return decorated


NEEDS = "Requirements on each node"
SURELY = "Timing and reliability"


@dataclass(frozen=True, slots=True)
class JobOptions:
    """The options that describe a job, None or "" where they say nothing."""

    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE | -- COMMAND",
            help="A description, FILE.json or FILE.xml, which options override; and the command.",
            show_default=False,
        ),
    ] = None
    software: Annotated[
        list[str] | None,
        typer.Option(
            "--software",
            "-s",
            metavar="TEXT",
            help='Required software, such as "gcc >= 12, < 14"; may be repeated.',
            rich_help_panel=NEEDS,
            show_default=False,
        ),
    ] = None
    memory: Annotated[
        str,
        typer.Option(
            metavar="SIZE",
            help="Memory of each node: 2GiB, 512 (MiB); default: 256MiB.",
            rich_help_panel=NEEDS,
            show_default=False,
        ),
    ] = ""
    cores: Annotated[
        int | None,
        typer.Option(metavar="N", help="Cores of each node; default: 1.", rich_help_panel=NEEDS, show_default=False),
    ] = None
    disk: Annotated[
        str,
        typer.Option(
            metavar="SIZE",
            help="Disk of each node: 10GiB, 512 (MiB); default: none.",
            rich_help_panel=NEEDS,
            show_default="none",
        ),
    ] = ""
    gpus: Annotated[
        str,
        typer.Option(
            metavar="[MODEL:]N",
            help="GPUs of each node: a100:2, a100:0.5 (half of one), or 2 of any model; default: none.",
            rich_help_panel=NEEDS,
            show_default="none",
        ),
    ] = ""
    cpu_speed: Annotated[
        str,
        typer.Option(
            metavar="SPEED",
            help="Minimum speed of the cores: 2.4GHz, 2400 (MHz).",
            rich_help_panel=NEEDS,
            show_default="any",
        ),
    ] = ""
    nodes: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Number of nodes, all of one site; default: 1.",
            rich_help_panel=NEEDS,
            show_default=False,
        ),
    ] = None
    need: Annotated[
        int | None,
        typer.Option(
            metavar="K",
            help="How many of its nodes must be left for it to go on when others fail; default: all of them.",
            rich_help_panel=NEEDS,
            show_default=False,
        ),
    ] = None
    environment: Annotated[
        list[str] | None,
        typer.Option(
            "--env",
            metavar="NAME=VALUE",
            help="Environment variable of the command; NAME alone: with the value that it has here. May be repeated.",
            show_default=False,
        ),
    ] = None
    array: Annotated[
        str,
        typer.Option(
            metavar="INDEXES",
            help="One job for each index, such as 1-10, 0-20:5 or 1,3: in LEASEHOLD_ARRAY_INDEX.",
            show_default=False,
        ),
    ] = ""
    outputs: Annotated[
        list[str] | None,
        typer.Option(
            "--output",
            metavar="NAME",
            help="File in the working folder that is kept when the command has ended; may be repeated.",
            show_default=False,
        ),
    ] = None
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            metavar="FILE",
            help="Input: a local file, brought to the working folder of the command; or NAME:SIZE@SITE, such as "
            "sky.fits:700MiB@lyon, which is only taken into account. May be repeated.",
            rich_help_panel=NEEDS,
            show_default=False,
        ),
    ] = None
    execution: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="Expected run time: 3600 (seconds), 90m, 2:00:00.",
            rich_help_panel=SURELY,
            show_default=False,
        ),
    ] = ""
    deadline: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="Latest end: 18:00, 2026-11-21T18:00, now+2h.",
            rich_help_panel=SURELY,
            show_default=False,
        ),
    ] = ""
    reliability: Annotated[
        float | None,
        typer.Option(
            metavar="R",
            help="Required probability of meeting the deadline, such as 0.999.",
            rich_help_panel=SURELY,
            show_default=False,
        ),
    ] = None
    backup: Annotated[
        str,
        typer.Option(
            metavar="KIND",
            help="Backup against faults: none, cold (a standby node) or hot (a second copy that runs).",
            rich_help_panel=SURELY,
            autocompletion=complete_backup,
            show_default="none",
        ),
    ] = ""
    restarts: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="How often it may restart after node faults; default: 3.",
            rich_help_panel=SURELY,
            show_default=False,
        ),
    ] = None
    lease_type: Annotated[
        str,
        typer.Option(
            "--type",
            metavar="TYPE",
            help="Lease type, as for `lease submit`.",
            autocompletion=complete_type,
            show_default="suspendable",
        ),
    ] = ""
    name: Name = ""
    group: Group = ""


# What `serve`, `doctor`, `image`, `site` and `store` share: which configuration, which data folder, which store


CONFIG_FILE = "leasehold.toml"
"""Looked for in the data folder where no configuration is named."""

Config = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help=f"Configuration; else {CONFIG_FILE} in the data folder, if it exists.",
        show_default=False,
    ),
]
Data = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Data folder of the gateway; default: LEASEHOLD_DATA, or the user's own.",
        show_default=False,
    ),
]
StoreUrl = Annotated[
    str,
    typer.Option(
        "--store",
        metavar="URL",
        help="Store URL: sqlite:///PATH or postgresql+psycopg://USER@HOST/DATABASE.",
        show_default=False,
    ),
]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the options of a command say, None and "" where they say nothing."""

    config: Path | None = None
    data: Path | None = None
    store: str = ""
    host: str = ""
    port: int | None = None
    demo: bool = False

    def file(self) -> Path | None:
        """Find the configuration file that is meant; None where there is none."""
        if self.config is not None or self.demo:
            return self.config
        default = _folder(self.data) / CONFIG_FILE
        return default if default.is_file() else None

    def configuration(self) -> "ServiceConfig":
        """Read the configuration, and let the options have the last word; raises as `load_config` does."""
        from leasehold.model.errors import InvalidField
        from leasehold.service.config import demo, one_site
        from leasehold.service.config_file import fitting, load_config

        if self.demo and self.config is not None:
            raise InvalidField("--demo", str(self.config), "no --config: the demonstration has its own")
        file = self.file()
        config = load_config(file) if file is not None else demo() if self.demo else one_site()
        options: dict[str, Any] = {
            "data": self.data,
            "store": self.store,
            "host": self.host,
            "port": self.port,
        }
        service = replace(config.service, **{key: value for key, value in options.items() if value not in {None, ""}})
        return fitting(replace(config, service=service))

    def place(self, config: "ServiceConfig") -> "DataFolder":
        """Say where the gateway's things are; those of the demonstration do not mix with others."""
        from leasehold.service.serving import DataFolder

        folder = _folder(config.service.data)
        return DataFolder(folder, folder / "demo" if self.demo else folder)


def _folder(named: Path | None) -> Path:
    from leasehold.client.access import data_folder

    return (named or data_folder()).expanduser().absolute()


@contextmanager
def needing_the_service(purpose: str) -> Iterator[None]:
    """Say what to install where a part of the service is missing; raises NotInstalled."""
    from leasehold.client.errors import NotInstalled

    try:
        yield
    except ModuleNotFoundError as error:
        raise NotInstalled(purpose, "service") from error
