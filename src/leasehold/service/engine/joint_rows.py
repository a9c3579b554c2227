"""Between the joint requests of the decision core and the rows of the store."""

import json
from dataclasses import asdict, dataclass
from typing import Any

from leasehold.model.joint import Claim, Component, Joint, JointRequest, JointState, Part
from leasehold.model.reason import Reason
from leasehold.service.store.rows import JointRow


@dataclass(frozen=True, slots=True)
class JointParticulars:
    """What is known of a joint request besides what decisions are made with; its leases have the same."""

    name: str = ""
    command: tuple[str, ...] = ()


def row_of_joint(joint: Joint, about: JointParticulars) -> JointRow:
    """Write a joint request down."""
    request = joint.request
    document = {
        "components": [asdict(component) for component in request.components],
        "parts": [asdict(part) for part in joint.parts],
        "command": about.command,
        "tries": request.tries,
        "retries": request.retries,
        "margin_ms": request.margin_ms,
        "wait_ppm": request.wait_ppm,
        "is_foreign": request.is_foreign,
        "claim_ms": joint.claim_ms,
        "tried": joint.tried,
    }
    return JointRow(
        id=joint.id,
        name=about.name,
        consumer=request.consumer,
        group=request.group,
        claim=request.claim.value,
        place=request.place,
        state=joint.state.value,
        reason=joint.reason.value,
        submit_ms=request.submit_ms,
        ready_ms=request.ready_ms,
        deadline_ms=request.deadline_ms,
        start_ms=joint.start_ms,
        idle_vm_ms=joint.idle_vm_ms,
        first_lease_id=request.lease_ids.start,
        last_lease_id=request.lease_ids.stop - 1,
        end_ms=joint.end_ms if joint.end_ms >= 0 else None,
        document=json.dumps(document),
    )


def about_joint(row: JointRow) -> JointParticulars:
    """Read what decisions are not made with."""
    return JointParticulars(row.name, tuple(json.loads(row.document)["command"]))


def joint_of(row: JointRow) -> Joint:
    """Read an open joint request as the decision core knew it."""
    document = json.loads(row.document)
    request = JointRequest(
        row.id,
        tuple(_component(told) for told in document["components"]),
        row.submit_ms,
        row.ready_ms,
        row.first_lease_id,
        row.consumer,
        row.group,
        Claim(row.claim),
        row.place,
        row.deadline_ms,
        **{name: document[name] for name in ("tries", "retries", "margin_ms", "wait_ppm", "is_foreign")},
    )
    return Joint(
        request,
        [Part(**part) for part in document["parts"]],
        JointState(row.state),
        row.start_ms,
        document["claim_ms"],
        document["tried"],
        row.idle_vm_ms,
        Reason(row.reason),
    )


def parts_of(row: JointRow) -> list[tuple[Component, Part]]:
    """Read the components, with how things stand with each."""
    document = json.loads(row.document)
    parts = [Part(**part) for part in document["parts"]]
    return list(zip(map(_component, document["components"]), parts, strict=True))


def _component(told: dict[str, Any]) -> Component:
    return Component(**(told | {"files": tuple((site, mib) for site, mib in told["files"])}))
