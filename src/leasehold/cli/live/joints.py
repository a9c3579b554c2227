"""How joint leases look, how their components are written, and how the stages of a request are told."""

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

import typer

from leasehold.cli.exit_codes import ANSWER_IS_NO
from leasehold.cli.live.durations import show_duration
from leasehold.cli.live.moments import show_distance, show_moment
from leasehold.cli.live.wording import ADVICE, by_the_clock
from leasehold.cli.screen import answer, answer_json, talk
from leasehold.client import Lease
from leasehold.client.joint_calls import ComponentWish
from leasehold.client.joint_records import (
    Barred,
    DomainOffer,
    JointComponent,
    JointExplanation,
    JointLease,
    LeaseExplanation,
)
from leasehold.client.reading import wire
from leasehold.model.errors import InvalidField
from leasehold.model.lease import LeaseState

HEADS = ["ID", "STATE", "CLAIM", "CONSUMER", "VMS", "SITES", "IDLE", "START", "REASON"]

REFUSED = "refused"

_COMPONENT = re.compile(r"(?P<vms>[0-9]+)(@(?P<site>[^:@,]+))?(:(?P<files>.+))?", re.ASCII)
_FILE = re.compile(r"(?P<mib>[0-9]+)@(?P<site>[^:@,]+)", re.ASCII)


def read_components(texts: Iterable[str], memory_mib: int | None) -> list[ComponentWish]:
    """Read components such as ``4``, ``4@delft`` and ``8:2048@lyon``; raises InvalidField."""
    return [_component(text, memory_mib) for text in texts]


def _component(text: str, memory_mib: int | None) -> ComponentWish:
    found = _COMPONENT.fullmatch(text)
    files = [] if found is None or not found["files"] else found["files"].split(",")
    parts = [_FILE.fullmatch(file) for file in files]
    if found is None or int(found["vms"]) < 1 or None in parts:
        raise InvalidField("--component", text, "VMs, and where, as in 4, 4@delft or 8:2048@lyon")
    return ComponentWish(
        vms=int(found["vms"]),
        memory_mib=memory_mib,
        site=found["site"] or "",
        files=[{"site": part["site"], "mib": int(part["mib"])} for part in parts if part is not None],
    )


def show_number(joint: JointLease) -> None:
    """Answer with the number of a joint lease, and say beside it how it stands."""
    answer(str(joint.id))
    talk(f"leasehold: {standing(joint)}")


def standing(joint: JointLease) -> str:
    """Say in one sentence how a joint lease stands, and why."""
    why = f": each component {joint.explanation} ({joint.reason})" if joint.is_over or not joint.starts_at else ""
    start = "" if joint.starts_at is None or joint.is_over else f"; its start is {show_moment(joint.starts_at)}"
    return f"joint lease {joint.id} is {joint.state}{_at(joint)}{why}{start}"


def _at(joint: JointLease) -> str:
    return f" at {_sites(joint)}" if any(one.site for one in joint.components) else ""


def _sites(joint: JointLease) -> str:
    return ",".join(component.site or "-" for component in joint.components)


def overview(joints: Iterable[JointLease]) -> list[list[str]]:
    """Show each joint lease in a line."""
    return [
        [
            str(one.id),
            one.state,
            one.claim,
            one.consumer,
            "+".join(str(component.vms) for component in one.components),
            _sites(one),
            show_duration(one.idle_vm_s) if one.idle_vm_s else "",
            "" if one.starts_at is None else show_moment(one.starts_at),
            one.reason,
        ]
        for one in joints
    ]


def account(joint: JointLease, leases: Sequence[Lease], at: datetime) -> Iterator[str]:
    """Tell all that is known of a joint lease, line by line."""
    yield standing(joint)
    for name, value in _facts(joint, at):
        if value:
            yield f"  {name:<10}  {value}"
    for component, lease in zip(joint.components, leases, strict=True):
        yield f"  {'component':<10}  {_asked(component)}: lease {lease.id} is {_where(lease)}"


