"""Why is a job as it is? The desk's reason as a sentence, and with it what matching has found lacking."""

from leasehold.jobs.why import JobReason
from leasehold.jobs.why import sentence as of_job
from leasehold.matching.verdict import Why
from leasehold.matching.verdict import sentence as of_matching

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


def explain_job(reason: JobReason, what: str) -> str:
    """Say why, in words; ``what`` is one of `Why`, with what is missing after a colon, or something else."""
    name, _, missing = what.partition(": ")
    if name not in _WHYS:
        return of_job(reason)
    why = Why(name)
    subject = "the nearest node" if why in _ABOUT_NODES else "it"
    return f"{of_job(reason)}: {subject} {of_matching(why)}" + (f" ({missing})" if missing else "")
