"""Counts what everybody got in a run, without writing anything."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import polars as pl

from leasehold.model.effect import Decision, LeaseClosed, Used
from leasehold.model.lease import Lease, LeaseState
from leasehold.model.reason import Outcome
from leasehold.model.request import Request
from leasehold.simulation.kernel import Handler
from leasehold.simulation.workload.job import Job

OWN_USERS = "(own users)"
"""On whose account the local requests of all clusters are counted."""

_MS_PER_H = 3_600_000
_MS_PER_S = 1_000


@dataclass(frozen=True, slots=True)
class Count:
    """What somebody got; waiting is from the ready time to the first start of those that started."""

    requests: int = 0
    wait_mean_s: float | None = None
    wait_p95_s: float | None = None
    preemptions: int = 0
    refused: int = 0
    slot_h: float = 0.0


@dataclass(frozen=True, slots=True)
class Counted:
    """What each got, by consumer and by provider; ``held`` as in a `Trial`."""

    consumers: dict[str, Count]
    providers: dict[str, Count]
    held: dict[str, tuple[int, int]]


@dataclass(slots=True)
class _Account:
    """What is added up for one name."""

    waits_ms: list[int] = field(default_factory=list)
    requests: int = 0
    preemptions: int = 0
    refused: int = 0
    slot_ms: int = 0

    def close(self, lease: Lease) -> None:
        self.requests += 1
        self.preemptions += lease.preemptions
        self.refused += lease.state is LeaseState.REFUSED
        if lease.first_start_ms >= 0:
            self.waits_ms.append(lease.first_start_ms - lease.request.ready_ms)

    def count(self) -> Count:
        waits_s = pl.Series(self.waits_ms, dtype=pl.Int64) / _MS_PER_S
        mean, p95 = waits_s.mean(), waits_s.quantile(0.95)
        return Count(
            requests=self.requests,
            wait_mean_s=mean if isinstance(mean, float) else None,
            wait_p95_s=p95,
            preemptions=self.preemptions,
            refused=self.refused,
            slot_h=self.slot_ms / _MS_PER_H,
        )


class Tally:
    """An observer of the world that adds up; ``of_path`` and ``of_site`` say on which account."""

    def __init__(self, of_path: Callable[[str], str], of_site: Callable[[str], str]) -> None:
        """Begin with nothing counted."""
        self._of_path, self._of_site = of_path, of_site
        self._consumers: defaultdict[str, _Account] = defaultdict(_Account)
        self._providers: defaultdict[str, _Account] = defaultdict(_Account)
        self._held: defaultdict[str, set[int]] = defaultdict(set)
        self._refused: defaultdict[str, set[int]] = defaultdict(set)
        self.handlers: Mapping[type, Handler] = {
            Used: self._used,
            Decision: self._decided,
            LeaseClosed: self._closed,
        }

    def submitted(self, request: Request, job: Job) -> None:
        """Nothing is kept of a submission: every request is closed, or open at the end."""

    def _used(self, effect: Used, now_ms: int) -> None:  # noqa: ARG002 - the effect has its own times
        self._hold(effect.lease, effect.site, effect.end_ms - effect.begin_ms)

    def _hold(self, lease: Lease, site: str, held_ms: int) -> None:
        self._consumers[self._consumer(lease)].slot_ms += lease.vms * held_ms
        if not lease.request.is_local:
            self._providers[self._of_site(site)].slot_ms += lease.vms * held_ms

    def _decided(self, effect: Decision, now_ms: int) -> None:  # noqa: ARG002 - when does not matter
        if effect.breach is None or not effect.breach.agreement:
            return
        kept = self._refused if effect.outcome is Outcome.REFUSE else self._held
        kept[effect.breach.agreement].add(effect.lease.id)

    def _closed(self, effect: LeaseClosed, now_ms: int) -> None:  # noqa: ARG002 - when does not matter
        self._close(effect.lease)

    def _close(self, lease: Lease) -> None:
        self._consumers[self._consumer(lease)].close(lease)
        if lease.site and not lease.request.is_local:
            self._providers[self._of_site(lease.site)].close(lease)

    def _consumer(self, lease: Lease) -> str:
        return OWN_USERS if lease.request.is_local else self._of_path(lease.request.path)

    def finish(self, unfinished: Iterable[Lease], now_ms: int) -> None:
        """Count what is still open when the run is over."""
        for lease in unfinished:
            if lease.held_since_ms >= 0:
                self._hold(lease, lease.site, now_ms - lease.held_since_ms)
            self._close(lease)

    def counted(self) -> Counted:
        """Give everything that was counted."""
        names = self._held.keys() | self._refused.keys()
        return Counted(
            consumers={name: account.count() for name, account in self._consumers.items()},
            providers={name: account.count() for name, account in self._providers.items()},
            held={name: (len(self._held[name]), len(self._refused[name])) for name in names},
        )
