"""What would become of a job: where it would run, and what the nodes say to it."""

from collections.abc import Iterator

import typer

from leasehold.cli.exit_codes import ANSWER_IS_NO
from leasehold.cli.live.table import print_table
from leasehold.cli.screen import answer, answer_json
from leasehold.client import JobPlace, JobProspect, NodeGroup, NodeVerdict

_WORDS = {"fit": "yes", "wait": "not now", "never": "never"}


def answer_prospect(told: JobProspect, *, json: bool) -> None:
    """Answer with what would become of a job; exits with 1 where it would run nowhere now."""
    if json:
        answer_json({"prospect": told})
    else:
        answer("\n".join(_summary(told)))
        heads = ["NODES", "AS THEY ARE", "IN A MACHINE", "FOR EXAMPLE"]
        print_table(heads, [_nodes(group) for group in told.groups], (0,))
    if not told.places:
        raise typer.Exit(ANSWER_IS_NO)


def _summary(told: JobProspect) -> Iterator[str]:
    yield f"it would be {told.state}: it {told.explanation} ({told.reason})"
    for place in told.places:
        yield f"  {_place(place)}"
    if told.surest is not None:
        yield f"  done by its deadline with a probability of {told.surest:.6g}"


def _place(place: JobPlace) -> str:
    nodes = ", ".join(place.nodes)
    if not place.virtual:
        return f"on {nodes}"
    if place.builds:
        return f"in machines on {nodes}, once an image with {', '.join(place.builds)} is built"
    return f"in machines on {nodes}, from the image {place.image}"


def _nodes(group: NodeGroup) -> list[str]:
    return [str(group.count), *_answers(group), group.nodes[0]]


def _answers(group: NodeGroup) -> tuple[str, str]:
    as_node, as_host = _says(group.as_node), _says(group.as_host)
    if not group.problem:
        return as_node or "-", as_host or "-"
    down = f"down: {group.problem}"
    return f"{down}; else {as_node}" if as_node else down, f"else {as_host}" if as_host else "-"


def _says(verdict: NodeVerdict | None) -> str:
    if verdict is None:
        return ""
    missing = f" ({verdict.what})" if verdict.what else ""
    why = "" if verdict.answer == "fit" else f", it {verdict.explanation}{missing}"
    return f"{_WORDS.get(verdict.answer, verdict.answer)}{why}"
