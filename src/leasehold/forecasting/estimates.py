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

JOB = "job"
"""Whom predictions for jobs are for that wait for nodes, and so have no lease yet."""

JOB_NUMBERS = 1 << 39
"""From here on are the numbers of the requests that such jobs would make: above leases, below `FIRST_ARRIVAL`."""

_SHARE_KNOWN = 0.95
"""In so many futures something has to happen by the horizon for a time to be said at all."""

_MOVES = 0.3
"""From this rank correlation on with what is to be predicted, a cause is named."""

_FEWEST_TO_CORRELATE = 10
_SUSPENDED = frozenset({LeaseState.SUSPENDING, LeaseState.SUSPENDED})


@dataclass(frozen=True, slots=True)
class Estimate:
    """One prediction about one lease, or one job that waits for nodes.

    ``what``      one of `leasehold.forecasting.calibration.WHAT`
    ``interval``  None where it may not happen in the time that was looked at
    ``raw``       what the futures said by themselves
    ``sites``     where it starts or continues, by the share of futures
    ``moved_by``  what may move it, the most likely cause first
    """

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
    """What is said of one lease, or of one job that waits for nodes.

    ``number``           of the lease; of a job that of the request that it would make
    ``preempted_share``  the share of futures in which it is preempted before its end
    """

    number: int
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
    snapshot: Snapshot,
    calibration: Calibration,
    how: Forecast,
    about: Iterable[int] | None = None,
    jobs: Sequence[Request] = (),
) -> list[LeaseEstimates]:
    """Say of leases that are open what is to be expected of them, by default of all; raises as `rebuild` does.

    ``jobs`` are the requests that jobs would make that wait for nodes, the first to come first: in futures they make
    them at once. That a node has to fit besides is left to the correction by earlier errors.
    """
    wanted = None if about is None else set(about)
    leases = [lease for lease in snapshot.leases if wanted is None or lease.id in wanted]
    if not leases and not jobs:
        return []
    futures = simulate(snapshot, [*(lease.id for lease in leases), *(one.id for one in jobs)], how, extra=jobs)
    return [
        *(of_lease(lease, futures, snapshot, calibration) for lease in leases),
        *(of_job(request, futures, snapshot, calibration) for request in jobs),
    ]


def of_lease(lease: Lease, futures: Sequence[Future], snapshot: Snapshot, calibration: Calibration) -> LeaseEstimates:
    """Say what futures have to say about one lease, which is in all of them."""
    told = _Told(lease.id, whom(lease.request), lease.site, futures, calibration, snapshot.taken_ms)
    found = list[Estimate]()
    if lease.first_start_ms < 0:
        found.append(told.of(START, [fate.start_ms for fate in told.fates]))
    elif lease.state in _SUSPENDED:
        found.append(told.of(CONTINUES, [fate.continues_ms for fate in told.fates]))
    found.append(told.of(END, [fate.end_ms for fate in told.fates]))
    return LeaseEstimates(lease.id, tuple(found), told.preempted_share)


def of_job(request: Request, futures: Sequence[Future], snapshot: Snapshot, calibration: Calibration) -> LeaseEstimates:
    """Say what futures have to say about a job that waits for nodes, which makes this request in all of them."""
    told = _Told(request.id, JOB, request.domain, futures, calibration, snapshot.taken_ms)
    starts, ends = [fate.start_ms for fate in told.fates], [fate.end_ms for fate in told.fates]
    if any(start is None and end is not None for start, end in zip(starts, ends, strict=True)):
        ends = [None for _ in ends]  # refused is not done
    return LeaseEstimates(request.id, (told.of(START, starts), told.of(END, ends)), told.preempted_share)


@dataclass(frozen=True, slots=True)
class _Told:
    """What futures tell of a lease or request; ``site`` is where it is, "" for nowhere."""

    number: int
    whom: str
    site: str
    futures: Sequence[Future]
    calibration: Calibration
    now_ms: int

    @property
    def fates(self) -> list[Fate]:
        return [future.fates[self.number] for future in self.futures]

    @property
    def preempted_share(self) -> float:
        return sum(fate.preempted > 0 for fate in self.fates) / len(self.futures)

    def of(self, what: str, times: Sequence[int | None]) -> Estimate:
        kind, known = Kind(what, self.whom, self.site), [at_ms for at_ms in times if at_ms is not None]
        sites = Counter(fate.site for fate in self.fates if fate.site)
        ordered = sorted(sites.items(), key=lambda one: (-one[1], one[0]))
        shares = tuple((name, count / len(self.futures)) for name, count in ordered)
        moved_by = _moved_by(self, times, shares)
        if len(known) < _SHARE_KNOWN * len(times):
            return Estimate(kind, self.now_ms, None, None, shares, moved_by)
        raw = Raw.of([at_ms - self.now_ms for at_ms in known])
        interval = self.calibration.interval(kind, raw, self.now_ms)
        return Estimate(kind, self.now_ms, interval, raw, shares, moved_by)


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


def _moved_by(told: _Told, times: Sequence[int | None], sites: Sequence[tuple[str, float]]) -> tuple[str, ...]:
    """Name what goes with early and late times over the futures."""
    futures, fates = told.futures, told.fates
    latest = max(future.until_ms for future in futures)
    when = [latest if at_ms is None else at_ms for at_ms in times]
    if len(set(when)) < 2 or len(futures) < _FEWEST_TO_CORRELATE:  # noqa: PLR2004 - nothing moves
        return ()
    names = list(dict.fromkeys([*([told.site] if told.site else []), *(name for name, _ in sites)]))
    causes: dict[str, Sequence[float]] = {}
    spans = [max(1, future.until_ms - futures[0].taken_ms) for future in futures]
    for name in names:
        causes[f"run times of the leases that hold machines at {name}"] = [one.left.get(name, 0) for one in futures]
        causes[f"requests of own users yet to come at {name}"] = [
            one.own.get(name, 0) / span for one, span in zip(futures, spans, strict=True)
        ]
    causes["guests yet to come"] = [one.guests / span for one, span in zip(futures, spans, strict=True)]
    if len(names) > 1:
        causes["at which site it starts"] = [names.index(fate.site) if fate.site else 0 for fate in fates]
    if any(fate.preempted for fate in fates):
        causes["whether it is preempted"] = [fate.preempted for fate in fates]
    weighed = [(abs(correlation(when, values)), cause) for cause, values in causes.items()]
    return tuple(cause for weight, cause in sorted(weighed, key=lambda one: -one[0]) if weight >= _MOVES)


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
