"""Co-allocations: in a line each and in full, how components are written; what would become of a request."""

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

import typer

from leasehold.cli.exit_codes import ANSWER_IS_NO
from leasehold.cli.live.leases import ADVICE, by_the_clock
from leasehold.cli.live.table import Column, cell, columns_of, pick
from leasehold.cli.live.times import show_distance, show_duration, show_moment
from leasehold.cli.screen import answer, answer_json, talk
from leasehold.client import (
    Barred,
    CoAllocation,
    CoAllocationComponent,
    CoAllocationExplanation,
    ComponentSpec,
    DomainOffer,
    Lease,
    LeaseExplanation,
)
from leasehold.model.errors import InvalidField
from leasehold.model.lease import LeaseState

REFUSED = "refused"

_COMPONENT = re.compile(r"(?P<vms>[0-9]+)(@(?P<site>[^:@,]+))?(:(?P<files>.+))?", re.ASCII)
_FILE = re.compile(r"(?P<mib>[0-9]+)@(?P<site>[^:@,]+)", re.ASCII)


def read_components(texts: Iterable[str], memory_mib: int | None) -> list[ComponentSpec]:
    """Read components such as ``4``, ``4@delft`` and ``8:2048@lyon``; raises InvalidField."""
    return [_component(text, memory_mib) for text in texts]


def _component(text: str, memory_mib: int | None) -> ComponentSpec:
    found = _COMPONENT.fullmatch(text)
    files = [] if found is None or not found["files"] else found["files"].split(",")
    parts = [_FILE.fullmatch(file) for file in files]
    if found is None or int(found["vms"]) < 1 or None in parts:
        raise InvalidField("--component", text, "VMs, and where, as in 4, 4@delft or 8:2048@lyon")
    return ComponentSpec.of(
        vms=int(found["vms"]),
        memory_mib=memory_mib,
        site=found["site"],
        files=[{"site": part["site"], "mib": int(part["mib"])} for part in parts if part is not None],
    )


def show_number(coallocation: CoAllocation) -> None:
    """Answer with the number of a co-allocation, and say beside it how it stands."""
    answer(str(coallocation.id))
    talk(f"leasehold: {standing(coallocation)}")


def standing(coallocation: CoAllocation) -> str:
    """Say in one sentence how a co-allocation stands, and why."""
    why = (
        f": each component {coallocation.explanation} ({coallocation.reason})"
        if coallocation.is_over or not coallocation.starts_at
        else ""
    )
    start = (
        ""
        if coallocation.starts_at is None or coallocation.is_over
        else f"; its start is {show_moment(coallocation.starts_at)}"
    )
    return f"co-allocation {coallocation.id} is {coallocation.state}{_at(coallocation)}{why}{start}"


def _at(coallocation: CoAllocation) -> str:
    return f" at {_sites(coallocation)}" if any(one.site for one in coallocation.components) else ""


def _sites(coallocation: CoAllocation) -> str:
    return ",".join(component.site or "-" for component in coallocation.components)


COALLOCATIONS = pick(
    columns_of(
        CoAllocation,
        {
            "vms": Column("VMS", lambda one, _: "+".join(str(part.vms) for part in one.components), is_figure=True),
            "sites": Column("SITES", lambda one, _: _sites(one)),
            "idle": Column(
                "IDLE", lambda one, _: show_duration(one.idle_vm_s) if one.idle_vm_s else "", is_figure=True
            ),
            "start": Column("START", lambda one, _: cell(one.starts_at)),
        },
    ),
    "id,state,claim,consumer,vms,sites,idle,start,reason",
)


def account(coallocation: CoAllocation, leases: Sequence[Lease], at: datetime) -> Iterator[str]:
    """Tell all that is known of a co-allocation, line by line."""
    yield standing(coallocation)
    for name, value in _facts(coallocation, at):
        if value:
            yield f"  {name:<10}  {value}"
    for component, lease in zip(coallocation.components, leases, strict=True):
        yield f"  {'component':<10}  {_asked(component)}: lease {lease.id} is {_where(lease)}"


def _facts(coallocation: CoAllocation, at: datetime) -> Iterator[tuple[str, str]]:
    yield "name", coallocation.name
    yield (
        "consumer",
        f"{coallocation.consumer}, group {coallocation.group}" if coallocation.group else coallocation.consumer,
    )
    yield "claim", f"{coallocation.claim}, placed by {coallocation.place}"
    for name, moment in (
        ("submitted", coallocation.submitted_at),
        ("deadline", coallocation.deadline_at),
        ("start", coallocation.starts_at),
        ("ended", coallocation.ended_at),
    ):
        if moment is not None:
            yield name, f"{show_moment(moment)} ({show_distance(moment, at)})"
    yield "held idle", f"{coallocation.idle_vm_s:g} VM-seconds" if coallocation.idle_vm_s else ""


