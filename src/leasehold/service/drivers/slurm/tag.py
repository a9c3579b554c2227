"""By what is a job known to be ours? By its user, and its comment, or its name where the comment was changed.

Whoever may look at the queue can read both, and any user of the cluster can write the same. So they count for
jobs of the users as whom we submit alone, and carry a secret that nobody knew before the job was submitted.
"""

import re
from dataclasses import dataclass

from leasehold.service.drivers.slurm.job import Job
from leasehold.service.drivers.slurm.users import JobUser

_COMMENT = re.compile(r"leasehold (?P<owner>\w+) lease (?P<lease>\d{1,18})\.(?P<birth>\d{1,18}) (?P<secret>\w+)\b")
_NAME = re.compile(r"leasehold-(?P<lease>\d{1,18})\.(?P<birth>\d{1,18})-(?P<owner>\w+)-(?P<secret>\w+)")

_PROBE = re.compile(r"leasehold (?P<owner>\w+) probe (?P<node>\S+)")


@dataclass(frozen=True, slots=True)
class Tag:
    """Whose job it is: of which ledger, for which lease, born with which incarnation, under which secret."""

    owner: str
    lease_id: int
    birth: int
    secret: str

    @property
    def comment(self) -> str:
        """What is written into the job's comment."""
        return f"leasehold {self.owner} lease {self.lease_id}.{self.birth} {self.secret}"

    @property
    def name(self) -> str:
        """What the job is called. No two leases have the same, so that ``singleton`` holds a double back."""
        return f"leasehold-{self.lease_id}.{self.birth}-{self.owner}-{self.secret}"


def tag_of(job: Job) -> Tag | None:
    """Find the tag of a job; None where it has none, as it is somebody else's."""
    found = _COMMENT.match(job.comment) or _NAME.fullmatch(job.name)
    if found is None:
        return None
    return Tag(found["owner"], int(found["lease"]), int(found["birth"]), found["secret"])


def probe_comment(owner: str, node: str) -> str:
    """What is written into the comment of a job that only looks at a node."""
    return f"leasehold {owner} probe {node}"


def probed_by(job: Job, owner: str, user: JobUser | None) -> str:
    """Say at which node a job of ours looks; empty for any other job."""
    found = _PROBE.fullmatch(job.comment)
    is_ours = found is not None and found["owner"] == owner and user is not None and job.uid == user.uid
    return found["node"] if found and is_ours else ""
