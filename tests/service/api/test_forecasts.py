"""Forecasts over HTTP: estimates that come true are scored, what-if, and snapshots that are decided again alike."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.service.api.house import House
from tests.waiting import until

from leasehold.forecasting.file import read, write_content
from leasehold.forecasting.replay import Recorder, anonymised, replay
from leasehold.gateway.gateway import Gateway
from leasehold.protocol.fields import read_moment, unix_ms
from leasehold.service.auth.principal import Role
from leasehold.service.engine.engine import Engine
from leasehold.service.forecasts import MOST_INSTANTS, Forecasts
from leasehold.service.opening import make_gateway


def _refresh(house: House) -> None:
    house.portal.call(house.federation.forecasts.refresh)


def _busy(house: House, token: str) -> list[int]:
    """Fill both sites for an hour with what cannot be preempted; give the leases once they run."""
    leases = [house.submit(token, type="non-preemptable", vms=vms, duration_s=3600)["id"] for vms in (64, 32)]
    for lease in leases:
        house.running(lease, token)
    return leases


def test_a_lease_that_waits_is_told_when_it_starts_and_how_old_that_is(house: House) -> None:
    token = house.token()
    running = _busy(house, token)
    waiting = house.submit(token, vms=20, duration_s=600)["id"]
    assert house.ask("GET", f"/v1/estimates/{waiting}", token).status_code == 404
    _refresh(house)
    shown = house.ask("GET", f"/v1/estimates/{waiting}", token).json()
    assert [one["what"] for one in shown["estimates"]] == ["start", "end"]
    start, end = shown["estimates"]
    ends_ms = [
        unix_ms(read_moment(house.ask("GET", f"/v1/leases/{lease}", token).json()["ends_at"])) for lease in running
    ]
    earliest, latest = unix_ms(read_moment(start["earliest_at"])), unix_ms(read_moment(start["latest_at"]))
    # Nothing was ever seen to end before its time: it starts when the first of the two has to give its machines back.
    assert earliest <= min(ends_ms) <= latest
    assert unix_ms(read_moment(end["expected_at"])) > min(ends_ms)
    assert {site["site"] for site in start["sites"]} <= {"das3", "lyon"}
    assert shown["age_s"] >= 0


def test_estimates_are_for_those_who_may_see_the_lease(house: House) -> None:
    token = house.token()
    lease = house.submit(token, vms=2)["id"]
    _refresh(house)
    other = house.token(consumer="climate")
    assert house.ask("GET", f"/v1/estimates/{lease}", other).status_code == 404
    assert house.ask("GET", "/v1/estimates", other).json() == {"leases": [], "jobs": []}
    assert [one["lease"] for one in house.ask("GET", "/v1/estimates", token).json()["leases"]] == [lease]


def test_what_was_predicted_is_scored_when_it_has_happened_and_that_outlives_the_process(house: House) -> None:
    token = house.token()
    running = _busy(house, token)
    waiting = house.submit(token, vms=20, duration_s=600)["id"]
    _refresh(house)
    assert house.ask("GET", "/v1/calibration", token).json()["scores"] == []
    for lease in running:
        house.ask("DELETE", f"/v1/leases/{lease}", token)
    house.running(waiting, token)
    _refresh(house)
    shown = house.ask("GET", "/v1/calibration", token).json()
    (score,) = [one for one in shown["scores"] if (one["whom"], one["site"]) == ("", "")]
    # The user took back what it waited for, an hour early: no interval of a forecast that knew better holds that.
    assert (score["what"], score["scored"], score["covered"], score["below"]) == ("start", 1, 0, 1)
    gauges = house.federation.forecasts.gauges()
    assert (gauges.scored["start", "early"], gauges.scored["start", "covered"]) == (1, 0)
    assert gauges.age_s is not None
    assert gauges.factors.keys() == {"start"}
    (prediction,) = shown["predictions"]
    started = house.ask("GET", f"/v1/leases/{waiting}", token).json()["started_at"]
    assert (prediction["lease"], prediction["happened_at"]) == (waiting, started)
    federation = house.federation
    thread, clock, settings = federation._engine_thread, federation.clock, federation.config.estimates
    again = Forecasts(thread, federation.store, clock, federation.forecasts._terms, settings)
    assert again.calibration.memory() == federation.forecasts.calibration.memory()
    assert list(again.scored) == list(federation.forecasts.scored)


def test_what_was_to_happen_while_there_was_no_gateway_is_not_scored(house: House) -> None:
    token, federation = house.token(), house.federation
    _busy(house, token)
    waiting = house.submit(token, vms=20, duration_s=600)["id"]
    _refresh(house)
    thread, settings, terms = federation._engine_thread, federation.config.estimates, federation.forecasts._terms
    key = (waiting, "start", 0)
    begins_ms = federation.forecasts._open[key].low_ms

    def back_at(now_ms: int) -> Forecasts:
        return Forecasts(thread, federation.store, lambda: now_ms, terms, settings)

    assert key in back_at(begins_ms - 1)._open
    assert key not in back_at(begins_ms)._open


def test_a_lease_that_is_cancelled_while_it_waits_is_not_scored(house: House) -> None:
    token = house.token()
    _busy(house, token)
    waiting = house.submit(token, vms=20, duration_s=600)["id"]
    _refresh(house)
    house.ask("DELETE", f"/v1/leases/{waiting}", token)
    _refresh(house)
    _refresh(house)
    assert house.ask("GET", "/v1/calibration", token).json() == {"coverage": 0.9, "scores": [], "predictions": []}


def test_a_plan_says_the_start_with_its_interval_and_the_risk_of_each_type(house: House) -> None:
    token = house.token()
    running = _busy(house, token)
    body = {"type": "suspendable", "vms": 20, "duration_s": 600}
    plain = house.ask("POST", "/v1/leases/plan", token, json=body).json()
    assert plain["foreseen"] == []
    planned = house.ask("POST", "/v1/leases/plan?within_s=5", token, json=body).json()
    assert {**planned, "foreseen": [], "starts_at": None, "ends_at": None} == {
        **plain, "starts_at": None, "ends_at": None,
    }  # fmt: skip
    own, *others = planned["foreseen"]
    assert own["type"] == "suspendable"
    assert {one["type"] for one in others} == {"cancelable", "migratable", "non-preemptable"}
    ends_ms = [
        unix_ms(read_moment(house.ask("GET", f"/v1/leases/{lease}", token).json()["ends_at"])) for lease in running
    ]
    earliest, latest = (unix_ms(read_moment(own[name])) for name in ("earliest_at", "latest_at"))
    # Nothing was ever seen to end before its time: it starts when the first of the two has to give its machines back.
    assert earliest <= min(ends_ms) <= latest
    assert own["preempted_share"] == 0  # no request of an own user was ever seen
    assert own["futures"] >= 1
    leases = house.ask("GET", "/v1/leases", token).json()["leases"]
    assert {one["id"] for one in leases} == set(running)  # nothing was submitted


@pytest.mark.parametrize("within", ["-1", "31", "1.5", "soon"])
def test_how_long_a_plan_may_take_is_checked(house: House, within: str) -> None:
    body = {"type": "suspendable", "vms": 1, "duration_s": 60}
    answer = house.ask("POST", f"/v1/leases/plan?within_s={within}", house.token(), json=body)
    assert answer.status_code == 422
    assert "within_s" in answer.json()["detail"]


def test_nothing_is_simulated_for_a_plan_where_too_many_leases_are_open(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = house.token()
    house.submit(token, vms=1)
    monkeypatch.setattr("leasehold.service.forecasts.MOST_FORESEEN", 0)
    planned = house.ask(
        "POST", "/v1/leases/plan?within_s=5", token, json={"type": "suspendable", "vms": 1, "duration_s": 60}
    )
    assert planned.json()["foreseen"] == []


def test_a_lease_that_waits_shows_when_it_is_expected_in_lists_too(house: House) -> None:
    token = house.token()
    running = _busy(house, token)
    waiting = house.submit(token, vms=20, duration_s=600)["id"]
    before = {one["id"]: one["expected"] for one in house.ask("GET", "/v1/leases", token).json()["leases"]}
    assert before == dict.fromkeys([*running, waiting])
    _refresh(house)
    (start, _) = house.ask("GET", f"/v1/estimates/{waiting}", token).json()["estimates"]
    listed = {one["id"]: one["expected"] for one in house.ask("GET", "/v1/leases", token).json()["leases"]}
    assert [listed[lease] for lease in running] == [None, None]  # they have machines
    assert all(listed[waiting][name] == start[name] for name in ("earliest_at", "expected_at", "latest_at"))
    assert house.ask("GET", f"/v1/leases/{waiting}", token).json()["expected"] == listed[waiting]


def test_what_if_compares_the_future_as_it_is_with_that_after_a_change(house: House) -> None:
    admin = house.token(Role.FEDERATION_ADMIN)
    token = house.token()
    for _ in range(4):
        house.submit(token, vms=30, duration_s=1200)
    body = {"changes": [{"site": "das3", "slots": 30}], "horizon_s": 3600, "replications": 3}
    answer = house.ask("POST", "/v1/whatif", admin, json=body)
    assert answer.status_code == 200, answer.text
    figures = {(one["site"], one["name"]): one for one in answer.json()["figures"]}
    assert figures["", "guest_wait_s"]["difference"] > 0
    assert figures["", "guests_started"]["as_is"] >= figures["", "guests_started"]["changed"]
    assert house.ask("GET", "/v1/sites/das3", admin).json()["slots"] == 64


def test_a_site_is_added_with_its_rules_and_agreements(house: House) -> None:
    admin = house.token(Role.FEDERATION_ADMIN)
    for _ in range(6):
        house.submit(house.token(), vms=30, duration_s=1200)
    site = {"name": "new", "slots": 60, "local_policy": "easy"}
    limit = {"name": "none", "provider": "new", "consumer": "*", "kind": "no-limit", "lending_limit": 0}
    figures = []
    for change in ({"add_site": site}, {"add_site": site, "agreement": [limit]}):
        body = {"changes": [change], "horizon_s": 3600, "replications": 2}
        answer = house.ask("POST", "/v1/whatif", admin, json=body)
        assert answer.status_code == 200, answer.text
        figures.append({(one["site"], one["name"]): one["changed"] for one in answer.json()["figures"]})
    assert figures[0]["new", "guest_vm_h"] > 0
    assert figures[1]["new", "guest_vm_h"] == 0
    assert "new" not in house.ask("GET", "/v1/sites", admin).text


def test_a_change_that_makes_no_sense_is_named(house: House) -> None:
    admin = house.token(Role.FEDERATION_ADMIN)
    cases = {
        "das4": [{"drain": "das4"}],
        "changes[0]": [{"paint": "das3"}],
        "nonsense": [{"policy": "nonsense"}],
        "share": [{"lend": "das3", "share": 2}],
        "changes.0.slots": [{"add_site": "new", "slots": "many"}],
        "changes.0.add_site.slots": [{"add_site": {"name": "new", "slots": 0}}],
        "das3": [{"add_site": {"name": "das3", "slots": 4}}],
    }
    for expected, changes in cases.items():
        answer = house.ask("POST", "/v1/whatif", admin, json={"changes": changes, "horizon_s": 60, "replications": 2})
        assert answer.status_code == 422, answer.text
        assert expected in answer.json()["detail"]


def test_what_a_served_gateway_decides_is_decided_again_to_the_bit(house: House) -> None:
    token, federation = house.token(sites=("das3", "lyon")), house.federation
    _busy(house, token)
    house.submit(token, vms=4, duration_s=300)
    terms = replace(federation.forecasts._terms(), seed=11)

    def begin(engine: Engine) -> Recorder:
        def make() -> Gateway:
            return make_gateway(federation.config, federation._can, Random(11), federation._identity)

        return engine.record(terms, make, MOST_INSTANTS)

    recorder = house.portal.call(federation.ask, begin)
    leases = [house.submit(token, type=kind, vms=3, duration_s=600)["id"] for kind in ("suspendable", "cancelable")]
    leases += [house.submit(token, type=None, local=True, site="lyon", vms=vms)["id"] for vms in (8, 30)]
    house.ask("DELETE", "/v1/leases/1", token)
    house.running(leases[0], token)
    house.ask("POST", f"/v1/leases/{leases[0]}/extension", token, json={"by_s": 60})
    house.ask("DELETE", f"/v1/leases/{leases[1]}", token)
    assert house.portal.call(federation.ask, lambda engine: engine.stop_recording(recorder))
    recording = recorder.recording()
    assert sum(len(instant.events) for instant in recording.instants) >= 8
    outcome = replay(recording)
    assert outcome.difference is None, outcome.difference
    assert replay(anonymised(recording)).difference is None


def test_a_snapshot_comes_as_a_file_that_can_be_read(house: House, tmp_path: Path) -> None:
    admin = house.token(Role.FEDERATION_ADMIN)
    token = house.token()
    house.ask("DELETE", f"/v1/leases/{house.submit(token, vms=7)['id']}", token)
    until(lambda: not house.ask("GET", "/v1/leases?open=true", token).json()["leases"])
    lease = house.submit(token, vms=2)["id"]
    answer = house.ask("GET", "/v1/snapshot?record_s=1", admin)
    assert answer.status_code == 200
    write_content(tmp_path / "s.json.gz", answer.content)
    recording = read(tmp_path / "s.json.gz")
    assert [one.id for one in recording.snapshot.leases] == [lease]
    assert [one.vms for one in recording.snapshot.history] == [7, 2]
    assert replay(recording).difference is None
    write_content(tmp_path / "alone.json.gz", house.ask("GET", "/v1/snapshot", admin).content)
    assert read(tmp_path / "alone.json.gz").snapshot.history == recording.snapshot.history


def _far(house: House) -> Callable[..., None]:
    """A site with a manager of its own joins; gives what lets it report."""
    peer = house.token(Role.PEER, consumer="far-manager", sites=("far",))
    status = {
        "identity": "store-1", "slots": 100, "speed_mips": house.federation.config.service.reference_mips,
        "reference_mips": house.federation.config.service.reference_mips, "driver": "emulated", "can_suspend": True,
        "can_migrate": True, "lends": True, "local_vms": 10, "guest_vms": 0, "waiting_local": 0, "waiting_guests": 0,
        "waiting_local_vms": 0, "waiting_guest_vms": 0,
    }  # fmt: skip

    def exchange(**more: Any) -> None:
        body = {"status": status, "acknowledged": 0, "messages": []} | more
        answer = house.ask("POST", "/v1/sites/far/messages", peer, json=body)
        assert answer.status_code == 200, answer.text

    exchange()
    return exchange


def test_a_lease_at_a_site_with_a_manager_has_an_estimate_and_is_decided_again(house: House) -> None:
    exchange, token, admin = _far(house), house.token(), house.token(Role.FEDERATION_ADMIN)
    lease = house.submit(token, vms=80, duration_s=600)
    assert (lease["site"], lease["state"]) == ("far", "waiting")
    _refresh(house)
    found = house.ask("GET", f"/v1/estimates/{lease['id']}", token).json()
    assert [one["what"] for one in found["estimates"]] == ["start", "end"]
    assert found["estimates"][0]["sites"] == [{"site": "far", "share": 1.0}]
    assert found["estimates"][0]["expected_at"] is not None
    body = {"changes": [{"drain": "far"}], "horizon_s": 3600, "replications": 2}
    figures = house.ask("POST", "/v1/whatif", admin, json=body).json()["figures"]
    assert ("far", "guests_started") in {(one["site"], one["name"]) for one in figures}
    federation = house.federation
    terms = replace(federation.forecasts._terms(), seed=11)
    recorder = house.portal.call(
        federation.ask,
        lambda engine: engine.record(
            terms, lambda: make_gateway(federation.config, federation._can, Random(11), federation._identity), 1000
        ),
    )
    now_ms = federation.clock()
    report = {
        "kind": "report", "lease": lease["id"], "state": "running", "reason": "room-free", "planned_ms": now_ms,
        "first_start_ms": now_ms, "preemptions": 0, "overhead_vm_ms": 0, "migrations": 0, "work_left": -1,
        "prepared_until_ms": -1, "onward": [], "command": None,
    }  # fmt: skip
    exchange(messages=[{"seq": 1, "body": report}])
    house.submit(token, vms=70, duration_s=600)
    assert house.portal.call(federation.ask, lambda engine: engine.stop_recording(recorder))
    recording = recorder.recording()
    assert {one["told"] for instant in recording.instants for one in instant.told} == {"RemoteTold"}
    assert {one["event"] for instant in recording.instants for one in instant.events} >= {"SiteReported", "Submitted"}
    outcome = replay(recording)
    assert outcome.difference is None, outcome.difference
    _refresh(house)
    found = house.ask("GET", f"/v1/estimates/{lease['id']}", token).json()
    assert [one["what"] for one in found["estimates"]] == ["end"]


def test_a_worker_that_is_killed_is_started_again(house: House) -> None:
    token = house.token()
    lease = house.submit(token, vms=2)["id"]
    _refresh(house)
    process = house.federation.forecasts._worker._process
    assert process is not None
    process.kill()
    until(lambda: process.returncode is not None)
    _refresh(house)
    assert house.ask("GET", f"/v1/estimates/{lease}", token).status_code == 200
