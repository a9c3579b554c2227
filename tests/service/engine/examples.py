"""What the examples are told with: two sites, requests by hand, and what the store is asked afterwards."""

from typing import Any

from tests.gateway.random_worlds import QUICK, to_the_first

from leasehold.gateway.gateway import Gateway, Routing
from leasehold.model.request import LeaseType
from leasehold.service.commands import Observed, SiteObserved, Submit
from leasehold.service.drivers.emulated.fault_injection import FaultInjector, Faults
from leasehold.service.drivers.emulated.machines import EmulatedMachines
from leasehold.service.drivers.emulated.options import Hardware
from leasehold.service.drivers.protocol import Observation, Phase
from leasehold.service.store.rows import JournalRow, LeaseRow
from leasehold.service.store.store import Store
from leasehold.testing.live import Live
from leasehold.testing.rows import submit
from leasehold.testing.worlds import live_site

S = 1_000
"""Milliseconds in a second."""


def two_sites(store: Store, faults: Faults | None = None, **options: Any) -> Live:
    """Sites a and b of 4 VMs each; every guest goes to the first that will have it."""
    machines = {
        name: EmulatedMachines(Hardware(4, 1, 1, QUICK), FaultInjector(faults or Faults(), name)) for name in "ab"
    }
    make_gateway = options.pop("make_gateway", gateway_of_two)
    return Live(store, make_gateway, machines, faults=faults, **options)


def gateway_of_two() -> Gateway:
    return Gateway([live_site(name, 4, overhead=QUICK) for name in "ab"], Routing(to_the_first()))


def guest(
    vms: int,
    asked_s: float,
    kind: LeaseType = LeaseType.SUSPENDABLE,
    *,
    needed_s: float | None = None,
    consumer: str = "physics",
    **said: Any,
) -> Submit:
    """A request from outside; with ``needed_s`` it has a command that needs so long."""
    command = () if needed_s is None else ("sleep", str(needed_s))
    return submit(consumer, kind, vms, round(asked_s * S), command=command, **said)


def local(vms: int, asked_s: float, *, site: str = "a", **said: Any) -> Submit:
    """A request of a site's own user."""
    return guest(vms, asked_s, LeaseType.NON_PREEMPTABLE, consumer="owner", site=site, **said)


def submitted(live: Live, *requests: Submit) -> list[int]:
    """Ask for these at once; returns the numbers of their leases."""
    return [row.lease.id for row, _ in live.do(*requests)]


def lease(live: Live, lease_id: int) -> LeaseRow:
    """A lease as it is in the store."""
    row = live.store.lease(lease_id)
    assert row is not None
    return row


def state(live: Live, lease_id: int) -> str:
    return lease(live, lease_id).lease.state


def end(live: Live, lease_id: int) -> tuple[str, str]:
    """How a lease ended, and why."""
    row = lease(live, lease_id)
    return row.lease.state, row.metadata.reason


def journal(live: Live, lease_id: int | None = None) -> list[JournalRow]:
    return live.store.journal(0, 10_000, lease_id=lease_id)


def story(live: Live, lease_id: int) -> list[str]:
    """What happened to a lease, in the words of the journal."""
    return [line.what for line in journal(live, lease_id)]


def orders(live: Live, lease_id: int | None = None) -> list[str]:
    """The orders that are still open in the store."""
    rows = live.store.open_orders()
    return [row.order.id for row in rows if lease_id in (None, row.order.lease_id)]


def seen(lease_id: int, incarnation: int, phase: Phase, at_ms: int = 0, *, site: str = "a") -> Observed:
    """A driver saw this."""
    return Observed(site, (Observation(lease_id, incarnation, phase, at_ms),))


def survey(live: Live, *there: tuple[int, int, Phase], site: str = "a", asked_ms: int | None = None) -> SiteObserved:
    """A driver was looked at, and this was there."""
    what = tuple(Observation(lease_id, incarnation, phase, live.now_ms) for lease_id, incarnation, phase in there)
    return SiteObserved(site, what, live.now_ms if asked_ms is None else asked_ms)
