"""When will it start, when will it go on, when is it over; and what may move that.

Futures of a snapshot (`leasehold.forecasting.futures`) say what may come, the record of earlier predictions how far
to trust that (`leasehold.forecasting.calibration`).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from leasehold.forecasting.calibration import CONTINUES, END, START, Calibration, Interval, Kind, Raw
from leasehold.forecasting.futures import Fate, Forecast, Future, learnt_by, simulate
from leasehold.forecasting.snapshot import Snapshot
from leasehold.model.lease import Lease, LeaseState
from leasehold.model.request import LeaseType, Request

OWN = "own"
"""Whom predictions for own users' requests are for; guests are told apart by their lease type."""

_SHARE_KNOWN = 0.95
"""In so many futures something has to happen by the horizon for a time to be said at all."""

_MOVES = 0.3
"""From this rank correlation on with what is to be predicted, a cause is named."""

_FEWEST_TO_CORRELATE = 10
_SUSPENDED = frozenset({LeaseState.SUSPENDING, LeaseState.SUSPENDED})


@dataclass(frozen=True, slots=True)
class Estimate:
    """One prediction about one lease.

    ``what``      one of `leasehold.forecasting.calibration.WHAT`
    ``interval``  None where it may not happen in the time that was looked at
    ``raw``       what the futures said by themselves
    ``sites``     where it starts or continues, by the share of futures
    ``moved_by``  what may move it, the most likely cause first
    """

    lease_id: int
    kind: Kind
    made_ms: int
    interval: Interval | None
    raw: Raw | None
    sites: tuple[tuple[str, float], ...]
    moved_by: tuple[str, ...]

    @property
    def what(self) -> str:
        """What is predicted."""
        return self.kind.what


@dataclass(frozen=True, slots=True)
class LeaseEstimates:
    """What is said of one lease.

    ``preempted_share``  the share of futures in which it is preempted before its end
    """

    lease_id: int
    estimates: tuple[Estimate, ...]
    preempted_share: float

    @property
    def starts(self) -> Interval | None:
        """When it starts, or continues; None where it has machines, or that cannot be said."""
        return next((one.interval for one in self.estimates if one.what != END), None)


def whom(request: Request) -> str:
    """Say for whom a request is, as `Kind` has it."""
    return OWN if request.is_local else request.lease_type.label


def estimate(
    snapshot: Snapshot, calibration: Calibration, how: Forecast, about: Iterable[int] | None = None
) -> list[LeaseEstimates]:
    """Say of leases that are open what is to be expected of them, by default of all; raises as `rebuild` does."""
    wanted = None if about is None else set(about)
    leases = [lease for lease in snapshot.leases if wanted is None or lease.id in wanted]
    if not leases:
        return []
    futures = simulate(snapshot, [lease.id for lease in leases], how)
    return [of_lease(lease, futures, snapshot, calibration) for lease in leases]


def of_lease(lease: Lease, futures: Sequence[Future], snapshot: Snapshot, calibration: Calibration) -> LeaseEstimates:
    """Say what futures have to say about one lease, which is in all of them."""
    fates = [future.fates[lease.id] for future in futures]
    now_ms, found = snapshot.taken_ms, list[Estimate]()
    if lease.first_start_ms < 0:
        found.append(_estimate(lease, START, futures, [fate.start_ms for fate in fates], calibration, now_ms))
    elif lease.state in _SUSPENDED:
        found.append(_estimate(lease, CONTINUES, futures, [fate.continues_ms for fate in fates], calibration, now_ms))
    found.append(_estimate(lease, END, futures, [fate.end_ms for fate in fates], calibration, now_ms))
    return LeaseEstimates(lease.id, tuple(found), sum(fate.preempted > 0 for fate in fates) / len(fates))


def _estimate(
    lease: Lease,
    what: str,
    futures: Sequence[Future],
    times: Sequence[int | None],
    calibration: Calibration,
    now_ms: int,
) -> Estimate:
    kind = Kind(what, whom(lease.request), lease.site)
    known = [at_ms for at_ms in times if at_ms is not None]
    fates = [future.fates[lease.id] for future in futures]
    sites = Counter(fate.site for fate in fates if fate.site)
    shares = tuple(
        (name, count / len(fates)) for name, count in sorted(sites.items(), key=lambda one: (-one[1], one[0]))
    )
    if len(known) < _SHARE_KNOWN * len(times):
        return Estimate(lease.id, kind, now_ms, None, None, shares, _moved_by(lease, futures, times, shares))
    raw = Raw.of([at_ms - now_ms for at_ms in known])
    interval = calibration.interval(kind, raw, now_ms)
    return Estimate(lease.id, kind, now_ms, interval, raw, shares, _moved_by(lease, futures, times, shares))


