"""The configuration is read again without a restart: what can be applied is, the rest is named."""

import asyncio
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from tests.service.api.house import CONFIG, House, house_in
from tests.waiting import until

from leasehold.model.errors import InvariantBroken, LeaseholdError
from leasehold.service.config import ServiceConfig, ServiceSpec, SiteSpec
from leasehold.service.engine.engine import Engine
from leasehold.service.errors import Unavailable
from leasehold.service.opening import Reloaded, reloaded
from leasehold.service.serving import DataFolder, Listening, serve

DAS3, LYON = CONFIG.clusters
OPENED = {"das3": 64, "lyon": 32}


def having(*clusters: SiteSpec, **said: object) -> ServiceConfig:
    return replace(CONFIG, clusters=clusters or CONFIG.clusters, **said)  # type: ignore[arg-type]


def reload(house: House, new: ServiceConfig) -> Reloaded:
    return house.portal.call(house.federation.reload, new)


def test_nothing_new_changes_nothing() -> None:
    assert reloaded(CONFIG, CONFIG, OPENED) == Reloaded(CONFIG, (), ())


def test_each_key_is_applied_or_named() -> None:
    terms = replace(DAS3.terms, non_preemptable_share=0.5, speed_mips=7)
    new = having(
        replace(DAS3, slots=16, terms=terms),
        SiteSpec("jena", 4),
        service=replace(CONFIG.service, port=1),
        gateway=replace(CONFIG.gateway, policy="rr"),
        log=replace(CONFIG.log, level="debug", format="json"),
    )
    found = reloaded(CONFIG, new, OPENED)
    assert found.applied == (
        "cluster.das3.non_preemptable_share",
        "cluster.das3.slots",
        "gateway.policy",
        "log.level",
    )
    assert {"cluster.das3.speed_mips", "service.port", "log.format"} <= set(found.needs_restart)
    assert {"cluster.jena.slots", "cluster.lyon.slots"} <= set(found.needs_restart)
    assert [site.name for site in found.config.clusters] == ["das3", "lyon"]
    assert found.config.service == CONFIG.service


def test_a_site_grows_to_what_its_machines_were_opened_with() -> None:
    small = having(replace(DAS3, slots=8), LYON)
    assert reloaded(small, CONFIG, OPENED).applied == ("cluster.das3.slots",)
    larger = reloaded(CONFIG, having(replace(DAS3, slots=65), LYON), OPENED)
    assert (larger.applied, larger.needs_restart) == ((), ("cluster.das3.slots",))


def test_a_site_shrinks_at_once_and_its_guests_give_way(tmp_path: Path) -> None:
    with house_in(tmp_path) as house:
        token = house.token()
        for _ in range(3):
            house.submit(token, vms=30)
        reload(house, having(replace(DAS3, slots=10), replace(LYON, slots=30)))
        for name, slots in (("das3", 10), ("lyon", 30)):
            site = house.portal.call(house.federation.sites.get, name)
            assert site.slots == slots
        leases = house.ask("GET", "/v1/leases", token).json()["leases"]
        assert sum(lease["vms"] for lease in leases if lease["state"] == "running") <= 30
        gave_way = {"suspending", "suspended", "failed", "waiting"}  # who had not begun waits
        assert {lease["state"] for lease in leases} <= {"starting", "running"} | gave_way
        house.portal.call(house.federation.ask, lambda engine: engine.check())
        assert house.portal.call(house.federation.sites.get, "das3").slots == 10


def test_what_cannot_be_served_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    with house_in(tmp_path) as house:
        bad = having(replace(DAS3, slots=10), LYON, gateway=replace(CONFIG.gateway, policy="nowhere.py:best"))
        with pytest.raises(LeaseholdError, match="nowhere"):
            reload(house, bad)
        assert house.federation.config == CONFIG
        assert house.portal.call(house.federation.sites.get, "das3").slots == 64
        house.submit(house.token(), vms=50)


@pytest.mark.parametrize(
    ("error", "broken"),
    [(InvariantBroken("lease 4 is lost"), "lease 4 is lost"), (Unavailable("the store is down"), "")],
)
def test_what_a_check_finds_after_a_reload_does_not_undo_it_and_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: LeaseholdError, broken: str
) -> None:
    def fail(_: Engine) -> None:
        raise error

    with house_in(tmp_path) as house:
        monkeypatch.setattr(Engine, "check", fail)
        outcome = reload(house, having(replace(DAS3, slots=10), LYON))
        assert outcome.applied == ("cluster.das3.slots",)
        assert house.federation.config == outcome.config
        assert house.federation.health.broken == broken


def test_sighup_reads_the_file_again_and_says_what_came_of_it(tmp_path: Path) -> None:
    first = ServiceConfig((SiteSpec("das3", 8),), ServiceSpec(port=0))
    answers = iter([LeaseholdError("leasehold.toml:3: slotz"), replace(first, clusters=(SiteSpec("das3", 4),))])

    def reread() -> ServiceConfig:
        answer = next(answers)
        if isinstance(answer, LeaseholdError):
            raise answer
        assert isinstance(answer, ServiceConfig)
        return answer

    async def visit(listening: Listening) -> None:
        def said(event: str) -> bool:
            return any(one["event"] == event for one in logs)

        os.kill(os.getpid(), signal.SIGHUP)
        await asyncio.to_thread(until, lambda: said("configuration not reloaded"))
        assert (await listening.federation.sites.get("das3")).slots == 8
        os.kill(os.getpid(), signal.SIGHUP)
        await asyncio.to_thread(until, lambda: said("configuration reloaded"))
        assert (await listening.federation.sites.get("das3")).slots == 4
        seen.append("all")
        os.kill(os.getpid(), signal.SIGTERM)

    seen: list[str] = []
    with capture_logs() as logs:
        asyncio.run(serve(first, DataFolder(tmp_path / "data", tmp_path / "data"), visit, reread))
    assert seen == ["all"]
    (told,) = [one for one in logs if one["event"] == "configuration reloaded"]
    assert (told["applied"], told["needs_restart"]) == (["cluster.das3.slots"], [])
    (refused,) = [one for one in logs if one["event"] == "configuration not reloaded"]
    assert refused["cause"] == "leasehold.toml:3: slotz"
