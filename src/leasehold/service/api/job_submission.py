"""From the body of a job to a command, as `leasehold.service.api.submission` for a lease."""

from hashlib import sha256

from leasehold.jobs.job import Backup
from leasehold.matching.needs import Amounts, InputFile, Needs
from leasehold.matching.software import software
from leasehold.model.errors import InvalidField
from leasehold.model.request import LEASE_TYPES
from leasehold.service.api.models.jobs import JobSubmission
from leasehold.service.auth.permissions import require_job
from leasehold.service.auth.principal import Principal
from leasehold.service.commands import SubmitJob


def job_submission(body: JobSubmission, principal: Principal, key: str) -> SubmitJob:
    """Make the command for a job that this caller may ask for; raises InvalidField and Forbidden.

    What depends on the time and on the nodes is left to the federation.
    """
    group = next(iter(principal.groups), "") if body.group is None else body.group
    require_job(principal, group)
    if body.reliability is not None and body.deadline_ms is None:
        raise InvalidField("deadline", None, "a time, as reliability is that of being done by then")
    return SubmitJob(
        consumer=principal.consumer,
        command=tuple(body.command),
        needs=_needs(body),
        name=body.name,
        group=group,
        deadline_ms=body.deadline_ms,
        lease_type=LEASE_TYPES[body.type],
        backup=Backup(body.backup),
        reliability=body.reliability,
        restarts=body.restarts,
        key=key,
        request_hash=_hash(body) if key else "",
        is_foreign=principal.is_foreign,
    )


def _needs(body: JobSubmission) -> Needs:
    return Needs(
        amounts=Amounts(body.cores, body.memory_mib, body.disk_mib),
        execution_ms=body.execution_ms,
        nodes=body.nodes,
        cpu_mhz=body.cpu_mhz,
        software=tuple(software(text) for text in body.software),
        inputs=tuple(InputFile(file.name, file.size_bytes, file.place) for file in body.inputs),
    )


def _hash(body: JobSubmission) -> str:
    """The same for requests that mean the same, and never that of a lease."""
    return sha256(b"job " + body.model_dump_json(exclude_defaults=True).encode()).hexdigest()
