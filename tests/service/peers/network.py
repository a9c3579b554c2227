"""Two places with a line between them that can be cut: network namespaces, or a proxy where nobody is root.

In a namespace a gateway has an address towards the other, and one towards whoever runs the test; only the
first line is cut. Everything goes when the test goes, however it ends: namespaces live as long as the
processes in them, and those die with their maker.
"""

import asyncio
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Protocol, Self

PORT = 8470
_DIE_WITH_US = ["setpriv", "--pdeathsig", "KILL"]


class Network(Protocol):
    """Two places, 0 and 1."""

    def command(self, place: int) -> list[str]:
        """What to put before a command that is to run in a place."""

    def host(self, place: int) -> str:
        """At which address to listen there."""

    def port(self, place: int) -> int:
        """At which port to listen there."""

    def address_for_us(self, place: int) -> str:
        """How it is reached by whoever runs the test: ``host:port``."""

    def address_for_other(self, place: int) -> str:
        """How it is reached from the other place, over the line."""

    def cut(self) -> None:
        """Let nothing through."""

    def join(self) -> None:
        """Let everything through again."""


class Namespaces:
    """Two network namespaces; ``holders`` are the processes that keep them."""

    def __init__(self, holders: list[int], tag: str, net: int) -> None:
        self._holders = holders
        self._tag = tag
        self._net = net

    def make(self) -> None:
        """Lay all cables."""
        line = [f"l{self._tag}{place}" for place in (0, 1)]
        _ip("link", "add", line[0], "type", "veth", "peer", "name", line[1])
        for place, holder in enumerate(self._holders):
            ours, theirs = f"u{self._tag}{place}", f"t{self._tag}{place}"
            _ip("link", "add", ours, "type", "veth", "peer", "name", theirs)
            _ip("address", "add", f"{self._for_us(place, 1)}/30", "dev", ours)
            _ip("link", "set", ours, "up")
            for name, address in (
                (theirs, self._for_us(place, 2)),
                (line[place], f"10.{self._net}.0.{place + 1}"),
            ):
                _ip("link", "set", name, "netns", str(holder))
                self._inside(place, "address", "add", f"{address}/30", "dev", name)
                self._inside(place, "link", "set", name, "up")
            self._inside(place, "link", "set", "lo", "up")

    def command(self, place: int) -> list[str]:
        return ["nsenter", f"--net=/proc/{self._holders[place]}/ns/net", *_DIE_WITH_US]

    def host(self, _place: int) -> str:
        return "0.0.0.0"  # noqa: S104 - there is nobody else in that network

    def port(self, _place: int) -> int:
        return PORT

    def address_for_us(self, place: int) -> str:
        return f"{self._for_us(place, 2)}:{PORT}"

    def address_for_other(self, place: int) -> str:
        return f"10.{self._net}.0.{place + 1}:{PORT}"

    def cut(self) -> None:
        self._inside(0, "link", "set", f"l{self._tag}0", "down")

    def join(self) -> None:
        self._inside(0, "link", "set", f"l{self._tag}0", "up")

    def _for_us(self, place: int, end: int) -> str:
        return f"10.{self._net}.{place + 1}.{end}"

    def _inside(self, place: int, *arguments: str) -> None:
        subprocess.run([*self.command(place), "ip", *arguments], check=True, capture_output=True)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


@contextmanager
def namespaces() -> Iterator[Namespaces]:
    """Make two namespaces with cables; all of it goes with the processes that hold them."""
    with ExitStack() as stack:
        holders = [stack.enter_context(_holder()) for _ in (0, 1)]
        tag = f"{os.getpid() % 1_000_000:x}"
        made = Namespaces(holders, tag, 100 + os.getpid() % 100)
        made.make()
        yield made


@contextmanager
def _holder() -> Iterator[int]:
    command = [*_DIE_WITH_US, "unshare", "--net", "sh", "-c", "echo there; exec sleep infinity"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process.pid
        finally:
            process.kill()


class Proxies:
    """Two ports on this machine, each led to by a proxy that can be cut."""

    def __init__(self, ports: list[int], proxies: list["Proxy"]) -> None:
        self._ports = ports
        self._proxies = proxies

    def command(self, _place: int) -> list[str]:
        return list(_DIE_WITH_US) if shutil.which("setpriv") else []

    def host(self, _place: int) -> str:
        return "127.0.0.1"

    def port(self, place: int) -> int:
        return self._ports[place]

    def address_for_us(self, place: int) -> str:
        return f"127.0.0.1:{self._ports[place]}"

    def address_for_other(self, place: int) -> str:
        return f"127.0.0.1:{self._proxies[place].port}"

    def cut(self) -> None:
        for proxy in self._proxies:
            proxy.cut()

    def join(self) -> None:
        for proxy in self._proxies:
            proxy.is_cut = False


class Proxy:
    """Passes on what comes to a port of its own; cut, it hangs up on everybody."""

    def __init__(self, target: int) -> None:
        self.is_cut = False
        self.port = 0
        self._target = target
        self._writers: set[asyncio.StreamWriter] = set()
        self._passing: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._done = asyncio.Event()
        self._is_up = threading.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),))

    def __enter__(self) -> Self:
        self._thread.start()
        self._is_up.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._done.set)
        self._thread.join()
        self._loop.close()

    def cut(self) -> None:
        """Hang up on everybody."""
        self.is_cut = True
        self._loop.call_soon_threadsafe(self._hang_up)

    def _hang_up(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._pass_on, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._is_up.set()
        await self._done.wait()
        server.close()
        self._hang_up()
        await asyncio.gather(*self._passing)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        passing = asyncio.current_task()
        assert passing is not None
        self._passing.add(passing)
        passing.add_done_callback(self._passing.discard)
        try:
            if not self.is_cut:
                await self._to_target(reader, writer)
        except OSError:
            return
        finally:
            self._writers.discard(writer)
            writer.transport.abort()

    async def _to_target(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._target)
        try:
            await asyncio.gather(_copy(reader, back), _copy(there, writer))
        finally:
            back.transport.abort()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while part := await reader.read(65_536):
            writer.write(part)
            await writer.drain()
    writer.transport.abort()


@contextmanager
def proxies() -> Iterator[Proxies]:
    """Make two ports and the proxies that lead there."""
    with ExitStack() as stack:
        ports = [_free_port() for _ in (0, 1)]
        yield Proxies(ports, [stack.enter_context(Proxy(port)) for port in ports])


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def has_namespaces() -> bool:
    """Whether this machine lets us make networks."""
    return os.geteuid() == 0 and bool(shutil.which("ip") and shutil.which("nsenter"))
