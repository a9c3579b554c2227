"""Connections of real sockets: who says nothing, or too little, or too slowly, harms nobody else."""

import asyncio
import os
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.service.ops.test_serving import admin, config, served

from leasehold.client import LeaseSpec
from leasehold.service.config import Limits, ServiceConfig
from leasehold.service.connections import (
    MOST_HEAD_BYTES,
    ConnectionLimits,
    Connections,
    fitting_descriptors,
)
from leasehold.service.serving import DataFolder, Listening

Pair = tuple[asyncio.StreamReader, asyncio.StreamWriter]
HALF = b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: "


def limited(**limits: int) -> ServiceConfig:
    return replace(config(), limits=Limits(**limits))


@pytest.fixture
def place(tmp_path: Path) -> DataFolder:
    return DataFolder(tmp_path / "data", tmp_path / "data")


async def connect(listening: Listening) -> Pair:
    parts = urlsplit(listening.url)
    return await asyncio.open_connection(parts.hostname, parts.port)


async def is_closed(reader: asyncio.StreamReader) -> bytes:
    """Read until the gateway closes the connection; gives what it said before."""
    try:
        return await reader.read()
    except ConnectionError:
        return b""


def visiting(
    config: ServiceConfig,
    place: DataFolder,
    visit: Callable[[Listening, AsyncExitStack], Awaitable[None]],
) -> None:
    """Visit a gateway, and close all connections in the end."""

    async def visit_and_leave(listening: Listening) -> None:
        async with AsyncExitStack() as stack:
            await visit(listening, stack)

    served(config, place, visit_and_leave)


async def opened(listening: Listening, stack: AsyncExitStack, say: bytes = HALF) -> Pair:
    reader, writer = await connect(listening)
    stack.callback(writer.close)
    writer.write(say)
    return reader, writer


def test_two_thousand_half_open_connections_harm_nobody(place: DataFolder) -> None:
    async def visit(listening: Listening, stack: AsyncExitStack) -> None:
        async with admin(listening) as client:
            assert (await client.health()).ready
            for number in range(2_000):
                await opened(listening, stack, HALF if number % 2 else b"")
            assert [site.name for site in await client.sites.list()] == ["das3"]
        async with admin(listening) as newcomer:
            assert (await newcomer.health()).ready

    visiting(limited(head_within_ms=600_000), place, visit)


@pytest.fixture
def with_tls(
    key_pair: Callable[..., tuple[Path, Path]], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., ServiceConfig]:
    certificate, key = key_pair()
    monkeypatch.setenv("LEASEHOLD_CA", str(certificate))
    service = config(tls_certificate=certificate, tls_key=key)
    return lambda **limits: replace(service, limits=Limits(**limits))


class TestTls:
    def test_handshakes_without_end_harm_nobody(
        self, place: DataFolder, with_tls: Callable[..., ServiceConfig]
    ) -> None:
        async def visit(listening: Listening, stack: AsyncExitStack) -> None:
            async with admin(listening) as client:
                assert (await client.health()).ready
                first, _ = await opened(listening, stack, b"")
                for number in range(40):
                    await opened(listening, stack, b"\x16\x03\x01\x02" if number % 2 else b"")
                assert await is_closed(first) == b""
                assert [site.name for site in await client.sites.list()] == ["das3"]
            async with admin(listening) as newcomer:
                assert (await newcomer.health()).ready

        visiting(with_tls(open_connections=8, head_within_ms=600_000), place, visit)

    @pytest.mark.parametrize("say", [b"", b"\x16\x03\x01\x02", b"GET / HTTP/1.1\r\n\r\n"])
    def test_whoever_does_not_get_on_with_it_is_let_go(
        self, place: DataFolder, with_tls: Callable[..., ServiceConfig], say: bytes
    ) -> None:
        async def visit(listening: Listening, stack: AsyncExitStack) -> None:
            silent, _ = await opened(listening, stack, say)
            assert not (await is_closed(silent)).startswith(b"HTTP")

        visiting(with_tls(head_within_ms=50), place, visit)

    def test_a_request_may_come_with_the_end_of_the_handshake(
        self, place: DataFolder, with_tls: Callable[..., ServiceConfig]
    ) -> None:
        async def visit(listening: Listening, stack: AsyncExitStack) -> None:
            reader, writer = await opened(listening, stack, b"")
            theirs, ours = ssl.MemoryBIO(), ssl.MemoryBIO()
            context = ssl.create_default_context(cafile=os.environ["LEASEHOLD_CA"])
            secured = context.wrap_bio(theirs, ours, server_hostname="127.0.0.1")
            while True:
                try:
                    secured.do_handshake()
                except ssl.SSLWantReadError:
                    writer.write(ours.read())
                    theirs.write(await reader.read(65_536))
                else:
                    break
            secured.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            writer.write(ours.read())  # the client's last words of the handshake are still in there
            answer = b""
            while not answer:
                theirs.write(await reader.read(65_536))
                with suppress(ssl.SSLWantReadError):
                    answer = secured.read(65_536)
            assert answer.startswith(b"HTTP/1.1 200 ")

        visiting(with_tls(), place, visit)


