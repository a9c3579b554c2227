"""A gateway as a process: it listens when it is ready, and stops without losing anything."""

import asyncio
import os
import signal
import socket
import stat
from collections.abc import Awaitable, Callable
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from leasehold.client import AsyncClient, LeaseSpec
from leasehold.client.access import is_at_work
from leasehold.model.errors import InputError
from leasehold.service.config import ServiceConfig, ServiceSpec, SiteSpec
from leasehold.service.serving import DataFolder, Listening, loop_for, serve
from leasehold.service.store.store import open_store

Visit = Callable[[Listening], Awaitable[None]]


def config(**service: Any) -> ServiceConfig:
    return ServiceConfig((SiteSpec("das3", 8),), ServiceSpec(port=0, **service))


@pytest.fixture
def place(tmp_path: Path) -> DataFolder:
    return DataFolder(tmp_path / "data", tmp_path / "data")


def stop() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def served(config: ServiceConfig, place: DataFolder, visit: Visit) -> None:
    """Serve until the visit is over, on the loop of `leasehold serve`; what goes wrong in it is raised."""
    troubles: list[BaseException] = []

    async def visiting(listening: Listening) -> None:
        try:
            await visit(listening)
        except Exception as trouble:  # noqa: BLE001 - it is raised below
            troubles.append(trouble)
        stop()

    with asyncio.Runner(loop_factory=loop_for(config.service)) as runner:
        runner.run(serve(config, place, visiting))
    for trouble in troubles:
        raise trouble


def admin(listening: Listening) -> AsyncClient:
    assert listening.token_file is not None
    return AsyncClient(listening.url, listening.token_file.read_text(encoding="utf-8").strip())


