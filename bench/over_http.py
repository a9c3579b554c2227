"""A gateway as its users meet it: how many requests are accepted within a second over HTTP, and how soon?

    python -m bench.over_http FOLDER REQUESTS

`leasehold serve` runs as a process of its own, with ten emulated sites and a SQLite file in FOLDER. 32
connections ask side by side, each as soon as it has its answer: 201, sent when the lease is committed.

Asking begins when all nodes have been taken in. ``gateway_cpu_ms`` and ``client_cpu_ms`` are the processor time of
each process for one request: what another machine, or one that others use too, can be compared by.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import httpx2 as httpx

from bench.held import SITES, config, slots_of
from leasehold.service.config import LogSpec, ServiceConfig
from leasehold.service.config_file import commented_toml

CONNECTIONS = 32
LEASES = 10_000
"""For so many the sites are made."""

_CREATED = b"HTTP/1.1 201"
_SILENT: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


@contextmanager
def serving(folder: Path, service: ServiceConfig) -> Iterator[int]:
    """Serve what is in the folder until the end of the block, without a line of log for each request.

    Gives the number of its process.
    """
    file = folder / "leasehold.toml"
    file.write_text(commented_toml(replace(service, log=LogSpec(requests=False))), encoding="utf-8")
    command = [sys.executable, "-m", "leasehold.cli.main", "serve", "--config", str(file)]
    with subprocess.Popen([*command, "--data", str(folder), "--port", "0"], **_SILENT) as process:
        try:
            yield process.pid
        finally:
            process.terminate()


async def address(folder: Path, within_s: float = 60) -> tuple[str, int]:
    """Wait until it listens, and say where."""
    file = folder / "url"
    async with asyncio.timeout(within_s):
        while True:
            if file.exists() and (url := file.read_text(encoding="utf-8").strip()):
                host, _, port = url.removeprefix("http://").rpartition(":")
                try:
                    _, writer = await asyncio.open_connection(host, int(port))
                except OSError:
                    pass
                else:
                    writer.close()
                    return host, int(port)
            await asyncio.sleep(0.05)


def message(number: int, token: str) -> bytes:
    """Ask for one lease."""
    body = json.dumps({"type": "suspendable", "vms": 1 + number % 2, "duration_s": 7_200}).encode()
    head = (
        "POST /v1/leases HTTP/1.1\r\nHost: gateway\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {token}\r\nIdempotency-Key: {number}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def answer_to(asked: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Ask, and read the whole answer; raises RuntimeError for one that is not 201."""
    writer.write(asked)
    head = await reader.readuntil(b"\r\n\r\n")
    fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if line)
    body = await reader.readexactly(int(fields[b"content-length"]))
    if not head.startswith(_CREATED):
        raise RuntimeError(f"{head!r} {body!r}")


def cpu_s(process: int) -> float:
    """Give the processor time that a process has used; 0 where the system does not say."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text(encoding="ascii")
    except OSError:
        return 0.0
    user, system = stat.rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


async def all_nodes_taken_in(host: str, port: int, token: str, nodes: int) -> None:
    """Wait until the gateway knows so many nodes."""
    async with httpx.AsyncClient(base_url=f"http://{host}:{port}", timeout=600) as client:
        found = 0
        while found < nodes:
            await asyncio.sleep(1)
            found, which = 0, {"limit": "1000", "brief": "true"}
            while which:
                answer = await client.get("/v1/nodes", params=which, headers={"Authorization": f"Bearer {token}"})
                page = answer.raise_for_status().json()
                found += len(page["nodes"])
                which = which | {"cursor": page["next"]} if page["next"] else {}


async def ask(folder: Path, requests: int, process: int) -> dict[str, Any]:
    """Ask for so many leases."""
    host, port = await address(folder)
    token = (folder / "admin.token").read_text(encoding="utf-8").strip()
    await all_nodes_taken_in(host, port, token, SITES * slots_of(LEASES))
    numbers, times_ms = iter(range(requests)), []

    async def ask_again_and_again() -> None:
        reader, writer = await asyncio.open_connection(host, port)
        for number in numbers:
            begun_s = time.perf_counter()
            await answer_to(message(number, token), reader, writer)
            times_ms.append((time.perf_counter() - begun_s) * 1000)
        writer.close()

    begun_s, client_s, gateway_s = time.perf_counter(), time.process_time(), cpu_s(process)
    await asyncio.gather(*(ask_again_and_again() for _ in range(CONNECTIONS)))
    accepted_per_s = requests / (time.perf_counter() - begun_s)
    return {
        "accepted_per_s": accepted_per_s,
        "gateway_cpu_ms": (cpu_s(process) - gateway_s) / requests * 1000,
        "client_cpu_ms": (time.process_time() - client_s) / requests * 1000,
        "median_ms": median(times_ms),
        "p99_ms": quantiles(times_ms, n=100)[98],
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("requests", type=int)
    given = parser.parse_args()
    with serving(given.folder, config(LEASES)) as gateway:
        print(json.dumps(asyncio.run(ask(given.folder, given.requests, gateway))))
