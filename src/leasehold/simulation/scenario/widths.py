"""Is every request one that some cluster could ever serve? A wrong size of a cluster shows itself here."""

from collections.abc import Iterator

from leasehold.model.errors import InvalidField
from leasehold.simulation.scenario.spec import Scenario
from leasehold.simulation.workload.job import Job
from leasehold.simulation.workload.splitting import widest_part


def fitting(jobs: Iterator[Job], scenario: Scenario) -> Iterator[Job]:
    """Pass the jobs on, all of them where the scenario leaves too wide ones to the clusters.

    ``scenario`` has its sizes settled (`sizes.with_sizes`). Otherwise raises InvalidField at the first job
    that is wider than its own cluster or, from outside, than every cluster; of a co-allocation its widest
    component counts.
    """
    return jobs if scenario.too_wide == "refuse" else _all_fitting(jobs, scenario)


def _all_fitting(jobs: Iterator[Job], scenario: Scenario) -> Iterator[Job]:
    slots: dict[str | None, int] = {c.name: c.slots for c in scenario.clusters if isinstance(c.slots, int)}
    slots[None] = max(slots.values(), default=0)
    for job in jobs:
        # A cluster that nobody knows is reported by whoever looks it up.
        vms = widest_part(job)
        if vms > slots.get(job.site, vms):
            where = "the widest cluster" if job.site is None else f"its cluster {job.site}"
            expected = f'at most {slots[job.site]}, what {where} has (or too_wide = "refuse")'
            raise InvalidField(f"{job.source} job {job.source_id}: VMs", vms, expected)
        yield job