# --- of a request that is not made yet ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Foreseen:
    """What comes of a request if it is made now, as one lease type.

    ``start``            None where it may not start in the time that was looked at, or is refused
    ``refused_share``    the share of futures in which it ends without having run
    ``preempted_share``  the share of those in which it runs in which it is preempted before its end
    ``futures``          how many were simulated
    """

    lease_type: LeaseType
    start: Interval | None
    refused_share: float
    preempted_share: float
    futures: int


def foresee(
    snapshot: Snapshot, calibration: Calibration, hows: Mapping[LeaseType, Forecast], request: Request
) -> list[Foreseen]:
    """Say what would come of a request as each of these lease types, the first of them first.

    Each meets the same run times and arrivals. Where `Forecast.may_go_on` says that there is no more time for a type
    but the first, it is left out. Raises as `rebuild` does.
    """
    found: list[Foreseen] = []
    learnt = learnt_by(snapshot)
    for kind, how in hows.items():
        if found and not how.may_go_on():
            continue
        asked = replace(request, lease_type=kind)
        fates = [one.fates[asked.id] for one in simulate(snapshot, [asked.id], how, extra=[asked], learnt=learnt)]
        starts = [fate.start_ms - snapshot.taken_ms for fate in fates if fate.start_ms is not None]
        interval = None
        if len(starts) >= _SHARE_KNOWN * len(fates):
            site = Counter(fate.site for fate in fates if fate.site).most_common(1)
            about = Kind(START, whom(asked), site[0][0] if site else "")
            if all(lead_ms == starts[0] for lead_ms in starts) and starts[0] == 0:
                interval = Interval(snapshot.taken_ms, snapshot.taken_ms, snapshot.taken_ms)  # it does not wait
            else:
                interval = calibration.interval(about, Raw.of(starts), snapshot.taken_ms)
        refused = sum(fate.start_ms is None and fate.end_ms is not None for fate in fates) / len(fates)
        preempted = sum(fate.preempted > 0 for fate in fates) / max(1, len(starts))
        found.append(Foreseen(kind, interval, refused, preempted, len(fates)))
    return found


# --- what may move it --------------------------------------------------------------------------------------


def _moved_by(
    lease: Lease, futures: Sequence[Future], times: Sequence[int | None], sites: Sequence[tuple[str, float]]
) -> tuple[str, ...]:
    """Name what goes with early and late times over the futures."""
    latest = max(future.until_ms for future in futures)
    when = [latest if at_ms is None else at_ms for at_ms in times]
    if len(set(when)) < 2 or len(futures) < _FEWEST_TO_CORRELATE:  # noqa: PLR2004 - nothing moves
        return ()
    names = list(dict.fromkeys([*([lease.site] if lease.site else []), *(name for name, _ in sites)]))
    causes: dict[str, Sequence[float]] = {}
    spans = [max(1, future.until_ms - futures[0].taken_ms) for future in futures]
    for name in names:
        causes[f"run times of the leases that hold machines at {name}"] = [one.left.get(name, 0) for one in futures]
        causes[f"requests of own users yet to come at {name}"] = [
            one.own.get(name, 0) / span for one, span in zip(futures, spans, strict=True)
        ]
    causes["guests yet to come"] = [one.guests / span for one, span in zip(futures, spans, strict=True)]
    if len(names) > 1:
        causes["at which site it starts"] = [names.index(site) if (site := _site(one, lease)) else 0 for one in futures]
    if any(one.fates[lease.id].preempted for one in futures):
        causes["whether it is preempted"] = [one.fates[lease.id].preempted for one in futures]
    weighed = [(abs(correlation(when, values)), cause) for cause, values in causes.items()]
    return tuple(cause for weight, cause in sorted(weighed, key=lambda one: -one[0]) if weight >= _MOVES)


def _site(future: Future, lease: Lease) -> str:
    fate: Fate = future.fates[lease.id]
    return fate.site


def correlation(one: Sequence[float], other: Sequence[float]) -> float:
    """Give Spearman's rank correlation; 0 where one of them is always the same."""
    first, second = _ranks(one), _ranks(other)
    mean = (len(one) + 1) / 2
    top = sum((a - mean) * (b - mean) for a, b in zip(first, second, strict=True))
    bottom = (sum((a - mean) ** 2 for a in first) * sum((b - mean) ** 2 for b in second)) ** 0.5
    return top / bottom if bottom else 0.0


def _ranks(values: Sequence[float]) -> list[float]:
    """Rank values from 1 on; equal ones have the mean of their ranks."""
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0.0] * len(values)
    place = 0
    while place < len(order):
        end = place
        while end < len(order) and values[order[end]] == values[order[place]]:
            end += 1
        for index in order[place:end]:
            ranks[index] = (place + 1 + end) / 2
        place = end
    return ranks
