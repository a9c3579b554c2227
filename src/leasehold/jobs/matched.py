"""Which jobs of a round choose together, so that all of them wait least? The others choose in turn.

Rule: where the operator wants optimal matching, jobs that stand one behind the other in the queue are matched
together, each node to one of them, at the least sum of transfer and waiting times; whoever gets none that way
looks at what is left in its turn. Jobs of several nodes, which have to be of one site, jobs that ask to be
sure and jobs that want copies choose alone, between those before and those behind them, so that no later job
costs an earlier one its place.
Source: Thamarai Selvi et al., section 4.3, by `leasehold.matching.assignment`.
"""

from collections.abc import Sequence
from itertools import groupby

from leasehold.jobs.job import Backup, JobRecord, JobState, Place, has_lost_a_place
from leasehold.jobs.lateness import is_too_late
from leasehold.jobs.office import Office
from leasehold.jobs.placing import Placer
from leasehold.jobs.settings import Matching
from leasehold.matching.assignment import optimal
from leasehold.matching.choice import Physical
from leasehold.matching.resource_sets import JointResourceSets


class TogetherOrInTurn:
    """Parts a round into jobs that choose together."""

    def __init__(self, office: Office, placer: Placer) -> None:
        self._settings = office.settings
        self._floor = office.floor
        self._solve = office.solve
        self._choosing = placer.choosing

    def groups(self, listed: Sequence[JobRecord]) -> list[list[JobRecord]]:
        """List who chooses together, in the order of the queue."""
        groups: list[list[JobRecord]] = []
        for together, records in groupby(listed, key=self._may_be_matched):
            behind_each_other = list(records)
            groups += [behind_each_other] if together else [[record] for record in behind_each_other]
        return groups

    def match(self, together: Sequence[JobRecord], now_ms: int) -> dict[int, Place]:
        """Give the places of those who are matched; one alone is none."""
        in_time = [record for record in together if not is_too_late(record, now_ms)]
        if len(in_time) < _TWO:
            return {}
        jobs = [record.request.job for record in in_time]
        moment = self._choosing.moment(now_ms)
        graph = JointResourceSets(self._floor.whole.index, moment, len(jobs), self._settings.best_fit)
        found = optimal(jobs, graph, self._solve)
        return {job_id: Physical(edges) for job_id, edges in found.placed.items()}

    def _may_be_matched(self, record: JobRecord) -> bool:
        request = record.request
        return (
            self._settings.matching is Matching.OPTIMAL
            and record.state is JobState.WAITING
            and request.job.needs.nodes == 1
            and request.backup is not Backup.HOT
            and request.reliability is None
            and not has_lost_a_place(record)
        )


_TWO = 2
"""As many choose together at least."""
