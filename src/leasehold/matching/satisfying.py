"""Does a node satisfy a job's needs: never here, not now, or yes?

Rule: what the node has not even when empty is a *never here*, what it has but others use a *not now*. The
first that is lacking is told, in this order: software, cores, memory, speed, disk, deadline; then how old
the facts are, cores, memory, disk in use, and a queue that makes it late.

The deadline is met if ``deadline > now + transfer + execution`` (Thamarai Selvi et al., section 5,
criterion 3). The printed criterion is meant for lightly loaded nodes and leaves their queues out; a node
whose queue makes it late is a *not now* here.
"""

from dataclasses import dataclass

from leasehold.matching.capabilities import Capabilities, Node
from leasehold.matching.needs import Job, Needs
from leasehold.matching.software import has_software
from leasehold.matching.verdict import FITS, Verdict, Why, never, wait


@dataclass(frozen=True, slots=True)
class Moment:
    """When a node is judged, and how old what is known of it may be (None: as old as it likes)."""

    now_ms: int
    fresh_for_ms: int | None = None

    @property
    def oldest_ms(self) -> float:
        """What was seen no earlier than then can still be relied upon."""
        return float("-inf") if self.fresh_for_ms is None else self.now_ms - self.fresh_for_ms


def judge(job: Job, node: Node, transfer_ms: int, moment: Moment) -> Verdict:
    """Say whether a node serves a job, whose inputs would take ``transfer_ms`` to it."""
    there = has_software(job.needs.software, node.capabilities.software)
    if there is not FITS:
        return there
    return judge_machine(job, node, transfer_ms, moment)


def judge_machine(job: Job, node: Node, transfer_ms: int, moment: Moment) -> Verdict:
    """Judge all but the software."""
    begun_ms = moment.now_ms + transfer_ms + node.waiting_ms
    if (
        job.needs.cpu_mhz <= node.capabilities.cpu_mhz
        and node.free.holds(job.needs.amounts)
        and (job.deadline_ms is None or begun_ms + job.needs.execution_ms < job.deadline_ms)
        and node.seen_ms >= moment.oldest_ms
    ):
        return FITS
    return _why_not(job, node, transfer_ms, moment)


def _why_not(job: Job, node: Node, transfer_ms: int, moment: Moment) -> Verdict:
    lacking = _never_has(job.needs, node.capabilities)
    if lacking is not None:
        return never(lacking)
    earliest_ms = moment.now_ms + transfer_ms + job.needs.execution_ms
    if job.deadline_ms is not None and earliest_ms >= job.deadline_ms:
        return never(Why.DEADLINE_TOO_TIGHT)
    if node.seen_ms < moment.oldest_ms:
        return wait(Why.FACTS_TOO_OLD)
    return wait(_is_in_use(job.needs, node) or Why.DEADLINE_BEHIND_QUEUE)


def _never_has(needs: Needs, node: Capabilities) -> Why | None:
    lacking = (
        (needs.amounts.cores > node.total.cores, Why.TOO_FEW_CORES),
        (needs.amounts.memory_mib > node.total.memory_mib, Why.TOO_LITTLE_MEMORY),
        (needs.cpu_mhz > node.cpu_mhz, Why.CPU_TOO_SLOW),
        (needs.amounts.disk_mib > node.total.disk_mib, Why.TOO_LITTLE_DISK),
    )
    return next((why for lacks, why in lacking if lacks), None)


def _is_in_use(needs: Needs, node: Node) -> Why | None:
    lacking = (
        (needs.amounts.cores > node.free.cores, Why.CORES_IN_USE),
        (needs.amounts.memory_mib > node.free.memory_mib, Why.MEMORY_IN_USE),
        (needs.amounts.disk_mib > node.free.disk_mib, Why.DISK_IN_USE),
    )
    return next((why for lacks, why in lacking if lacks), None)
