"""What `serve`, `doctor` and `store` have in common: which configuration, which data folder, which store."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from leasehold.service.config import ServiceConfig
    from leasehold.service.serving import DataFolder

CONFIG_FILE = "leasehold.toml"
"""Looked for in the data folder where no configuration is named."""

Config = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help=f"Configuration; else {CONFIG_FILE} in the data folder, if it is there.",
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
    from leasehold.client.local_gateway import data_folder

    return (named or data_folder()).expanduser().absolute()


@contextmanager
def needing_the_service(purpose: str) -> Iterator[None]:
    """Say what to install where a part of the service is missing; raises NotInstalled."""
    from leasehold.client.errors import NotInstalled

    try:
        yield
    except ModuleNotFoundError as error:
        raise NotInstalled(purpose, "service") from error
