"""An agreement tried out: requests of a run, a scenario or a gateway, replayed without and with it.

Heavy: imported once an agreement is tried.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from leasehold.analysis.wording import NOTHING, count, number
from leasehold.cli.live import times
from leasehold.cli.live.gateway import gateway
from leasehold.cli.screen import answer, answer_table, talk
from leasehold.client import Agreement as ShownAgreement
from leasehold.client import Client, Lease, Site
from leasehold.configuration.agreements import AgreementDocument, agreement_from_dict, read_document
from leasehold.configuration.keys import Keys
from leasehold.configuration.tables import DomainSpec, SharingSpec, claims_of
from leasehold.configuration.terms import LIVE_POLICY, ClusterTerms
from leasehold.configuration.times import RunTime
from leasehold.configuration.toml import read_toml
from leasehold.model.agreement import Agreement, Standing
from leasehold.model.errors import InvalidField
from leasehold.model.lease import LeaseState
from leasehold.model.request import LEASE_TYPES
from leasehold.simulation.scenario.spec import ClusterSpec, Scenario
from leasehold.simulation.what_if import Count, PlayedRequests, SideBySide, WhatIf, requests_of, with_document
from leasehold.simulation.workload.job import WorkloadJob
from leasehold.study import scenario_of

_COLUMNS = ["", "", "requests", "mean wait", "95 % less", "preempted", "refused", "slot-h"]
_FIGURES = range(2, len(_COLUMNS))


def past_of_run(source: str) -> PlayedRequests:
    """Take the requests of a run folder or scenario; raises InputError or InvalidField for what is none."""
    return requests_of(scenario_of(source))


_MILLISECOND = timedelta(milliseconds=1)


def past_of_gateway(days: float) -> PlayedRequests:
    """Fetch what was asked of the gateway in so many days, its sites, and what is agreed there now.

    A lease that was not preempted runs as long as it ran; others for as long as they asked. Those that were
    taken back before they began are left out. Raises InvalidField where nothing was asked.
    """
    since = times.now() - timedelta(days=days)
    with gateway() as client:
        leases = [lease for lease in _since(client, since) if not _was_withdrawn(lease)]
        scenario = _scenario(client.sites.list(), client.agreements.list(), since)
    if not leases:
        raise InvalidField("--days", days, "more: the gateway received no requests in this time")
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
        agreements=tuple(_in_force(agreements, RunTime(starts_at_ms))),
    )


def _cluster(site: Site) -> ClusterSpec:
    # Reservations as live gateways make them; to replan all waiting leases each time takes far longer.
    terms = ClusterTerms(speed_mips=site.speed_mips, local_policy=LIVE_POLICY, guest_policy=LIVE_POLICY)
    return ClusterSpec(site.name, site.slots, terms, site.resources)


def _in_force(agreements: Iterable[ShownAgreement], clock: RunTime) -> list[Agreement]:
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


def checked_document(path: Path, past: PlayedRequests) -> AgreementDocument:
    """Read a file of agreements that are to fit this past; raises InputError with file and line."""
    file = read_toml(path)
    with file.naming_lines():
        document = read_document(Keys(file.values), past.scenario.clock)
        with_document(past.scenario, document)
    return document


def show_trial(trial: WhatIf) -> None:
    """Print what everybody gets as it is and with the document, and what that changes."""
    for title, rows in (("consumer", trial.consumers), ("guests at", trial.providers)):
        lines = [line for row in rows for line in _lines(row)]
        answer_table([title, *_COLUMNS[1:]], lines, _FIGURES)
        answer("")
    for name, (held, refused) in trial.held.items():
        answer(f"{name}: holds {count(held, 'guest')} back, refuses {number(refused)}")


def _lines(row: SideBySide) -> list[list[str]]:
    if row.without == row.with_it:
        return [[row.name, "the same", *_cells(row.without)]]
    changes = _difference(row.without, row.with_it)
    return [
        [row.name, "as it is", *_cells(row.without)],
        ["", "with it", *_cells(row.with_it)],
        ["", "change", *(_signed(changes[key], shown) for key, shown in _SHOWN.items())],
    ]


def _cells(count_: Count) -> list[str]:
    values = asdict(count_)
    return [shown(values[key]) for key, shown in _SHOWN.items()]


def _signed(change: float | None, shown: Callable[[float | None], str]) -> str:
    """Write a change with its sign; nothing for none, or for one too small to be seen."""
    if not change or shown(abs(change)) == shown(0):
        return ""
    return f"{'+' if change > 0 else '-'}{shown(abs(change))}"


def _time(seconds: float | None) -> str:
    return NOTHING if seconds is None else times.show_duration(seconds)


def _hours(hours: float | None) -> str:
    return number(hours, 1)


_SHOWN: dict[str, Callable[[float | None], str]] = {
    "requests": number,
    "wait_mean_s": _time,
    "wait_p95_s": _time,
    "preemptions": number,
    "refused": number,
    "slot_h": _hours,
}
"""How each number of a `Count` is written."""


def as_json(trial: WhatIf) -> dict[str, Any]:
    """Give the same for a program, with every difference."""
    return {
        "consumers": _rows(trial.consumers),
        "providers": _rows(trial.providers),
        "agreements": [
            {"agreement": name, "held_back": held, "refused": refused} for name, (held, refused) in trial.held.items()
        ],
    }


def _rows(rows: Sequence[SideBySide]) -> list[dict[str, Any]]:
    return [
        {
            "name": row.name,
            "without": asdict(row.without),
            "with": asdict(row.with_it),
            "difference": _difference(row.without, row.with_it),
        }
        for row in rows
    ]


def _difference(before: Count, after: Count) -> dict[str, float | None]:
    """Subtract what was from what would be; None where one of them could not be measured."""
    first, second = asdict(before), asdict(after)
    return {key: None if first[key] is None or second[key] is None else second[key] - first[key] for key in first}