def _facts(joint: JointLease, at: datetime) -> Iterator[tuple[str, str]]:
    yield "name", joint.name
    yield "consumer", f"{joint.consumer}, group {joint.group}" if joint.group else joint.consumer
    yield "claim", f"{joint.claim}, placed by {joint.place}"
    for name, moment in (
        ("submitted", joint.submitted_at),
        ("deadline", joint.deadline_at),
        ("start", joint.starts_at),
        ("ended", joint.ended_at),
    ):
        if moment is not None:
            yield name, f"{show_moment(moment)} ({show_distance(moment, at)})"
    yield "held idle", f"{joint.idle_vm_s:g} VM-seconds" if joint.idle_vm_s else ""


def _asked(component: JointComponent) -> str:
    where = f" at {component.wanted_site}" if component.wanted_site else ""
    files = "".join(f", {file.mib} MiB from {file.site}" for file in component.files)
    return f"{component.vms} VMs{where} for {show_duration(component.duration_s)}{files}"


def _where(lease: Lease) -> str:
    return f"{lease.state} at {lease.site}" if lease.site else f"{lease.state} ({lease.reason})"


# What would become of a request that was not made


def answer_explained_joint(told: JointExplanation, *, json: bool) -> None:
    """Answer with what would become of a joint lease; exits with 1 where it would be refused."""
    if json:
        answer_json({"explanation": wire(told)})
    else:
        answer("\n".join(_explained_joint(told)))
    if told.state == REFUSED:
        raise typer.Exit(ANSWER_IS_NO)


def _explained_joint(told: JointExplanation) -> Iterator[str]:
    yield _outlook(told)
    for number, component in enumerate(told.components, 1):
        yield from could_run(f"component {number} could run at", component.extended, component.barred)
    yield from scores(told.domains)


def _outlook(told: JointExplanation) -> str:
    if told.state == REFUSED:
        return f"would be refused: each component {told.explanation} ({told.reason})"
    if not all(told.sites):
        return f"would wait at the gateway: each component {told.explanation} ({told.reason})"
    start = "" if told.starts_at is None else f", from {show_moment(told.starts_at)}"
    return f"would run at {', '.join(told.sites)}{start}"


def answer_explained(told: LeaseExplanation, duration_s: float, at: datetime, *, json: bool) -> None:
    """Answer with what would become of a lease of this duration; exits with 1 where it would be refused."""
    if json:
        answer_json({"explanation": wire(told)})
    else:
        answer("\n".join(_explained(told, duration_s, at)))
    if told.state is LeaseState.REFUSED:
        raise typer.Exit(ANSWER_IS_NO)


def _explained(told: LeaseExplanation, duration_s: float, at: datetime) -> Iterator[str]:
    yield _verdict(told, at)
    if told.state is LeaseState.REFUSED and told.reason in ADVICE:
        yield f"  {ADVICE[told.reason]}"
    if duration := by_the_clock(duration_s, told.walltime_s, told.site):
        yield f"  it would last {duration}"
    if told.ends_at is not None:
        end = f"{show_moment(told.ends_at)} ({show_distance(told.ends_at, at)})"
        yield f"  it would end {end}, unless it is preempted or extended"
    if told.preempted_leases:
        some = "1 lease" if told.preempted_leases == 1 else f"{told.preempted_leases} leases"
        yield f"  {some} with {told.preempted_vms} VMs would give way to it"
    yield from could_run("open to it", told.sites, told.barred)
    yield from scores(told.domains)


def _verdict(told: LeaseExplanation, at: datetime) -> str:
    why = f"{told.explanation} ({told.reason})"
    there = told.elsewhere
    if there is not None:
        free = "1 VM was" if there.free_vms == 1 else f"{there.free_vms} VMs were"
        whom = f"the peer {there.name}" if there.peer else there.name
        return f"would be offered to {whom}, which decides by itself; {free} free when it was last heard of"
    if told.state is LeaseState.REFUSED:
        return f"would be refused: it {why}"
    if told.state is LeaseState.HELD:
        return f"would wait at the gateway: it {why}"
    if told.state is LeaseState.WAITING:
        start = told.starts_at
        until = "" if start is None else f" until {show_moment(start)} ({show_distance(start, at)})"
        return f"would wait at {told.site}{until}: it {why}"
    return f"would start now at {told.site} ({told.reason})"


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
