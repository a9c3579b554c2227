"""Why is a job as it is? The desk's reason as a sentence, and with it what matching has found lacking."""

from leasehold.jobs.why import JobReason
from leasehold.jobs.why import sentence as of_job
from leasehold.matching.verdict import Why
from leasehold.matching.verdict import sentence as of_matching
from leasehold.model.reason import Reason
from leasehold.model.reason import sentence as of_lease

_ABOUT_NODES = frozenset(
    {
        Why.SOFTWARE_NOT_THERE,
        Why.SOFTWARE_OTHER_VERSION,
        Why.TOO_FEW_CORES,
        Why.TOO_LITTLE_MEMORY,
        Why.CPU_TOO_SLOW,
        Why.TOO_LITTLE_DISK,
        Why.FACTS_TOO_OLD,
        Why.CORES_IN_USE,
        Why.MEMORY_IN_USE,
        Why.DISK_IN_USE,
    }
)
"""Their sentences say something of a node, those of the others of the job."""

_WHYS = frozenset(Why)
_REASONS = frozenset(Reason)
_AT_SITE = frozenset({JobReason.WAITS_AT_SITE, JobReason.SUSPENDED})
"""What is beside them is the reason of the site."""

_WITH_DETAIL = frozenset({JobReason.NODES_DOWN, JobReason.NODE_FULL, JobReason.SITE_SAID_NOT_NOW})
"""What is beside them says which nodes, or what was said."""


def explain_job(reason: JobReason, what: str) -> str:
    """Say why, in words; ``what`` is one of `Why`, with what is missing after a colon, or something else."""
    if reason in _AT_SITE and what in _REASONS:
        return f"{of_job(reason)}: it {of_lease(Reason(what))}"
    name, _, missing = what.partition(": ")
    if reason is JobReason.WAITS_ITS_TURN:
        return of_job(reason)  # what matching says of it is the same
    if name not in _WHYS:
        return f"{of_job(reason)} ({what})" if what and reason in _WITH_DETAIL else of_job(reason)
    why = Why(name)
    subject = "the nearest node" if why in _ABOUT_NODES else "it"
    return f"{of_job(reason)}: {subject} {of_matching(why)}" + (f" ({missing})" if missing else "")
