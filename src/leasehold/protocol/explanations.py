"""Explanations: what happened to a lease or a job and why, and what would help."""

from typing import Literal

from pydantic import Field

from leasehold.protocol.base import ResponseModel
from leasehold.protocol.fields import AnyNumberOf, LeaseTypeName, Moment, OrEmpty, OrNone, OrZero, Seconds
from leasehold.protocol.jobs import Job, NodeGroup
from leasehold.protocol.leases import Lease
from leasehold.protocol.plans import BlockedSite, PlannedAlternative, PlannedOutcome


class ExplainedStep(ResponseModel):
    """One thing that was decided or happened, in the order in which it did."""

    at: Moment
    what: str = Field(description="What happened or was decided.")
    state: str = Field(description="The state afterwards.")
    site: OrEmpty = Field(description="The site that it is about; empty: the gateway.")
    lease: OrNone[int] = Field(description="The lease that it is about.")
    reason: OrEmpty
    explanation: OrEmpty
    rule: OrEmpty = Field(description="The policy or rule that decided.")
    planned_at: OrNone[Moment] = Field(description="The start that was planned.")
    times: int = Field(description="How often the same was decided in a row; the other fields are those of the last.")
    sites: AnyNumberOf[BlockedSite] = Field(
        description="Why each site did not take a request that was refused, or kept at the gateway."
    )


class SparedAs(ResponseModel):
    """As what a victim would have been spared: the policy that chose it was asked again."""

    by: Literal["type", "vms", "alone"] = Field(
        description="What would have been different; `alone`: nothing, the others could not have freed enough."
    )
    type: LeaseTypeName
    vms: int


class ExplainedPreemption(ResponseModel):
    """A preemption: for whom, by which rule, at what cost, and what would have avoided it."""

    at: Moment
    lease: int = Field(description="The lease that was preempted.")
    site: str
    reason: str
    explanation: str
    rule: str = Field(description="The victim policy that decided.")
    for_whom: str = Field(description="For whom, as far as the caller may know.")
    for_lease: OrNone[int] = Field(description="For which lease; null: the caller may not see it.")
    needed_vms: OrNone[int] = Field(description="The VMs needed; null: the caller may not see all leases concerned.")
    victims: AnyNumberOf[int] = Field(
        description="The leases preempted with it that the caller may see, itself included."
    )
    victims_hidden: OrZero = Field(description="How many others were preempted with it.")
    cost_vm_s: OrNone[Seconds] = Field(
        description="What preempting this lease was charged, in VM-seconds; null: unknown."
    )
    candidates: OrNone[int] = Field(description="How many leases could have been preempted; null: not recorded.")
    considered: OrZero = Field(description="How many sets of victims the rule had to choose from.")
    exact: bool = Field(description="Whether the rule's own optimum was found.")
    runner_up: Literal["none", "with-this-lease", "without-this-lease"] = Field(
        description="The second best set by the rule: none, or whether this lease would have been in it, too."
    )
    runner_up_cost: OrNone[float] = Field(
        description="The cost of the second best set, as a multiple of the chosen one; null: there is none, or the "
        "chosen one costs nothing."
    )
    spared_as: AnyNumberOf[SparedAs] = Field(description="As what it would have been spared, each tried.")
    tried: bool = Field(
        description="Whether that was tried: not where too many leases were concerned, or the rule changed."
    )


class LeaseExplanation(ResponseModel):
    """A lease with every reason that it met, and what would help now."""

    lease: Lease
    steps: tuple[ExplainedStep, ...] = Field(description="The latest 1,000 at most, oldest first.")
    preemptions: tuple[ExplainedPreemption, ...]
    now: OrNone[PlannedOutcome] = Field(
        description="For a refused lease: what would become of the same request, submitted now."
    )
    alternatives: AnyNumberOf[PlannedAlternative] = Field(
        description="For one that waits, or was refused: requests that would be better off now, each tried. "
        "A lease that waits would be cancelled for it."
    )
    untried: OrZero = Field(description="How many alternatives were not tried, since too many leases are open.")


class JobExplanation(ResponseModel):
    """A job with every reason that it and its attempts met, and what each node says to it now."""

    job: Job
    steps: tuple[ExplainedStep, ...] = Field(description="The latest 1,000 at most, oldest first.")
    preemptions: tuple[ExplainedPreemption, ...] = Field(description="Of its attempts.")
    groups: tuple[NodeGroup, ...] = Field(description="Verdicts of the nodes now; none once it is over.")
