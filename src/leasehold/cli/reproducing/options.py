"""The options of `leasehold reproduce`, and its answer."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leasehold.cli.options import switch

if TYPE_CHECKING:
    from leasehold.experiments.campaign import Workers

Seeds = Annotated[
    int | None,
    typer.Option(metavar="N", min=2, help="Number of seeds; default: 100.", show_default=False),
]
Jobs = Annotated[
    int | None,
    typer.Option(
        "--jobs", "-j", metavar="N", min=1, help="Number of processes; default: one per CPU.", show_default=False
    ),
]
Dask = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Run on the workers of this Dask scheduler, such as tcp://host:8786.",
        show_default=False,
    ),
]
Logs = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="Folder of public workload logs, for beyond.", show_default=False),
]
Recheck = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        help="Keep results of earlier code if N repeated runs of each configuration are identical.",
        show_default=False,
    ),
]
Quick = Annotated[
    bool, switch("--quick", does="Few seeds and short runs: the shape of the result, in about two minutes.")
]


@dataclass(frozen=True, slots=True)
class Manner:
    """How evaluations are run: what the options say."""

    quick: bool = False
    seeds: int | None = None
    jobs: int | None = None
    dask: str | None = None
    out: Path | None = None
    logs: Path | None = None
    recheck: int | None = None
    silent: bool = False

    @property
    def workers(self) -> "Workers":
        """Where the runs are made."""
        return self.dask or self.jobs or os.cpu_count() or 1


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of an evaluation: ``show`` prints it for people, ``data`` is the same for programs."""

    data: Mapping[str, Any]
    show: Callable[[], None]
    written: Sequence[Path]