def test_where_all_connections_are_taken_those_who_asked_for_nothing_make_room(place: DataFolder) -> None:
    async def visit(listening: Listening, stack: AsyncExitStack) -> None:
        first, _ = await opened(listening, stack)
        for _ in range(10):
            await opened(listening, stack)
        assert await is_closed(first) == b""
        async with admin(listening) as client:
            assert (await client.health()).ready

    visiting(limited(open_connections=8, head_within_ms=600_000), place, visit)


@pytest.mark.parametrize("say", [b"", b"GET", HALF])
def test_whoever_does_not_ask_in_time_is_told_so_and_let_go(place: DataFolder, say: bytes) -> None:
    async def visit(listening: Listening, stack: AsyncExitStack) -> None:
        reader, _ = await opened(listening, stack, say)
        assert (await is_closed(reader)).startswith(b"HTTP/1.1 408 ")

    visiting(limited(head_within_ms=50), place, visit)


@pytest.mark.parametrize("begin", [HALF, b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n" + HALF])
def test_a_byte_now_and_then_gives_no_more_time(place: DataFolder, begin: bytes) -> None:
    async def visit(listening: Listening, stack: AsyncExitStack) -> None:
        reader, writer = await opened(listening, stack, begin)
        closed = asyncio.ensure_future(is_closed(reader))
        while not (closed.done() or writer.is_closing()):
            writer.write(b"x")
            await asyncio.sleep(0.001)
        assert b"408" in await closed or writer.is_closing()

    visiting(limited(head_within_ms=100), place, visit)


def test_a_head_without_end_is_let_go(place: DataFolder) -> None:
    async def visit(listening: Listening, stack: AsyncExitStack) -> None:
        reader, writer = await opened(listening, stack)
        closed = asyncio.ensure_future(is_closed(reader))
        with suppress(RuntimeError):  # uvloop's, where it is closed already
            for _ in range(4):
                writer.write(b"x" * MOST_HEAD_BYTES)
                await asyncio.sleep(0)
        await closed

    visiting(limited(head_within_ms=600_000), place, visit)


def test_a_body_that_does_not_come_is_not_waited_for(place: DataFolder) -> None:
    async def visit(listening: Listening, stack: AsyncExitStack) -> None:
        assert listening.token_file is not None
        token = listening.token_file.read_bytes().strip()
        head = b"POST /v1/leases HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + token
        head += b"\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
        reader, _ = await opened(listening, stack, head)
        assert await is_closed(reader) == b""

    visiting(limited(body_within_ms=50), place, visit)


def test_a_stream_lasts_longer_than_any_of_these_times(place: DataFolder) -> None:
    async def visit(listening: Listening, stack: AsyncExitStack) -> None:
        assert listening.token_file is not None
        token = listening.token_file.read_bytes().strip()
        head = b"GET /v1/changes?after=0 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + token + b"\r\n\r\n"
        stream, _ = await opened(listening, stack, head)
        await stream.readuntil(b"\r\n\r\n")
        for _ in range(3):  # whoever says nothing measures the time
            silent, _ = await opened(listening, stack)
            await is_closed(silent)
        async with admin(listening) as client:
            await client.leases.submit(LeaseSpec(type="suspendable", vms=1, duration_s=1))
        await stream.readuntil(b"submitted")

    visiting(limited(head_within_ms=50, body_within_ms=50, answer_within_ms=50), place, visit)


# Who goes


class Counted:
    """Stands for a connection: it only says whether it was let go."""

    def __init__(self, connections: Connections, address: str) -> None:
        self.address = address
        self.dropped = False
        self._connections = connections

    def drop(self) -> None:
        self.dropped = True
        self._connections.leave(self)


@given(
    st.integers(1, 6),
    st.integers(1, 4),
    st.lists(st.tuples(st.sampled_from(["come", "ask", "done", "go"]), st.integers(0, 9)), max_size=60),
)
def test_nobody_at_work_is_let_go_and_never_are_there_too_many(
    most: int, per_address: int, steps: list[tuple[str, int]]
) -> None:
    connections = Connections(ConnectionLimits(most, per_address))
    here: list[Counted] = []
    busy: set[Counted] = set()
    for what, number in steps:
        idle_before = Counter(one.address for one in here if one not in busy)
        if what == "come":
            one = Counted(connections, f"192.0.2.{number % 3}")
            admitted = connections.admit(one)
            here = [other for other in here if not other.dropped]
            assert admitted or len(busy) == len(here) >= most
            if admitted:
                here.append(one)
            else:
                connections.leave(one)
        elif here:
            one = here[number % len(here)]
            if what == "ask":
                connections.is_busy(one)
                busy.add(one)
            elif what == "done":
                connections.is_idle(one)
                busy.discard(one)
            else:
                connections.leave(one)
                here.remove(one)
                busy.discard(one)
        assert not any(one.dropped for one in busy)
        assert connections.open == len(here) <= most
        if what == "come":  # more than that may have become idle after what they asked for
            idle = Counter(one.address for one in here if one not in busy)
            assert all(idle[address] <= max(per_address, idle_before[address]) for address in idle)


def test_some_descriptors_are_left_for_everything_else() -> None:
    assert fitting_descriptors(ConnectionLimits(most=4_000), 1_024).most == 768
    assert fitting_descriptors(ConnectionLimits(most=4_000), 65_536).most == 4_000
