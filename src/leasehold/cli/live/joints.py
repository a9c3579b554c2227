"""How joint leases look, how their components are written, and how the stages of a request are told."""

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

import typer

from leasehold.cli.exit_codes import ANSWER_IS_NO
from leasehold.cli.live.durations import show_duration
from leasehold.cli.live.moments import show_distance, show_moment
from leasehold.cli.screen import answer, answer_json, talk
from leasehold.client import Lease
from leasehold.client.joint_calls import ComponentWish
from leasehold.client.joint_records import ComponentEnvironment, Environments, JointComponent, JointLease
from leasehold.client.reading import wire
from leasehold.model.errors import InvalidField

HEADS = ["ID", "STATE", "CLAIM", "CONSUMER", "VMS", "SITES", "IDLE", "START", "REASON"]

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
    why = (
        f": each component {joint.explanation} ({joint.reason})"
        if joint.is_over or not joint.starts_at
        else ""
    )
    start = (
        "" if joint.starts_at is None or joint.is_over else f"; its start is {show_moment(joint.starts_at)}"
    )
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


# The stages of a request that was not made


def answer_explained(told: Environments, *, json: bool) -> None:
    """Answer with the stages of a request; exits with 1 where it would run nowhere now."""
    if json:
        answer_json({"environments": wire(told)})
    else:
        answer("\n".join(explained(told)))
    if not all(told.execution.sites):
        raise typer.Exit(ANSWER_IS_NO)


def explained(told: Environments) -> Iterator[str]:
    """Tell the three stages of a request, and how the broker sees its domains."""
    for number, component in enumerate(told.components, 1):
        head = f"component {number}: " if len(told.components) > 1 else ""
        yield from _stages(head, component)
    yield f"execution environment: {_placed(told)}"
    for offer in told.domains:
        used = f"{100 * offer.used_share:.1f}% used, penalty {offer.penalty}"
        yield f"  {offer.domain}: score {offer.score}, {offer.free_vms} VMs free, {used}"


def _stages(head: str, component: ComponentEnvironment) -> Iterator[str]:
    yield f"{head}virtual environment: {_listed(component.virtual)}"
    yield f"{head}extended virtual environment: {_listed(component.extended)}"
    for barred in component.barred:
        yield f"  not {barred.site}: {barred.explanation} ({barred.reason})"


def _placed(told: Environments) -> str:
    if not all(told.execution.sites):
        return f"none now: it {told.explanation} ({told.reason})"
    start = told.execution.starts_at
    return ", ".join(told.execution.sites) + ("" if start is None else f", from {show_moment(start)}")


def _listed(sites: Sequence[str]) -> str:
    return ", ".join(sites) or "no site"
