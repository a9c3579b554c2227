"""What was asked of a gateway lately, as something that can be played again."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from leasehold.analysis.wording import count
from leasehold.cli.live.gateway import gateway
from leasehold.cli.live.times import now
from leasehold.cli.screen import talk
from leasehold.client import Agreement as ShownAgreement
from leasehold.client import Client, Lease, Site
from leasehold.configuration.agreements import agreement_from_dict
from leasehold.configuration.tables import DomainSpec, SharingSpec, claims_of
from leasehold.configuration.terms import LIVE_POLICY, ClusterTerms
from leasehold.configuration.times import RunTime
from leasehold.model.agreement import Agreement, Standing
from leasehold.model.errors import InvalidField
from leasehold.model.lease import LeaseState
from leasehold.model.request import LEASE_TYPES
from leasehold.simulation.scenario.spec import ClusterSpec, Scenario
from leasehold.simulation.what_if import PlayedRequests
from leasehold.simulation.workload.job import WorkloadJob

_MILLISECOND = timedelta(milliseconds=1)


def past_of_gateway(days: float) -> PlayedRequests:
    """Fetch what was asked of the gateway in so many days, its sites, and what is agreed there now.

    A lease that nobody preempted runs as long as it ran; others for as long as they asked. Those that were
    taken back before they began are left out. Raises InvalidField where nothing was asked.
    """
    since = now() - timedelta(days=days)
    with gateway() as client:
        leases = [lease for lease in _since(client, since) if not _was_withdrawn(lease)]
        scenario = _scenario(client.sites.list(), client.agreements.list(), since)
    if not leases:
        raise InvalidField("--days", days, "more of them: nothing was asked of the gateway in these")
    jobs = sorted((_job(lease, since, scenario) for lease in leases), key=lambda job: job.submit_ms)
    how = f"guests are routed by {scenario.gateway.policy}"
    talk(f"{count(len(jobs), 'lease')} since {since:%Y-%m-%d %H:%M} UTC; {how}")
    return PlayedRequests(scenario, lambda: iter([replace(job) for job in jobs]))


def _since(client: Client, since: datetime) -> Iterator[Lease]:
    """Give the leases submitted since then, the latest first."""
    for lease in client.leases.list():
        if lease.submitted_at < since:
            return
        yield lease


def _was_withdrawn(lease: Lease) -> bool:
    return lease.state is LeaseState.CANCELLED and lease.started_at is None


def _scenario(sites: Iterable[Site], agreements: Iterable[ShownAgreement], since: datetime) -> Scenario:
    """Make clusters of the sites; the slowest is taken to be of the speed that durations refer to."""
    sites = list(sites)
    clusters = tuple(_cluster(site) for site in sites)
    names = dict.fromkeys(site.domain for site in sites if site.domain)
    members = {name: tuple(site.name for site in sites if site.domain == name) for name in names}
    starts_at_ms = (since - datetime(1970, 1, 1, tzinfo=UTC)) // _MILLISECOND
    return Scenario(
        name="live",
        streams=(),
        clusters=clusters,
        reference_mips=min((site.speed_mips for site in sites), default=1),
        sharing=SharingSpec(starts_at_ms=starts_at_ms),
        domains=tuple(DomainSpec(name, there) for name, there in members.items()),
        agreements=tuple(_signed(agreements, RunTime(starts_at_ms))),
    )


def _cluster(site: Site) -> ClusterSpec:
    # Reservations as live gateways make them; to plan everybody who waits anew each time takes far longer.
    terms = ClusterTerms(speed_mips=site.speed_mips, local_policy=LIVE_POLICY, guest_policy=LIVE_POLICY)
    return ClusterSpec(site.name, site.slots, terms, site.resources)


def _signed(agreements: Iterable[ShownAgreement], clock: RunTime) -> list[Agreement]:
    """Give those that are signed, with everything that they are a part of."""
    signed = [one for one in agreements if one.standing == Standing.SIGNED]
    found = {one.name: agreement_from_dict(one.current.terms, clock) for one in signed}
    while parentless := [name for name, one in found.items() if one.parent and one.parent not in found]:
        for name in parentless:
            del found[name]
    return list(found.values())


def _job(lease: Lease, since: datetime, scenario: Scenario) -> WorkloadJob:
    requested_ms = max(1, round(lease.duration_s * 1000))
    return WorkloadJob(
        submit_ms=(lease.submitted_at - since) // _MILLISECOND,
        vms=lease.vms,
        requested_ms=requested_ms,
        actual_ms=min(_ran_ms(lease, scenario) or requested_ms, requested_ms),
        consumer=lease.consumer,
        source_id=str(lease.id),
        lease_type=LEASE_TYPES[lease.type],
        site=lease.home if lease.local else None,
        ready_ms=(lease.ready_at - since) // _MILLISECOND,
        deadline_ms=None if lease.deadline_at is None else (lease.deadline_at - since) // _MILLISECOND,
        memory_mib=lease.memory_mib,
        source="live",
        group=lease.group,
        domain=lease.domain,
        claims=claims_of(lease.claims),
    )


def _ran_ms(lease: Lease, scenario: Scenario) -> int | None:
    """Say how long it ran, at the reference speed; None where it was preempted, or did not run to its end."""
    if lease.state is not LeaseState.COMPLETED or lease.preemptions or lease.migrations:
        return None
    if lease.started_at is None or lease.ended_at is None:
        return None
    speeds = {cluster.name: cluster.terms.speed_mips for cluster in scenario.clusters}
    ran_ms = (lease.ended_at - lease.started_at) // _MILLISECOND
    return max(1, ran_ms * speeds.get(lease.site, scenario.reference_mips) // scenario.reference_mips)
