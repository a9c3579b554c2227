"""The simulator and the service, given the same requests at the same times, take the same decisions.

The jobs go through a simulated world, and through the engine with a store and emulated machines, whose clock
stands 57 years later. Compared is everything that either says: when, about whom, what, where, why, under
which rule, for when it is planned, who had to give way and who else might have.
"""

from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.gateway.random_worlds import three_sites
from tests.gateway.turbulence import Turmoil, live_through, moving_turmoils, turmoils
from tests.searching import examples
from tests.service.engine.live_worlds import Listener, gateways, live_three, play_live, said_in_journal
from tests.service.stores import store_at
from tests.simulation.worlds import DAS2, HOUR_S, busy

from leasehold.gateway.gateway import Gateway
from leasehold.service.drivers.emulated.fault_injection import FaultInjector, Faults
from leasehold.service.drivers.emulated.machines import EmulatedMachines
from leasehold.service.drivers.emulated.options import Hardware
from leasehold.simulation.kernel import SimulatedWorld
from leasehold.simulation.scenario.sites import routing, site_settings
from leasehold.simulation.scenario.sources import fitting, open_streams
from leasehold.simulation.scenario.spec import Scenario
from leasehold.testing.live import Live

NUMBERS = count()
ONE_FOLDER = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


@pytest.mark.parametrize("depth", ["conservative", "easy", "fcfs"])
@given(turmoil=st.one_of(turmoils(), moving_turmoils()), policy=st.sampled_from(["rr", "most-free", "bcf-rnd"]))
@settings(max_examples=examples(60), suppress_health_check=ONE_FOLDER)
def test_random_jobs_in_random_turmoil(tmp_path: Path, turmoil: Turmoil, policy: str, depth: str) -> None:
    turmoil, listener = turmoil.of_known_leases(), Listener()
    live_through(turmoil, three_sites(depth), policy, chronicle=listener)
    with store_at(tmp_path / f"{next(NUMBERS)}.db") as store:
        live = live_three(store, gateways(policy, depth))
        play_live(turmoil, live)
        assert not live.gateway.leases, "somebody was forgotten"
        assert said_in_journal(store.journal(0, 10_000)) == sorted(listener.said)


@pytest.mark.soak
def test_three_busy_clusters_for_some_hours(tmp_path: Path) -> None:
    scenario = three_busy_clusters()
    listener = Listener()
    gateway = gateway_of(scenario)
    jobs = list(fitting(open_streams(scenario, []), scenario))
    world = SimulatedWorld(gateway, enumerate(jobs, 1), listener)
    for _ in world.run():
        pass
    with store_at(tmp_path / "hours.db") as store:
        live = Live(store, lambda: gateway_of(scenario, is_live=True), machines_of(scenario))
        play_live(Turmoil(tuple(jobs), ()), live)
        assert not live.gateway.leases
        assert said_in_journal(store.journal(0, 100_000)) == sorted(listener.said)
        happened = {what for _, _, what, *_ in listener.said}
    assert happened >= {"start", "wait", "preempt", "move", "suspending", "resuming", "migrating", "closed"}


def three_busy_clusters() -> Scenario:
    """Three clusters of different size and speed with users of their own, and guests of every type."""
    clusters = [
        {"name": "a", "slots": 16, "speed_mips": 3, "victims": "mov"},
        {"name": "b", "slots": 8, "speed_mips": 2, "non_preemptable_share": 0.5},
        {"name": "c", "slots": 12, "speed_mips": 5, "local_policy": "easy"},
    ]
    streams = [
        {"name": "a", "site": "a", **DAS2},
        {"name": "b", "site": "b", **DAS2, "alpha": 130.0},
        {"name": "c", "site": "c", **DAS2, "alpha": 60.0},
        {"name": "guests", **DAS2, "alpha": 25.0},
    ]
    return busy(horizon_s=3 * HOUR_S, cluster=clusters, stream=streams, gateway={"policy": "pap-rtdp"})


def gateway_of(scenario: Scenario, *, is_live: bool = False) -> Gateway:
    terms = [replace(settings, confirms_starts=is_live) for settings in site_settings(scenario)]
    sites = list(terms)
    return Gateway(sites, routing(scenario), scenario.reference_mips)


def machines_of(scenario: Scenario) -> dict[str, EmulatedMachines]:
    return {
        site.name: EmulatedMachines(
            Hardware(site.slots, site.speed_mips, scenario.reference_mips, site.overhead), FaultInjector(Faults())
        )
        for site in site_settings(scenario)
    }
