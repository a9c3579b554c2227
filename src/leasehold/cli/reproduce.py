"""``leasehold reproduce``: evaluations run again, published numbers beside ours."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated

import typer

from leasehold.cli.options import Json, Out, Quiet
from leasehold.cli.reproducing.options import Answer, Dask, Jobs, Logs, Manner, Quick, Recheck, Seeds
from leasehold.cli.reproducing.registry import EVALUATIONS, asked_for, complete_name, listed, need_extra

LIST = "list"

Names = Annotated[
    list[str],
    typer.Argument(
        metavar="NAME...",
        help="Evaluations, or single figures such as 003-fig5a; all for everything, list to list them.",
        autocompletion=complete_name,
        show_default=False,
    ),
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
    from leasehold.cli.screen import answer, answer_json, wrapped

    if json:
        told = [{"name": one.name, "does": one.does, "parts": list(one.parts())} for one in EVALUATIONS.values()]
        answer_json({"evaluations": told})
        return
    for one in EVALUATIONS.values():
        answer(f"{one.name}: {one.does}")
        if one.parts():
            answer(wrapped(" ".join(one.parts())))


def _of_several(manner: Manner, name: str) -> Manner:
    """Give each of several evaluations a folder of its own."""
    return manner if manner.out is None else replace(manner, out=manner.out / name)


def _print(found: Answer, *, quiet: bool) -> None:
    from leasehold.cli.screen import answer

    if not quiet:
        found.show()
    answer("\n".join(map(str, found.written)))


def _print_json(answers: Mapping[str, Answer]) -> None:
    """Print the answer as it is, or several by their names."""
    from leasehold.cli.screen import answer_json

    told = {name: {**found.data, "files": [str(path) for path in found.written]} for name, found in answers.items()}
    answer_json(next(iter(told.values())) if len(told) == 1 else told)
