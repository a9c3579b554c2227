"""While requests cannot be decided, probes, metrics and the log say so, and why; then that they can again."""

import threading
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from structlog.testing import capture_logs
from tests.service.api.house import UNLIMITED, House, asked, house_in
from tests.waiting import until

from leasehold.service.api.settings import ApiSettings
from leasehold.service.engine.engine import Engine
from leasehold.service.errors import Unavailable
from leasehold.service.federation import LONGEST_STEP_S
from leasehold.testing.postgres import USER, PostgresServer

SETTINGS = ApiSettings(version="1", rate=UNLIMITED, metrics_need_token=False)
Said = list[MutableMapping[str, Any]]


@pytest.fixture
def said() -> Iterator[Said]:
    """What the log says of requests being decided."""
    with capture_logs() as logs:
        yield logs


def about_deciding(said: Said) -> list[tuple[str, str]]:
    return [
        (one["log_level"], one["event"])
        for one in said
        if one["event"] in {"requests cannot be decided", "requests are decided again"}
    ]


TROUBLE_ONCE = [("error", "requests cannot be decided"), ("info", "requests are decided again")]


def status(house: House, path: str) -> int:
    return house.ask("GET", path).status_code


def ready_metric(house: House) -> str:
    told = house.ask("GET", "/metrics").text
    return next(line.split()[1] for line in told.splitlines() if line.startswith("leasehold_ready "))


@contextmanager
def full(house: House) -> Iterator[None]:
    """Let the database of a house grow no further, as on a disk that is full."""

    def limit(engine: Engine, pages: int | None) -> None:
        with engine.store._writer.transaction() as connection:
            now = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
            connection.exec_driver_sql(f"PRAGMA max_page_count = {pages or now}")

    house.portal.call(house.federation.ask, lambda engine: limit(engine, None))
    yield
    with house.federation.store._writer.transaction() as connection:
        connection.exec_driver_sql("PRAGMA max_page_count = 1000000")


def fill(house: House, token: str) -> int:
    """Submit until a request is not taken in; how many were."""
    for count in range(10_000):
        answer = house.ask("POST", "/v1/leases", token, json=asked(vms=1))
        if answer.status_code == 503:
            return count
        assert answer.status_code == 201
    raise AssertionError("it was never full")


def test_a_full_disk_is_said_everywhere_until_there_is_room_again(tmp_path: Path, said: Said) -> None:
    with house_in(tmp_path, SETTINGS) as house:
        token = house.token()
        with full(house):
            taken = fill(house, token)
            probed = house.ask("GET", "/readyz")
            assert (probed.status_code, probed.json()["detail"]) == (503, "the store does not answer")
            assert str(tmp_path) not in probed.text, "a probe takes no token, and says nothing of this machine"
            assert "full" in house.federation.health.why_not
            assert ready_metric(house) == "0.0"
            assert status(house, "/healthz") == 200  # a new start would not help
        until(lambda: status(house, "/readyz") == 200)
        assert ready_metric(house) == "1.0"
        house.submit(token, vms=1)
        assert len(house.ask("GET", "/v1/leases?limit=1000", token).json()["leases"]) == taken + 1
    assert about_deciding(said) == TROUBLE_ONCE
    (cause,) = (one["cause"] for one in said if one["event"] == "requests cannot be decided")
    assert "database or disk is full" in cause


def test_a_store_whose_file_was_removed_takes_nothing_that_would_be_lost(tmp_path: Path, said: Said) -> None:
    with house_in(tmp_path, SETTINGS) as house:
        file, aside = tmp_path / "store.db", tmp_path / "aside.db"
        file.rename(aside)
        with pytest.raises(Exception, match="the file has been removed"):
            house.federation.store.prove_writable()
        aside.rename(file)
        house.federation.store.prove_writable()
    assert about_deciding(said) == []


@contextmanager
def cut_off(server: PostgresServer, database: str) -> Iterator[None]:
    """Let nobody into a database, and throw out who is in it."""
    allow = sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS {}")
    with psycopg.connect(host=str(server.folder), user=USER, dbname="postgres", autocommit=True) as connection:
        connection.execute(allow.format(sql.Identifier(database), sql.SQL("false")))
        throw_out = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s"
        connection.execute(throw_out, [database])
        yield
        connection.execute(allow.format(sql.Identifier(database), sql.SQL("true")))


def test_a_database_that_is_gone_is_noticed_without_a_request(
    tmp_path: Path, postgres: PostgresServer, postgres_url: str, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leasehold.service.engine_thread.PROBE_EVERY_S", 0.05)
    with house_in(tmp_path, SETTINGS, url=postgres_url) as house:
        token = house.token()
        house.submit(token)
        with cut_off(postgres, postgres_url.partition("@/")[2].partition("?")[0]):
            until(lambda: status(house, "/readyz") == 503)
            assert ready_metric(house) == "0.0"
        until(lambda: status(house, "/readyz") == 200)
        house.submit(token)
    assert about_deciding(said) == TROUBLE_ONCE


def test_a_step_that_takes_too_long_is_said_while_it_does(
    tmp_path: Path, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And neither probes nor metrics wait for the engine."""
    monkeypatch.setattr("leasehold.service.federation._WATCH_EVERY_S", 0.01)
    monkeypatch.setattr("leasehold.service.federation.LONGEST_STEP_S", 0.1)
    monkeypatch.setattr("leasehold.service.federation._LOOK_S", 0.01)
    assert LONGEST_STEP_S == 10
    going_on = threading.Event()
    with house_in(tmp_path, SETTINGS) as house:
        until(lambda: status(house, "/readyz") == 200)
        looking = house.portal.start_task_soon(house.federation.ask, lambda _: going_on.wait())
        until(lambda: status(house, "/readyz") == 503)
        assert "the engine has been at one step for" in house.federation.health.why_not
        assert ready_metric(house) == "0.0"
        assert status(house, "/healthz") == 200
        until(lambda: any("takes too long" in one["event"] for one in said))
        going_on.set()
        looking.result()
        until(lambda: status(house, "/readyz") == 200)
        until(lambda: any("is done" in one["event"] for one in said))
    assert about_deciding(said) == []


def test_an_engine_without_its_driver_is_not_alive(tmp_path: Path, said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    """A defect that would leave everybody waiting for ever."""

    def defect(*_: object) -> None:
        raise ZeroDivisionError

    def see_it_die() -> None:
        with house_in(tmp_path, SETTINGS) as house:
            monkeypatch.setattr(house.federation.feed, "advance", defect)
            house.portal.start_task_soon(house.federation.ask, lambda _: None)
            until(lambda: status(house, "/healthz") == 503)
            assert status(house, "/readyz") == 503
            with pytest.raises(Unavailable):
                house.portal.call(house.federation.ask, lambda _: None)

    with pytest.raises(ZeroDivisionError):
        see_it_die()
    assert any(one["log_level"] == "critical" for one in said)
