"""What a gateway decided beside sites with managers of their own, and with peers, is decided again to the bit."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.service.messages.line import FAR, QUICK, World
from tests.service.peers import triangle
from tests.service.recording import check_that_it_is_decided_again, record, recorded_so_far, terms_of

from leasehold.forecasting.file import Recording, read, snapshot_bytes, write
from leasehold.forecasting.replay import anonymised, replay
from leasehold.gateway.peering import AskWhen
from leasehold.model.event import SiteFellSilent
from leasehold.model.request import LeaseType
from leasehold.service.commands import Happened


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path, "most-free")
    for name in FAR:
        world.exchange(name)
    yield world
    world.close()


def _recorded(world: World) -> Recording:
    """A recording that begins with leases at managed sites, and in which sites fill, lend no more, and fall silent."""
    terms = terms_of(world.gateway, "most-free", QUICK)
    for vms in (4, 2, 3):
        world.submit(LeaseType.SUSPENDABLE, vms, 4000)
    for name in FAR:
        world.exchange(name)
        world.exchange(name)
    world.pass_time(500)
    recorder = record(world.gateway, terms)
    assert {lease.site for lease in recorder.snapshot.leases} & FAR.keys()
    for step in range(12):
        world.submit(LeaseType.CANCELABLE if step % 3 else LeaseType.MIGRATABLE, 1 + step % 4, 1500)
        if step == 3:
            world.submit_at("far", 4, 2000)
        if step in {4, 9}:
            world.drain_or_resume("north")
        if step == 6:
            world.gateway.do(Happened(SiteFellSilent("far")))
        world.pass_time(700)
        for name in FAR if step % 2 else ("far",):
            world.exchange(name)
    recording = recorded_so_far(world.gateway, recorder)
    assert recording is not None
    return recording


def test_with_sites_that_have_managers(world: World, tmp_path: Path) -> None:
    recording = _recorded(world)
    told = [one for instant in recording.instants for one in instant.told]
    assert {one["name"] for one in told} == FAR.keys()
    effects = {one["effect"] for instant in recording.instants for one in instant.effects}
    assert {"OfferLease", "Decision", "LeaseClosed"} <= effects
    check_that_it_is_decided_again(recording)
    write(tmp_path / "r.json.gz", recording)
    check_that_it_is_decided_again(read(tmp_path / "r.json.gz"))


def test_under_other_names(world: World) -> None:
    recording = anonymised(_recorded(world))
    check_that_it_is_decided_again(recording)
    lines = [[*one.told, *one.events, *one.effects] for one in recording.instants]
    text = snapshot_bytes(recording.snapshot).decode() + json.dumps(lines)
    for name in (*FAR, "home", "physics", world.gateway.gateway.peering.gateway_id):
        assert text.find(f'"{name}"') < 0
        assert text.find(f"{name}/") < 0


def test_what_a_manager_said_counts(world: World) -> None:
    """Without it the same is not decided: so it is what is kept that makes the decisions equal."""
    recording = _recorded(world)
    deaf = [replace(one, told=()) for one in recording.instants]
    assert replay(replace(recording, instants=tuple(deaf))).difference is not None


def test_with_peers(tmp_path: Path) -> None:
    world = triangle.World(tmp_path, "most-free", AskWhen.NONE_CAN_NOW, hops=2)
    try:
        world.exchange_all()
        gateway = world.gateways["b"]
        world.submit("b", 4, 3000)
        world.submit("a", 3, 3000)
        world.exchange_all()
        recorder = record(gateway, terms_of(gateway, "most-free", QUICK))
        assert recorder.snapshot.peers
        for step in range(10):
            world.submit("abc"[step % 3], 1 + step % 4, 1500)
            if step == 4:
                world.agree("b", "c", AskWhen.NONE_CAN, 2)
            if step == 6:
                world.submit_at("c", 4, 2000)
            world.pass_time(600)
            world.exchange_all()
        recording = recorded_so_far(gateway, recorder)
    finally:
        world.close()
    assert recording is not None
    kinds = {one["told"] for instant in recording.instants for one in instant.told}
    assert kinds == {"RemoteTold", "PeerAgreed"}
    assert any(one["effect"] == "OfferLease" for instant in recording.instants for one in instant.effects)
    check_that_it_is_decided_again(recording)
    check_that_it_is_decided_again(anonymised(recording))
