"""``leasehold reproduce``: run evaluations again, and print published numbers beside ours.

To add an evaluation:

1. Write a package in ``leasehold.experiments`` whose ``evaluation.py`` has it in ``EVALUATIONS``; what all
   evaluations have in common is in ``leasehold.experiments.evaluation``.
2. Add a line to ``_ALL``.

The options are the same for all; ``all`` and lists of names come with the registry.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leasehold.cli.options import Json, Out, Quiet, switch
from leasehold.cli.screen import answer, answer_json, wrapped

if TYPE_CHECKING:
    from leasehold.cli.reproducing import Answer, Manner
    from leasehold.experiments.evaluation import Evaluation

LIST = "list"


@dataclass(frozen=True, slots=True)
class Packaged:
    """An evaluation in a package of `leasehold.experiments`; ``does`` is its line in the help."""

    name: str
    package: str
    does: str

    def parts(self) -> Sequence[str]:
        """Name what can be run of it alone, such as ``003-fig5a``; not its own name."""
        return self._evaluation().parts()

    def run(self, parts: Sequence[str], manner: "Manner") -> "Answer":
        """Run all of it, or these parts."""
        from leasehold.cli.reproducing import run

        return run(self.name, self._evaluation(), parts, manner)

    def _evaluation(self) -> "Evaluation":
        found: Evaluation = import_module(f"leasehold.experiments.{self.package}.evaluation").EVALUATIONS[self.name]
        return found


_ALL = (
    Packaged("000", "intergrid", "Victim policies (Salehi and Buyya 2011, Figures 2 and 3)."),
    Packaged("001", "intergrid", "Routing, its first evaluation (ICA3PP 2011)."),
    Packaged("003", "intergrid", "Preemption-aware routing (JPDC 2012, Figures 5 to 8)."),
    Packaged("acsc2011", "intergrid", "With against without preemption (ACSC 2011, abstract)."),
    Packaged("usla", "usla", "Usage agreements (Dumitrescu et al. 2007, Tables 1 to 7)."),
    Packaged(
        "hybrid",
        "hybrid",
        "Physical or virtual machines, and reliability (Thamarai Selvi et al., Figures 6 to 8).",
    ),
    Packaged(
        "victims",
        "victims",
        "Victim selection: rules of Kueue, Slurm and Haizea beside ours, and guarantees to guests.",
    ),
    Packaged("beyond", "beyond", "Leasehold's own routing policies beside the published ones."),
)
EVALUATIONS = {one.name: one for one in _ALL}
EVERYTHING = "all"


def asked_for(names: Sequence[str]) -> dict[str, list[str]]:
    """Give the evaluations to run, in their own order, and their parts; no part is all of them.

    Raises UnknownName.
    """
    wanted: dict[str, list[str] | None] = {}
    for name in EVALUATIONS if EVERYTHING in names else names:
        evaluation = _evaluation_of(name)
        parts = wanted.setdefault(evaluation, [])
        if name == evaluation:
            wanted[evaluation] = None
        elif parts is not None:
            parts.append(name)
    return {name: wanted[name] or [] for name in EVALUATIONS if name in wanted}


def _evaluation_of(name: str) -> str:
    """Find the evaluation of a name: its own, or that of one of its parts."""
    from leasehold.model.errors import UnknownName

    before = name.partition("-")[0]
    if name in EVALUATIONS:
        return name
    if before in EVALUATIONS and name in EVALUATIONS[before].parts():
        return before
    raise UnknownName("evaluation", name, all_names())


def all_names() -> list[str]:
    """Give every name that can be asked for."""
    parts = [part for one in EVALUATIONS.values() for part in one.parts()]
    return [*EVALUATIONS, EVERYTHING, *parts]


def complete_name(incomplete: str) -> list[str]:
    """Complete the name of an evaluation, or of a part of one."""
    return [name for name in all_names() if name.startswith(incomplete)]


def listed() -> str:
    """List the evaluations for the help."""
    return "\n\n".join(f"{one.name}: {one.does}" for one in EVALUATIONS.values())


def need_extra() -> None:
    """Name what to install where the extra is missing; raises NotInstalled."""
    from leasehold.client.errors import NotInstalled

    if any(find_spec(name) is None for name in ("scipy", "joblib")):
        raise NotInstalled("An evaluation with its intervals", "experiments")


Names = Annotated[
    list[str],
    typer.Argument(
        metavar="NAME...",
        help="Evaluations, or single figures such as 003-fig5a; all for everything, list to list them.",
        autocompletion=complete_name,
        show_default=False,
    ),
]
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


def reproduce(  # noqa: PLR0913, PLR0917 - one argument for each option
    names: Names,
    quick: Quick = False,
    seeds: Seeds = None,
    jobs: Jobs = None,
    dask: Dask = None,
    logs: Logs = None,
    recheck: Recheck = None,
    out: Out = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Reproduce published evaluations and compare the results."""
    if names == [LIST]:
        _print_list(json=json)
        return
    wanted = asked_for(names)
    need_extra()
    from leasehold.cli.reproducing import Manner

    manner = Manner(quick, seeds, jobs, dask, out, logs, recheck, silent=json or quiet)
    answers = {}
    for name, parts in wanted.items():
        answers[name] = EVALUATIONS[name].run(parts, _of_several(manner, name) if len(wanted) > 1 else manner)
        if not json:
            _print(answers[name], quiet=quiet)
    if json:
        _print_json(answers)


reproduce.__doc__ = f"{reproduce.__doc__}\n\n{listed()}"


def _print_list(*, json: bool) -> None:
    """Say which evaluations there are, and which parts of each can be asked for alone."""
    if json:
        found = [{"name": one.name, "does": one.does, "parts": list(one.parts())} for one in EVALUATIONS.values()]
        answer_json({"evaluations": found})
        return
    for one in EVALUATIONS.values():
        answer(f"{one.name}: {one.does}")
        if one.parts():
            answer(wrapped(" ".join(one.parts())))


def _of_several(manner: "Manner", name: str) -> "Manner":
    """Give each of several evaluations a folder of its own."""
    return manner if manner.out is None else replace(manner, out=manner.out / name)


def _print(found: "Answer", *, quiet: bool) -> None:
    if not quiet:
        found.show()
    answer("\n".join(map(str, found.written)))


def _print_json(answers: "Mapping[str, Answer]") -> None:
    """Print the answer as it is, or several by their names."""
    payload = {name: {**found.data, "files": [str(path) for path in found.written]} for name, found in answers.items()}
    answer_json(next(iter(payload.values())) if len(payload) == 1 else payload)