def _asked(component: CoAllocationComponent) -> str:
    where = f" at {component.wanted_site}" if component.wanted_site else ""
    files = "".join(f", {file.mib} MiB from {file.site}" for file in component.files)
    return f"{component.vms} VMs{where} for {show_duration(component.duration_s)}{files}"


def _where(lease: Lease) -> str:
    return f"{lease.state} at {lease.site}" if lease.site else f"{lease.state} ({lease.reason})"


# What would become of a request that was not made


def answer_explained_coallocation(explanation: CoAllocationExplanation, *, json: bool) -> None:
    """Answer with what would become of a co-allocation; exits with 1 where it would be refused."""
    if json:
        answer_json({"explanation": explanation})
    else:
        answer("\n".join(_explained_coallocation(explanation)))
    if explanation.state == REFUSED:
        raise typer.Exit(ANSWER_IS_NO)


def _explained_coallocation(explanation: CoAllocationExplanation) -> Iterator[str]:
    yield _outlook(explanation)
    for number, component in enumerate(explanation.components, 1):
        yield from could_run(f"component {number} could run at", component.extended, component.barred)
    yield from scores(explanation.domains)


def _outlook(explanation: CoAllocationExplanation) -> str:
    if explanation.state == REFUSED:
        return f"would be refused: each component {explanation.explanation} ({explanation.reason})"
    if not all(explanation.sites):
        return f"would wait at the gateway: each component {explanation.explanation} ({explanation.reason})"
    start = "" if explanation.starts_at is None else f", from {show_moment(explanation.starts_at)}"
    return f"would run at {', '.join(explanation.sites)}{start}"


def answer_explained(explanation: LeaseExplanation, duration_s: float, at: datetime, *, json: bool) -> None:
    """Answer with what would become of a lease of this duration; exits with 1 where it would be refused."""
    if json:
        answer_json({"explanation": explanation})
    else:
        answer("\n".join(_explained(explanation, duration_s, at)))
    if explanation.state is LeaseState.REFUSED:
        raise typer.Exit(ANSWER_IS_NO)


def _explained(explanation: LeaseExplanation, duration_s: float, at: datetime) -> Iterator[str]:
    yield _verdict(explanation, at)
    if explanation.state is LeaseState.REFUSED and explanation.reason in ADVICE:
        yield f"  {ADVICE[explanation.reason]}"
    if duration := by_the_clock(duration_s, explanation.walltime_s, explanation.site):
        yield f"  it would last {duration}"
    if explanation.ends_at is not None:
        end = f"{show_moment(explanation.ends_at)} ({show_distance(explanation.ends_at, at)})"
        yield f"  it would end {end}, unless it is preempted or extended"
    if explanation.preempted_leases:
        some = "1 lease" if explanation.preempted_leases == 1 else f"{explanation.preempted_leases} leases"
        yield f"  {some} with {explanation.preempted_vms} VMs would give way to it"
    yield from could_run("open to it", explanation.sites, explanation.barred)
    yield from scores(explanation.domains)


def _verdict(explanation: LeaseExplanation, at: datetime) -> str:
    why = f"{explanation.explanation} ({explanation.reason})"
    there = explanation.elsewhere
    if there is not None:
        free = "1 VM was" if there.free_vms == 1 else f"{there.free_vms} VMs were"
        whom = f"the peer {there.name}" if there.peer else there.name
        return f"would be offered to {whom}, which decides by itself; {free} free when it was last heard of"
    if explanation.state is LeaseState.REFUSED:
        return f"would be refused: it {why}"
    if explanation.state is LeaseState.HELD:
        return f"would wait at the gateway: it {why}"
    if explanation.state is LeaseState.WAITING:
        start = explanation.starts_at
        until = "" if start is None else f" until {show_moment(start)} ({show_distance(start, at)})"
        return f"would wait at {explanation.site}{until}: it {why}"
    return f"would start now at {explanation.site} ({explanation.reason})"


def could_run(head: str, sites: Sequence[str], barred: Iterable[Barred]) -> Iterator[str]:
    """Tell where something could run, and which sites agreements close to it."""
    yield f"  {head}: {', '.join(sites) or 'no site'}"
    for one in barred:
        yield f"    not {one.site}: {one.explanation} ({one.reason})"


def scores(domains: Iterable[DomainOffer]) -> Iterator[str]:
    """Tell how the broker sees the virtual domains."""
    for offer in domains:
        used = f"{100 * offer.used_share:.1f}% used, penalty {offer.penalty}"
        yield f"  {offer.domain}: score {offer.score}, {offer.free_vms} VMs free, {used}"
