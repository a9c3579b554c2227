"""What would become of a job: where it would run, and what each node says to it."""

from collections.abc import Iterator

import typer

from leasehold.cli.exit_codes import ANSWER_IS_NO
from leasehold.cli.live.table import print_table
from leasehold.cli.screen import answer, answer_json
from leasehold.client.job_records import JobCandidate, JobPlace, JobProspect, NodeVerdict
from leasehold.client.reading import wire

_WORDS = {"fit": "yes", "wait": "not now", "never": "never"}


def answer_prospect(told: JobProspect, *, json: bool) -> None:
    """Answer with what would become of a job; exits with 1 where it would run nowhere now."""
    if json:
        answer_json({"prospect": wire(told)})
    else:
        answer("\n".join(_summary(told)))
        print_table(["NODES", "AS THEY ARE", "IN A MACHINE", "FOR EXAMPLE"], _nodes(told), (0,))
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


def _nodes(told: JobProspect) -> list[list[str]]:
    """Group the nodes that say the same, those that would do first, then the many before the few."""
    names: dict[tuple[str, str], list[str]] = {}
    for one in told.candidates:
        names.setdefault(_group(one), []).append(one.node)
    groups = sorted(names.items(), key=lambda group: (_rank(group[0]), -len(group[1]), group))
    return [[str(len(nodes)), *says, nodes[0]] for says, nodes in groups]


def _group(one: JobCandidate) -> tuple[str, str]:
    return (f"down: {one.problem}", "-") if one.problem else (_says(one.as_node), _says(one.as_host))


def _rank(says: tuple[str, str]) -> int:
    words = [*_WORDS.values()]
    return min(
        (rank for rank, word in enumerate(words) for one in says if one.startswith(word)), default=len(words)
    )


def _says(verdict: NodeVerdict | None) -> str:
    if verdict is None:
        return "-"
    missing = f" ({verdict.what})" if verdict.what else ""
    why = "" if verdict.answer == "fit" else f", it {verdict.explanation}{missing}"
    return f"{_WORDS.get(verdict.answer, verdict.answer)}{why}"