class TestListening:
    def test_whoever_finds_it_can_ask_at_once(self, place: DataFolder) -> None:
        async def visit(listening: Listening) -> None:
            async with admin(listening) as client:
                assert (await client.health()).ready
                assert [site.name for site in await client.sites.list()] == ["das3"]

        served(config(), place, visit)

    def test_its_address_and_its_token_are_in_the_data_folder(self, place: DataFolder) -> None:
        async def visit(listening: Listening) -> None:
            assert (place.folder / "url").read_text(encoding="utf-8").strip() == listening.url
            assert is_at_work(place.folder)
            assert listening.token_file == place.folder / "admin.token"

        served(config(), place, visit)
        assert not (place.folder / "url").exists()
        assert stat.S_IMODE(place.folder.stat().st_mode) == 0o700
        assert stat.S_IMODE((place.folder / "admin.token").stat().st_mode) == 0o600

    def test_its_address_may_be_another_for_its_users(self, place: DataFolder) -> None:
        async def visit(listening: Listening) -> None:
            assert listening.url == "https://leasehold.example.org"

        served(config(url="https://leasehold.example.org"), place, visit)

    def test_over_tls(
        self, place: DataFolder, key_pair: Callable[..., tuple[Path, Path]], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        certificate, key = key_pair()
        monkeypatch.setenv("LEASEHOLD_CA", str(certificate))

        async def visit(listening: Listening) -> None:
            assert listening.url.startswith("https://")
            async with admin(listening) as client:
                assert (await client.health()).ready

        served(config(tls_certificate=certificate, tls_key=key), place, visit)

    @pytest.mark.parametrize(("metrics", "status"), [("auto", 200), ("token", 401)])
    def test_metrics_need_a_token_where_that_is_said(self, place: DataFolder, metrics: str, status: int) -> None:
        async def visit(listening: Listening) -> None:
            async with httpx2.AsyncClient() as client:
                answer = await client.get(f"{listening.url}/metrics")
            assert answer.status_code == status

        served(config(metrics=metrics), place, visit)


class TestNotListening:
    def test_where_somebody_else_does(self, place: DataFolder) -> None:
        with closing(socket.create_server(("127.0.0.1", 0))) as other:
            port = other.getsockname()[1]
            taken = replace(config(), service=ServiceSpec(port=port))
            with pytest.raises(InputError, match=rf"127\.0\.0\.1 port {port}: cannot be bound: Address already"):
                served(taken, place, nobody)
        assert not (place.work / "leasehold.db").exists()

    def test_where_another_gateway_has_the_store(self, place: DataFolder) -> None:
        place.make()
        with open_store(place.store_url(ServiceSpec())) as store:
            store.acquire_writer_lock()
            with pytest.raises(InputError, match="in use by another gateway"):
                served(config(), place, nobody)

    def test_with_a_certificate_that_is_none(self, place: DataFolder, tmp_path: Path) -> None:
        missing = tmp_path / "tls.crt"
        with pytest.raises(InputError, match=r"tls\.crt: cannot be read"):
            served(config(tls_certificate=missing, tls_key=missing), place, nobody)


async def nobody(_listening: Listening) -> None:
    """Do not come: what is served is not to be reached."""
    raise AssertionError


class TestStopping:
    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    def test_lets_go_of_the_store(self, place: DataFolder, number: signal.Signals) -> None:
        async def visit(_listening: Listening) -> None:
            os.kill(os.getpid(), number)
            await asyncio.Event().wait()

        asyncio.run(serve(config(), place, visit))
        with open_store(place.store_url(ServiceSpec())) as store:
            store.acquire_writer_lock()

    def test_keeps_what_was_accepted(self, place: DataFolder) -> None:
        async def ask(listening: Listening) -> None:
            async with admin(listening) as client:
                await client.leases.submit(LeaseSpec(type="suspendable", vms=2, duration_s=3600))

        async def look(listening: Listening) -> None:
            async with admin(listening) as client:
                assert (await client.leases.get(1)).vms == 2

        served(config(), place, ask)
        served(config(), place, look)

    def test_ends_streams_that_would_never_end_by_themselves(self, place: DataFolder) -> None:
        heard: list[str] = []

        async def listen(listening: Listening) -> None:
            assert listening.token_file is not None
            token = listening.token_file.read_text(encoding="utf-8").strip()
            headers = {"Authorization": f"Bearer {token}"}
            async with (
                httpx2.AsyncClient(timeout=None) as client,
                client.stream("GET", f"{listening.url}/v1/changes", headers=headers) as answer,
            ):
                stop()
                heard.extend([line async for line in answer.aiter_lines()])
                heard.append("the end")

        async def visit(listening: Listening) -> None:
            # beside the companion, which goes first when the gateway stops
            listeners.append(asyncio.create_task(listen(listening)))

        listeners: list[asyncio.Task[None]] = []
        asyncio.run(_with_all(serve(config(shutdown_ms=3_600_000), place, visit), listeners))
        assert heard[-1] == "the end"

    def test_does_not_wait_for_ever_for_a_request_that_does_not_end(self, place: DataFolder) -> None:
        with socket.socket() as slow:

            async def visit(listening: Listening) -> None:
                assert await _half_a_request(slow, listening) == b"HTTP/1.1 100 Continue"

            served(config(shutdown_ms=0), place, visit)

    def test_a_companion_that_fails_stops_nothing(self, place: DataFolder) -> None:
        async def visit(_listening: Listening) -> None:
            asyncio.get_running_loop().call_soon(stop)
            raise ConnectionError

        asyncio.run(serve(config(), place, visit))

    def test_systemd_is_told_of_both_ends(self, place: DataFolder, monkeypatch: pytest.MonkeyPatch) -> None:
        name = f"leasehold-serving-{os.getpid()}"
        monkeypatch.setenv("NOTIFY_SOCKET", f"@{name}")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
            systemd.bind(f"\0{name}")
            asyncio.run(serve(config(), place, stopping))
            assert [systemd.recv(64), systemd.recv(64)] == [b"READY=1", b"STOPPING=1"]


async def stopping(_listening: Listening) -> None:
    stop()


async def _half_a_request(slow: socket.socket, listening: Listening) -> bytes:
    """Begin a request, and come to where the gateway waits for the rest of it."""
    assert listening.token_file is not None
    token, loop = listening.token_file.read_text(encoding="utf-8").strip(), asyncio.get_running_loop()
    host, port = listening.url.removeprefix("http://").split(":")
    head = (
        "POST /v1/leases HTTP/1.1",
        f"Host: {host}",
        f"Authorization: Bearer {token}",
        "Content-Length: 9",
    )
    more = ("Content-Type: application/json", "Expect: 100-continue", "", "")
    slow.settimeout(0)
    await loop.sock_connect(slow, (host, int(port)))
    await loop.sock_sendall(slow, "\r\n".join((*head, *more)).encode())
    return (await loop.sock_recv(slow, 100)).splitlines()[0]


async def _with_all(serving: Awaitable[None], listeners: list[asyncio.Task[None]]) -> None:
    await serving
    with suppress(httpx2.HTTPError):
        await asyncio.gather(*listeners)


class TestItsFiles:
    """Whatever a gateway writes is its own user's alone, also what machines leave."""

    def test_are_read_by_nobody_else_whatever_is_usual(self, place: DataFolder) -> None:
        async def visit(_: Listening) -> None:
            (place.folder / "written").touch()

        before = os.umask(0)
        try:
            served(config(), place, visit)
            assert os.umask(0) == 0  # that is the process's own affair again
        finally:
            os.umask(before)
        written = [place.folder, *place.folder.rglob("*")]
        assert len(written) > 4
        assert [path for path in written if path.stat().st_mode & 0o077] == []

    @pytest.mark.parametrize("names", [(), ("leasehold.toml", "notes")])
    def test_lie_in_a_folder_that_is_closed_where_it_is_ours(self, place: DataFolder, names: tuple[str, ...]) -> None:
        place.folder.mkdir()
        place.folder.chmod(0o755)
        for name in names:
            (place.folder / name).touch()
        place.make()
        assert place.folder.stat().st_mode & 0o777 == 0o700

    def test_are_not_put_where_somebody_else_looks(self, place: DataFolder) -> None:
        place.folder.mkdir()
        place.folder.chmod(0o777)
        (place.folder / "somebodys.txt").touch()
        with pytest.raises(InputError, match=r"is open to others \(mode 777\), expected a data folder"):
            place.make()
        assert place.folder.stat().st_mode & 0o777 == 0o777
