"""Futures of a gateway with sites that decide for themselves, and with peers."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.forecasting.worlds import terms
from tests.searching import examples

from leasehold.forecasting.calibration import Calibration
from leasehold.forecasting.estimates import estimate
from leasehold.forecasting.file import snapshot_bytes, snapshot_of
from leasehold.forecasting.futures import Fate, Forecast, FutureWorld, learnt_by, simulate
from leasehold.forecasting.snapshot import PastRequest, Snapshot
from leasehold.forecasting.what_if import ChangeSite, Drain, Lend, compare
from leasehold.gateway.peering import AskWhen, PeerAgreed, Terms
from leasehold.gateway.sites import Reach, RemoteTold
from leasehold.model.errors import InvalidField, UnknownName
from leasehold.model.lease import Lease, LeaseState
from leasehold.model.request import LeaseType, Request

NOW_MS = 100_000
FAR = RemoteTold("far", 8, 1, promises=True, free_vms=8, units={"cpus": 8})
PEER = RemoteTold("peer", 12, 1, is_peer=True, gateway_id="p", free_vms=12, units={"cpus": 30})
ONCE = Forecast(replications=1)


def request(number: int, vms: int, duration_ms: int = 10_000, **more: object) -> Request:
    made = Request(number, LeaseType.SUSPENDABLE, vms, duration_ms, NOW_MS, NOW_MS, consumer="ada", wait=True)
    return replace(made, **more)  # type: ignore[arg-type]


def there(number: int, vms: int, state: LeaseState, site: str = "far", **more: int) -> Lease:
    """A lease at a site that decides for itself, as its reports leave it."""
    asked = request(number, vms)
    lease = Lease(number, asked, vms, number, asked.duration_ms, site, state, dispatched_ms=NOW_MS)
    for name, value in more.items():
        setattr(lease, name, value)
    return lease


def snapshot(*leases: Lease, remotes: Sequence[RemoteTold] = (FAR,), ask: AskWhen = AskWhen.NONE_CAN) -> Snapshot:
    """Three own sites of 6, 4 and 3 VMs that are empty, and what is elsewhere."""
    peers = tuple(PeerAgreed(one.name, Terms(ask, None, 2), 0) for one in remotes if one.is_peer)
    made = terms("most-free", free_room=True)
    made = replace(made, taken_ms=NOW_MS, remotes=tuple(remotes), peers=peers, gateway_id="g", leases=leases)
    return snapshot_of(snapshot_bytes(made))


def fates(of: Snapshot, *asked: Request) -> dict[int, Fate]:
    about = [*(lease.id for lease in of.leases), *(one.id for one in asked)]
    return simulate(of, about, ONCE, extra=asked)[0].fates


def test_what_runs_there_ends_when_its_time_is_over() -> None:
    running = there(1, 4, LeaseState.RUNNING, first_start_ms=NOW_MS - 6000, reserved_ms=NOW_MS - 6000)
    assert fates(snapshot(running))[1].end_ms == NOW_MS + 4000


def test_how_long_it_takes_is_drawn_from_what_leases_took() -> None:
    history = tuple(PastRequest(n, "", 1, 10_000, 7000, "ada") for n in range(50))
    running = there(1, 4, LeaseState.RUNNING, first_start_ms=NOW_MS - 6000, reserved_ms=NOW_MS - 6000)
    ends_ms = fates(replace(snapshot(running), history=history))[1].end_ms
    assert ends_ms is not None
    assert abs(ends_ms - (NOW_MS + 1000)) <= 2


def test_what_waits_there_starts_when_others_of_ours_have_ended() -> None:
    running = there(1, 6, LeaseState.RUNNING, first_start_ms=NOW_MS - 6000, reserved_ms=NOW_MS - 6000)
    full = replace(FAR, free_vms=2)
    fate = fates(snapshot(running, there(2, 5, LeaseState.WAITING), remotes=[full]))[2]
    assert fate.start_ms is not None
    assert abs(fate.start_ms - (NOW_MS + 4000)) <= 3
    assert fate.site == "far"


def test_what_others_hold_there_they_keep() -> None:
    """Three of eight VMs are held by somebody unknown: five start, six never do, and no own site has so many."""
    taken = replace(FAR, slots=8, free_vms=5)
    made = terms("most-free", free_room=True)
    assert max(site.slots for site in made.sites) == 6
    found = fates(snapshot(remotes=[taken]), request(1, 7), request(2, 5, domain="far"))
    assert (found[1].start_ms, found[1].end_ms) == (None, None)
    assert (found[2].site, found[2].start_ms) == ("far", NOW_MS + 2)


def test_a_suspended_guest_there_continues() -> None:
    saved = there(1, 4, LeaseState.SUSPENDED, first_start_ms=NOW_MS - 6000, preemptions=1)
    found = fates(snapshot(saved))[1]
    assert found.continues_ms is not None
    assert found.end_ms is not None
    assert found.end_ms > NOW_MS + 10_000 - 1  # what it had done is not reported


def test_a_silent_site_is_offered_nothing_and_what_runs_there_ends() -> None:
    running = there(1, 4, LeaseState.RUNNING, first_start_ms=NOW_MS - 6000, reserved_ms=NOW_MS - 6000)
    found = fates(snapshot(running, remotes=[replace(FAR, silent=True)]), request(2, 8))
    assert found[1].end_ms == NOW_MS + 4000
    assert found[2].start_ms is None


def test_a_peer_is_asked_for_what_no_own_site_can_take() -> None:
    found = fates(snapshot(remotes=[PEER]), request(1, 10), request(2, 6))
    assert (found[1].site, found[2].site) == ("peer", "alpha")


def test_what_is_beyond_a_peer_counts_as_if_it_were_there() -> None:
    narrow = replace(PEER, slots=3, free_vms=3, beyond=(Reach(20, 20),))
    assert fates(snapshot(remotes=[narrow]), request(1, 15))[1].site == "peer"


def test_estimates_are_made_of_leases_elsewhere() -> None:
    running = there(1, 6, LeaseState.RUNNING, first_start_ms=NOW_MS - 6000, reserved_ms=NOW_MS - 6000)
    full = snapshot(running, there(2, 5, LeaseState.WAITING), remotes=[replace(FAR, free_vms=2)])
    found = {one.number: one for one in estimate(full, Calibration(), Forecast(replications=3))}
    assert [one.what for one in found[1].estimates] == ["end"]
    assert [one.what for one in found[2].estimates] == ["start", "end"]
    assert all(one.interval is not None for of in found.values() for one in of.estimates)
    assert found[2].estimates[0].sites == (("far", 1.0),)


class TestWhatIf:
    def test_a_site_elsewhere_is_drained(self) -> None:
        waiting = snapshot(there(1, 7, LeaseState.WAITING), there(2, 7, LeaseState.WAITING))
        history = tuple(
            PastRequest(NOW_MS - 1000 * n, "", 7, 5000, 5000, "ada", lease_type=LeaseType.SUSPENDABLE)
            for n in range(1, 20)
        )
        how = Forecast(replications=2, horizon_ms=3_600_000)
        found = compare(replace(waiting, history=history), [Drain("far")], how)
        assert found.of("far", "guests_started").as_is > 2
        assert found.of("far", "guests_started").changed == 2  # what was offered to it already
        assert 0 < found.of("far", "utilisation_pct").as_is <= 100

    @given(st.integers(10, 300))
    @settings(max_examples=examples(25), deadline=None)
    def test_where_too_much_happens_both_futures_end_earlier_and_at_the_same_time(self, most: int) -> None:
        history = tuple(
            PastRequest(NOW_MS - 1000 * n, "", 7, 5000, 5000, "ada", lease_type=LeaseType.SUSPENDABLE)
            for n in range(1, 20)
        )
        busy = replace(snapshot(), history=history)
        how = Forecast(replications=3, horizon_ms=3_600_000, most_instants=most)
        found = compare(busy, [Drain("far")], how)
        assert found.is_shortened is (found.horizon_ms < how.horizon_ms)
        assert found.replications == 3
        assert found == replace(
            compare(busy, [Drain("far")], Forecast(replications=3, horizon_ms=found.horizon_ms)),
            is_shortened=found.is_shortened,
        )
        if most <= 20:
            assert found.is_shortened

    def test_a_site_elsewhere_has_another_size(self) -> None:
        waiting = snapshot(there(1, 7, LeaseState.WAITING), there(2, 7, LeaseState.WAITING))
        larger = compare(waiting, [ChangeSite("far", slots=14)], Forecast(replications=2, horizon_ms=12_000))
        assert (larger.of("far", "guests_started").as_is, larger.of("far", "guests_started").changed) == (2, 2)
        assert larger.of("far", "guest_wait_s").difference < -4

    def test_a_site_elsewhere_lends_less(self) -> None:
        changed = Lend("far", 0.5).apply(snapshot())
        assert [one.lending_limit for one in changed.agreements or ()] == [4]

    def test_what_is_not_known_is_not_changed(self) -> None:
        both = snapshot(remotes=[FAR, PEER])
        for change, problem in (
            (ChangeSite("far", victims="moml"), "a site of the gateway's own"),
            (ChangeSite("peer", slots=3), "nothing: peer is a peer"),
        ):
            with pytest.raises(InvalidField, match=problem):
                change.apply(both)
        with pytest.raises(UnknownName, match="alpha, beta, far, gamma, peer"):
            Drain("near").apply(both)


@st.composite
def anywhere(draw: st.DrawFn) -> tuple[Snapshot, list[Request]]:
    """Leases in any state at a managed site and a peer whose last report may be older than they are."""
    leases: list[Lease] = []
    states = [
        *(LeaseState.WAITING, LeaseState.STARTING, LeaseState.RUNNING, LeaseState.SUSPENDED),
        *(LeaseState.SUSPENDING, LeaseState.RESUMING, LeaseState.MIGRATING),
    ]
    for number in range(1, draw(st.integers(0, 6)) + 1):
        state, ago_ms = draw(st.sampled_from(states)), 1000 * draw(st.integers(0, 15))
        began_ms = -1 if state in (LeaseState.WAITING, LeaseState.STARTING) else NOW_MS - ago_ms
        lease = there(number, draw(st.integers(1, 8)), state, draw(st.sampled_from(["far", "peer"])))
        lease.first_start_ms, lease.reserved_ms = began_ms, began_ms
        lease.preemptions = int(state in (LeaseState.SUSPENDED, LeaseState.SUSPENDING, LeaseState.RESUMING))
        if state is LeaseState.MIGRATING:
            lease.request = replace(lease.request, lease_type=LeaseType.MIGRATABLE)
        leases.append(lease)
    remotes = [
        replace(one, free_vms=draw(st.integers(0, one.slots)), silent=draw(st.booleans()), lends=draw(st.booleans()))
        for one in (FAR, PEER)
    ]
    asked = [
        request(number, draw(st.integers(1, 12)), lease_type=draw(st.sampled_from(LeaseType)), wait=draw(st.booleans()))
        for number in range(10, 10 + draw(st.integers(0, 8)))
    ]
    return snapshot(*leases, remotes=remotes, ask=draw(st.sampled_from(AskWhen))), asked


@settings(max_examples=examples(60))
@given(anywhere())
def test_every_promise_is_kept_in_such_a_future(case: tuple[Snapshot, list[Request]]) -> None:
    made, asked = case
    world = FutureWorld(made, *learnt_by(made), 3, 0, extra=asked, check=True)
    instants = sum(1 for _ in islice(world.run(NOW_MS + 10_000_000), 5_000))
    assert instants < 5_000
    for lease in world.gateway.leases.values():
        told = made.remote(lease.site)
        others = 0 if told is None else told.slots - told.free_vms
        assert told is None or others > 0 or not told.lends or told.silent, (
            f"lease {lease.id} is {lease.state} for ever"
        )
