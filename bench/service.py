"""The live gateway under load: requests accepted for good, single decisions, starting again.

The yardstick is the disk: how often SQLite alone commits one row there, as durably as the gateway does. A
gateway that committed each request for itself could accept no more than that.
"""

import sqlite3
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.children import answer_of
from bench.race import Say
from bench.table import show

_COMMITS = 2_000


@dataclass(frozen=True, slots=True)
class Held:
    """A gateway that holds so many leases: what it did as it was filled, then, and when it began again."""

    leases: int
    accepted_per_s: float
    guest: dict[str, float]
    local: dict[str, float]
    recall: dict[str, float]
    restart_s: float
    restart_cpu_s: float
    intake: dict[str, float]


@dataclass(frozen=True, slots=True)
class Service:
    """Everything measured: commits of the disk alone, a gateway over HTTP, and gateways that hold many."""

    commits_per_s: float
    over_http: dict[str, float]
    held: list[Held]


def service(sizes: Sequence[int], requests: int, say: Say) -> Service:
    """Measure one after the other, each in a process and a folder of its own."""
    say("the disk alone, and a gateway over HTTP")
    with TemporaryDirectory(prefix="leasehold-bench-") as folder:
        commits = _commits_per_s(Path(folder))
        over_http = answer_of("bench.over_http", folder, str(requests))
    return Service(commits, over_http, [_held(leases, say) for leases in sizes])


def _held(leases: int, say: Say) -> Held:
    say(f"a gateway that holds {leases:,} leases")
    with TemporaryDirectory(prefix="leasehold-bench-") as folder:
        told = answer_of("bench.held", folder, str(leases))
        again = answer_of("bench.held", folder, str(leases), "--again")
    return Held(leases, **told, **again)


def _commits_per_s(folder: Path) -> float:
    connection = sqlite3.connect(folder / "alone.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY, text TEXT)")
    begun_s = time.perf_counter()
    for _ in range(_COMMITS):
        connection.execute("INSERT INTO rows (text) VALUES ('a lease')")
    passed_s = time.perf_counter() - begun_s
    connection.close()
    return _COMMITS / passed_s


def show_service(measured: Service) -> None:
    """Print how many requests are accepted, how long a decision takes, and how soon it is back."""
    alone, http = measured.commits_per_s, measured.over_http
    latency = [f"{http['median_ms']:.1f}", f"{http['p99_ms']:.1f}"]
    rows = [["SQLite alone, a row each", f"{alone:,.0f}", "1.00", "", ""]]
    rows += [["over HTTP, 32 connections", *_pace(http["accepted_per_s"], alone), *latency]]
    rows += [[f"filling up to {one.leases:,}", *_pace(one.accepted_per_s, alone), "", ""] for one in measured.held]
    show(["durably accepted", "per second", "ratio", "median, ms", "99 %"], rows)
    cpu = [f"{http['gateway_cpu_ms']:.2f}", f"{http['client_cpu_ms']:.2f}"]
    show(["processor time of a request over HTTP, ms", "gateway", "client"], [["", *cpu]])
    columns = ["decided and committed, ms", "guest", "99 %", "local request", "99 %"]
    show(columns, [_row(one) for one in measured.held])
    columns = [
        "recall and restart",
        "VMs recalled",
        "decided, s",
        "machines run, s",
        "restart, s",
        "its processor time, s",
    ]
    show(columns, [_recall_and_restart(one) for one in measured.held])
    columns = ["requests while nodes are taken in, ms", "median", "most", "all taken in, s"]
    show(columns, [_intake(one) for one in measured.held])


def _pace(accepted_per_s: float, alone: float) -> list[str]:
    return [f"{accepted_per_s:,.0f}", f"{accepted_per_s / alone:.2f}"]


def _row(one: Held) -> list[str]:
    times = [part[which] for part in (one.guest, one.local) for which in ("median_ms", "p99_ms")]
    return [f"{one.leases:,} held", *(f"{time_ms:.1f}" for time_ms in times)]


def _recall_and_restart(one: Held) -> list[str]:
    recall = [one.recall["decided_s"], one.recall["followed_s"], one.restart_s, one.restart_cpu_s]
    return [f"{one.leases:,} held", f"{one.recall['vms']:,}", *(f"{time_s:.1f}" for time_s in recall)]


def _intake(one: Held) -> list[str]:
    waits = [one.intake["median_ms"], one.intake["most_ms"]]
    return [f"{one.leases:,} held", *(f"{wait_ms:.0f}" for wait_ms in waits), f"{one.intake['intake_s']:.1f}"]
