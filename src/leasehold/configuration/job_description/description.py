"""What does a description of a job say? The same, whether it was JSON, XML, options or a form."""

from dataclasses import dataclass
from typing import Any

from leasehold.jobs.job import Backup
from leasehold.matching.needs import Needs
from leasehold.model.request import LeaseType

DEFAULT_MEMORY_MIB = 256
DEFAULT_RESTARTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDescription:
    """One job, as somebody asks for it.

    ``needs``        what each of its nodes must have; its inputs are those of the whole job
    ``deadline_ms``  by when it has to be done, Unix ms
    ``reliability``  how sure it is to be done by then, None where nothing is asked
    """

    command: tuple[str, ...]
    needs: Needs
    name: str = ""
    group: str = ""
    deadline_ms: int | None = None
    reliability: float | None = None
    backup: Backup = Backup.NONE
    lease_type: LeaseType = LeaseType.SUSPENDABLE
    restarts: int = DEFAULT_RESTARTS


def body_of(description: JobDescription) -> dict[str, Any]:
    """Give what a gateway is asked with, but for the deadline, which each side writes in its own way."""
    needs = description.needs
    body: dict[str, Any] = {
        "command": list(description.command),
        "cores": needs.amounts.cores,
        "memory_mib": needs.amounts.memory_mib,
        "disk_mib": needs.amounts.disk_mib,
        "cpu_mhz": needs.cpu_mhz,
        "nodes": needs.nodes,
        "software": [str(one) for one in needs.software],
        "inputs": [{"name": file.name, "size_bytes": file.size_bytes, "place": file.place} for file in needs.inputs],
        "execution_s": _seconds(needs.execution_ms),
        "backup": description.backup.value,
        "type": description.lease_type.label,
        "restarts": description.restarts,
    }
    said = {"name": description.name, "group": description.group, "reliability": description.reliability}
    return body | {key: value for key, value in said.items() if value}


def _seconds(ms: int) -> int | float:
    return ms / 1000 if ms % 1000 else ms // 1000
