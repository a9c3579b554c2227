"""By what is a job known to be ours? By its comment, and by its name where the comment was changed."""

import re
from dataclasses import dataclass

from leasehold.service.enactors.slurm.job import Job

_COMMENT = re.compile(r"leasehold (?P<owner>\w+) lease (?P<lease>\d+)\.(?P<birth>\d+)\b")
_NAME = re.compile(r"leasehold-(?P<lease>\d+)\.(?P<birth>\d+)-(?P<owner>\w+)")

_PROBE = re.compile(r"leasehold (?P<owner>\w+) probe (?P<node>\S+)")


@dataclass(frozen=True, slots=True)
class Tag:
    """Whose job it is: of which ledger, for which lease, born with which incarnation."""

    owner: str
    lease_id: int
    birth: int

    @property
    def comment(self) -> str:
        """What is written into the job's comment."""
        return f"leasehold {self.owner} lease {self.lease_id}.{self.birth}"

    @property
    def name(self) -> str:
        """What the job is called. No two leases have the same, so that ``singleton`` holds a double back."""
        return f"leasehold-{self.lease_id}.{self.birth}-{self.owner}"


def tag_of(job: Job) -> Tag | None:
    """Find the tag of a job; None where it has none, as it is somebody else's."""
    found = _COMMENT.match(job.comment) or _NAME.fullmatch(job.name)
    return Tag(found["owner"], int(found["lease"]), int(found["birth"])) if found else None


def probe_comment(owner: str, node: str) -> str:
    """What is written into the comment of a job that only looks at a node."""
    return f"leasehold {owner} probe {node}"


def probed_by(job: Job, owner: str) -> str:
    """Say at which node a job of ours looks; empty for any other job."""
    found = _PROBE.fullmatch(job.comment)
    return found["node"] if found and found["owner"] == owner else ""
