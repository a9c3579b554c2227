"""The options of `leasehold reproduce`, and its answer."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leasehold.cli.options import switch

if TYPE_CHECKING:
    from leasehold.experiments.workers import Workers

Seeds = Annotated[
    int | None,
    typer.Option(metavar="N", min=2, help="How many seeds; else 100.", show_default=False),
]
Jobs = Annotated[
    int | None,
    typer.Option("--jobs", "-j", metavar="N", min=1, help="How many processes; else all CPUs.", show_default=False),
]
Dask = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Many machines instead: a Dask scheduler, as in tcp://host:8786.",
        show_default=False,
    ),
]
Logs = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="Public workload logs, for beyond.", show_default=False),
]
Recheck = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        help="Take over what earlier code has measured, if N runs of each configuration come out the same.",
        show_default=False,
    ),
]
Quick = Annotated[bool, switch("--quick", does="Few seeds, short runs: its shape, in about two minutes.")]


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
