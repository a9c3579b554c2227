"""``leasehold reproduce``: run evaluations again, and print published numbers beside ours.

To add an evaluation:

1. Write a package in ``leasehold.experiments`` whose ``evaluation.py`` has it in ``EVALUATIONS``; what all
   evaluations have in common is in ``leasehold.experiments.evaluation``.
2. Add a line to ``_ALL``.

The options are the same for all; ``all`` and lists of names come with the registry.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
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
    """An evaluation in a package of `leasehold.experiments`; ``does`` is its line in the help.

    ``publication``  what its figures and tables are named by, where that is not ``name``; names all of it, too
    ``elsewhere``    figures that another evaluation has, with its names for their parts
    ``not_run``      figures and tables without results, and what they are
    """

    name: str
    package: str
    does: str
    publication: str = ""
    elsewhere: Mapping[str, Sequence[str]] = field(default_factory=dict)
    not_run: Mapping[str, str] = field(default_factory=dict)

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


DIAGRAM, ALGORITHM = "diagram", "algorithm"

_IN_JPDC = {
    **{f"000-fig4{ours}": (f"003-fig5{theirs}",) for ours, theirs in zip("abc", "bcd", strict=True)},
    **{f"000-fig5{ours}": (f"003-fig8{theirs}",) for ours, theirs in zip("abcdef", "cdefgh", strict=True)},
    "000-fig4": ("003-fig5b", "003-fig5c", "003-fig5d"),
    "000-fig5": tuple(f"003-fig8{letter}" for letter in "cdefgh"),
}
"""Figures 4 and 5 of 000, which JPDC 2012 prints again."""

_ALL = (
    Packaged(
        "000",
        "intergrid",
        "Victim policies (Salehi and Buyya 2011, Figures 2 and 3).",
        elsewhere=_IN_JPDC,
        not_run={"000-fig1": DIAGRAM},
    ),
    Packaged("001", "intergrid", "Routing, its first evaluation (ICA3PP 2011)."),
    Packaged(
        "003",
        "intergrid",
        "Preemption-aware routing (JPDC 2012, Figures 4 to 8 and Table 3).",
        not_run={
            **dict.fromkeys(("003-fig1", "003-fig2", "003-fig3"), DIAGRAM),
            "003-table1": "symbols",
            "003-table2": "input of every run",
        },
    ),
    Packaged("acsc2011", "intergrid", "With against without preemption (ACSC 2011, abstract)."),
    Packaged(
        "usla",
        "usla",
        "Usage agreements (Dumitrescu et al. 2007, Tables 1 to 7).",
        publication="002",
        not_run={"002-fig1": DIAGRAM},
    ),
    Packaged(
        "hybrid",
        "hybrid",
        "Physical or virtual machines, and reliability (Thamarai Selvi et al., Figures 6 to 8).",
        publication="004",
        not_run={
            **dict.fromkeys(("004-fig1", "004-fig3"), DIAGRAM),
            **dict.fromkeys(("004-fig2", "004-fig4", "004-fig5"), ALGORITHM),
            "004-table1": "rule of a queue",
        },
    ),
    Packaged(
        "victims",
        "victims",
        "Victim selection: rules of Kueue, Slurm and Haizea beside ours, and guarantees to guests.",
    ),
    Packaged("beyond", "beyond", "Leasehold's own routing policies beside the published ones."),
    Packaged("spot", "spot", "Owners' and spot jobs on one GPU cluster: evictions under several rules."),
    Packaged(
        "calibration", "calibration", "Whether 90 % intervals of start times cover what happens, and how wide they are."
    ),
)
EVALUATIONS = {one.name: one for one in _ALL}
EVERYTHING = "all"


def asked_for(names: Sequence[str]) -> dict[str, list[str]]:
    """Give the evaluations to run, in their own order, and their parts; no part is all of them.

    Raises UnknownName, and InvalidField for a figure or table that has no results.
    """
    wanted: dict[str, list[str] | None] = {}
    for name in EVALUATIONS if EVERYTHING in names else names:
        evaluation, found = _found(name)
        parts = wanted.setdefault(evaluation, [])
        if not found:
            wanted[evaluation] = None
        elif parts is not None:
            parts += found
    return {name: wanted[name] or [] for name in EVALUATIONS if name in wanted}


def _found(name: str) -> tuple[str, Sequence[str]]:
    """Find the evaluation of a name, and the parts that it names there; none for all of it."""
    from leasehold.model.errors import InvalidField, UnknownName

    before = name.partition("-")[0]
    one = next((one for one in EVALUATIONS.values() if before in {one.name, one.publication}), None)
    if one is None:
        raise UnknownName("evaluation", name, all_names())
    if name == before:
        return one.name, ()
    if name in one.not_run:
        raise InvalidField("evaluation", name, f"a figure or table with results; this one is: {one.not_run[name]}")
    if name in one.elsewhere:
        return one.elsewhere[name][0].partition("-")[0], one.elsewhere[name]
    if name not in one.parts():
        raise UnknownName("evaluation", name, all_names())
    return one.name, [name]


def all_names() -> list[str]:
    """Give every name that can be asked for."""
    parts = [part for one in EVALUATIONS.values() for part in (*one.parts(), *one.elsewhere)]
    publications = [one.publication for one in EVALUATIONS.values() if one.publication]
    return [*EVALUATIONS, *publications, EVERYTHING, *parts]


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
Python = Annotated[
    str | None,
    typer.Option(
        metavar="PATH",
        help="Run in another Python interpreter, such as pypy3, which is some ten times as fast.",
        show_default=False,
    ),
]
Logs = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER", help="Folder of public workload logs, for beyond and calibration.", show_default=False
    ),
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
    python: Python = None,
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

    manner = Manner(quick, seeds, jobs, dask, python, out, logs, recheck, silent=json or quiet)
    answers = {}
    for name, parts in wanted.items():
        answers[name] = EVALUATIONS[name].run(parts, _of_several(manner, name) if len(wanted) > 1 else manner)
        if not json:
            _print(answers[name], quiet=quiet)
    if json:
        _print_json(answers)


reproduce.__doc__ = f"{reproduce.__doc__}\n\n{listed()}"


def _print_list(*, json: bool) -> None:
    """Print the evaluations, what can be run of each alone, and what has no results."""
    if json:
        answer_json({"evaluations": [_as_data(one) for one in EVALUATIONS.values()]})
        return
    for one in EVALUATIONS.values():
        answer(f"{one.name}{f' or {one.publication}' if one.publication else ''}: {one.does}")
        if one.parts():
            answer(wrapped(" ".join(one.parts())))
        if one.elsewhere:
            answer(wrapped("; ".join(f"{name} = {' '.join(parts)}" for name, parts in one.elsewhere.items())))
        if one.not_run:
            answer(wrapped(f"Without results: {', '.join(f'{name} ({what})' for name, what in one.not_run.items())}."))


def _as_data(one: Packaged) -> dict[str, object]:
    """Give what the list says of an evaluation, as plain data."""
    named = {"name": one.name, "publication": one.publication or None, "does": one.does, "parts": list(one.parts())}
    return named | {"elsewhere": {n: list(p) for n, p in one.elsewhere.items()}, "not_run": dict(one.not_run)}


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
