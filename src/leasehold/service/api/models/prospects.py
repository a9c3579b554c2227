"""What would become of a job that nobody has asked for, on the wire."""

from typing import Literal, cast

from pydantic import Field

from leasehold.jobs.job import JobState
from leasehold.matching.verdict import Verdict, sentence
from leasehold.service import jobs
from leasehold.service.api.models.base import Shown, examples
from leasehold.service.api.models.explaining import explain_job
from leasehold.service.jobs import Chosen, Prospect

_LACKS = {
    "answer": "never", "reason": "software-not-there", "explanation": "lacks the required software",
    "what": "python3-numpy >= 1.24",
}  # fmt: skip
_FITS = {
    "answer": "fit", "reason": "fits", "explanation": "has all that is required, and it is free", "what": ""
}  # fmt: skip
_GROUP = {
    "site": "das3", "nodes": ["das3/node017", "das3/node018"], "count": 2, "problem": "",
    "as_node": _LACKS, "as_host": _FITS,
}  # fmt: skip
_PLACE = {
    "site": "das3", "nodes": ["das3/node017"], "image": "", "virtual": True,
    "builds": ["python3-numpy 1:1.24.2-1"], "reason": "no-physical-node",
    "explanation": "gets a virtual machine, because no physical node has what it needs",
}  # fmt: skip
_SHOWN = {
    "state": "building", "reason": "image-is-built",
    "explanation": "waits until an image with its software is built", "what": "", "surest": None,
    "places": [_PLACE], "groups": [_GROUP],
}  # fmt: skip

Said = Literal["never", "wait", "fit"]


class NodeVerdict(Shown):
    """What nodes say to a job."""

    answer: Said = Field(description="`never` here, not now (`wait`), or `fit`.")
    reason: str
    explanation: str
    what: str = Field(description="What is missing, where something is.")


class NodeGroup(Shown):
    """Nodes of a site that say the same to a job."""

    model_config = examples(_GROUP)

    site: str
    nodes: list[str] = Field(description="The first of them by name, as `site/node`: five at most.")
    count: int = Field(description="How many they are in all.")
    problem: str = Field(description="Why nothing can run there now; empty: nothing is known against it.")
    as_node: NodeVerdict | None = Field(description="To run there as it is; null: no jobs run there so.")
    as_host: NodeVerdict | None = Field(description="In a machine on it; null: none can be built there.")


class JobPlace(Shown):
    """Where a job would begin, or a copy of it."""

    model_config = examples(_PLACE)

    site: str
    nodes: list[str] = Field(description="Its nodes, or the hosts of its machines, as `site/node`.")
    image: str = Field(description="What its machines would boot from; empty: none, or it is not there yet.")
    virtual: bool = Field(description="Whether machines would be built for it.")
    builds: list[str] = Field(description="Packages of an image that would be built first.")
    reason: str
    explanation: str


class JobProspect(Shown):
    """What would become of a job."""

    model_config = examples(_SHOWN)

    state: JobState = Field(description="`running`, `building`, `waiting` or `refused`.")
    reason: str
    explanation: str
    what: str = Field(description="What is missing, where something is.")
    surest: float | None = Field(description="How sure it is to be done by its deadline; null: not asked.")
    places: list[JobPlace] = Field(description="Where it would begin, and its copies.")
    groups: list[NodeGroup] = Field(
        description="What the nodes say to it: those that would do first, then the many before the few."
    )


def show_prospect(prospect: Prospect) -> JobProspect:
    """Show what would become of a job."""
    return JobProspect(
        state=prospect.state,
        reason=prospect.reason,
        explanation=explain_job(prospect.reason, prospect.what),
        what=prospect.what,
        surest=prospect.surest,
        places=[_place(chosen) for chosen in prospect.chosen],
        groups=[_group(one) for one in prospect.groups],
    )


def _place(chosen: Chosen) -> JobPlace:
    return JobPlace(
        site=chosen.site,
        nodes=list(chosen.nodes),
        image=chosen.image,
        virtual=bool(chosen.image or chosen.builds),
        builds=[f"{name} {version}".rstrip() for name, version in chosen.builds],
        reason=chosen.why,
        explanation=sentence(chosen.why),
    )


def _group(group: jobs.NodeGroup) -> NodeGroup:
    return NodeGroup(
        site=group.site,
        nodes=list(group.nodes),
        count=group.count,
        problem=group.says.problem,
        as_node=_verdict(group.says.as_node),
        as_host=_verdict(group.says.as_host),
    )


def _verdict(verdict: Verdict | None) -> NodeVerdict | None:
    if verdict is None:
        return None
    return NodeVerdict(
        answer=cast("Said", verdict.answer.name.lower()),
        reason=verdict.why,
        explanation=sentence(verdict.why),
        what=verdict.what,
    )
