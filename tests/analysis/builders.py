"""Run folders for tests, written row by row as the schema says: no simulator is asked."""

import copy
import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from leasehold.analysis.run import Run, load, polars_schema
from leasehold.model.tables import OPTIONAL_TABLES, SCHEMA_VERSION

Row = dict[str, Any]

_SITE = {
    "slots": 4,
    "speed_mips": 1000,
    "reference_mips": 1000,
    "local_policy": "conservative",
    "guest_policy": "conservative",
    "victims": "moml",
    "local_queue": "wait",
    "non_preemptable_share_vms": None,
}
_LEASE = {
    "source": "log",
    "consumer": "ada",
    "origin": "external",
    "home": None,
    "memory_mib": 1024,
    "deadline_ms": None,
    "site": None,
    "reason": "completed",
    "first_start_ms": None,
    "end_ms": None,
    "preemptions": 0,
    "migrations": 0,
    "restarts": 0,
    "overhead_vm_ms": 0,
}
_DECISION: Row = dict.fromkeys(polars_schema("decisions").names())


@dataclass
class Tables:
    """The rows of a run folder, to be corrupted at will and then written."""

    sites: list[Row] = field(default_factory=list)
    leases: list[Row] = field(default_factory=list)
    segments: list[Row] = field(default_factory=list)
    decisions: list[Row] = field(default_factory=list)
    baseline: list[Row] = field(default_factory=list)
    coallocations: list[Row] = field(default_factory=list)
    nodes: list[Row] = field(default_factory=list)
    placements: list[Row] = field(default_factory=list)
    manifest: Row = field(default_factory=dict)

    def site(self, site: str, **columns: Any) -> None:
        """Add a cluster."""
        self.sites.append({"site": site} | _SITE | columns)

    def lease(self, lease_id: int, lease_type: str, state: str = "completed", **columns: Any) -> None:
        """Add a lease; times that are not given follow from those that are."""
        row = {"lease_id": lease_id, "source_id": str(lease_id), "lease_type": lease_type, "state": state}
        row |= _LEASE | columns
        row.setdefault("submit_ms", 0)
        row.setdefault("ready_ms", row["submit_ms"])
        row.setdefault("actual_ms", row["requested_ms"])
        row.setdefault("dispatched_ms", row["submit_ms"])
        self.leases.append(row)

    def local(self, lease_id: int, home: str, state: str = "completed", **columns: Any) -> None:
        """Add a local job of the cluster ``home``."""
        here = {"origin": "local", "home": home, "site": home, "dispatched_ms": None}
        self.lease(lease_id, "non-preemptable", state, **(here | columns))

    def held(self, lease_id: int, site: str, times: tuple[int, int], ended_by: str, kind: str = "run") -> None:
        """Add an interval in which a lease, added before, holds its VMs."""
        row = {"lease_id": lease_id, "site": site, "kind": kind, "start_ms": times[0], "end_ms": times[1]}
        self.segments.append(row | {"vms": self.of("leases", lease_id)["vms"], "ended_by": ended_by})

    def coallocation(self, coallocation_id: int, components: int, vms: int, **columns: Any) -> None:
        """Add a co-allocation that came at 400,000 ms."""
        row = {
            "coallocation_id": coallocation_id,
            "source": "log",
            "source_id": str(coallocation_id),
            "consumer": "astro",
        }
        row |= {"components": components, "vms": vms, "claim": "incremental", "place": "worst-fit"}
        row |= {"submit_ms": 400_000, "ready_ms": 400_000, "state": "completed", "reason": "completed"}
        self.coallocations.append(row | {"started_ms": None, "ended_ms": None, "tries": 1, "idle_vm_ms": 0} | columns)

    def placed(self, lease_id: int, vms: int, span_ms: tuple[int, int], devices: str | None, **columns: Any) -> None:
        """Add that a lease holds VMs of a node of cluster ``a``, of four cores and two GPUs in two parts each."""
        node = {"node": "n1", "cores": 4, "memory_mib": 8_192, "gpu_model": "a100", "gpus": 2, "gpu_shares": 2}
        self.nodes = [{"site": "a"} | node]
        row = {
            "lease_id": lease_id,
            "site": "a",
            "node": "n1",
            "start_ms": span_ms[0],
            "end_ms": span_ms[1],
            "vms": vms,
        }
        row |= {"cores": vms, "memory_mib": vms * 1_024, "gpu_model": None, "devices": devices}
        self.placements.append(row | {"gpu_milli": 500 * vms if devices else 0} | columns)

    def decided(self, time_ms: int, lease_id: int, outcome: str, reason: str, **columns: Any) -> None:
        """Add a decision."""
        row = {"seq": len(self.decisions), "time_ms": time_ms, "lease_id": lease_id, "outcome": outcome}
        self.decisions.append(_DECISION | row | {"reason": reason, "rule": "test"} | columns)

    def preempted(
        self, time_ms: int, victim: int, site: str, by: int, victim_set: int, needed: int, **columns: Any
    ) -> None:
        """Add the decision that the only victim ``victim`` makes room for ``by``."""
        vms = self.of("leases", victim)["vms"]
        one = {"set_leases": 1, "set_vms": vms, "needed_vms": needed, "cost_vm_ms": 0, "exact": True}
        who = {"site": site, "beneficiary": by, "victim_set": victim_set}
        self.decided(time_ms, victim, "preempt", "local-needs-room", **(one | who | columns))

    def of(self, table: str, lease_id: int, number: int = 0) -> Row:
        """Return the row of a lease in a table (the ``number``-th of them), to be read or changed."""
        rows: list[Row] = getattr(self, table)
        return [row for row in rows if row["lease_id"] == lease_id][number]

    def copy(self) -> "Tables":
        """Return tables that can be changed without changing these."""
        return copy.deepcopy(self)

    def counted(self) -> Row:
        """Return the manifest's ``jobs`` as these rows would have it."""
        origins = Counter(row["origin"] for row in self.leases)
        states = Counter(row["state"] for row in self.leases)
        local, external = origins["local"], origins["external"]
        counts = {"read": local + external, "local": local, "external": external, "skipped": 0}
        return counts | {"by_state": dict(states)}

    def write(self, folder: Path) -> Path:
        """Write the run folder as these rows have it and return it."""
        folder.mkdir(parents=True, exist_ok=True)
        for table in ("sites", "leases", "segments", "decisions", "baseline", "coallocations", "nodes", "placements"):
            frame = pl.DataFrame(getattr(self, table), schema=polars_schema(table), orient="row")
            if table not in OPTIONAL_TABLES or getattr(self, table):
                frame.write_parquet(folder / f"{table}.parquet")
        ends = [row["end_ms"] for row in self.segments]
        manifest = {
            "schema_version": SCHEMA_VERSION,
            "leasehold": "0.1.0",
            "python": "3.11.7",
            "status": "complete",
            "seed": 7,
            "command": "leasehold sim run small.toml --seed 7",
            "scenario": {"name": "small", "gateway": {"routing": "round-robin", "dispatch": "random"}},
            "started_at": "2026-01-02T03:04:05+00:00",
            "wall_s": 0.1,
            "cpu_s": 0.1,
            "horizon_ms": None,
            "end_ms": max(ends, default=0),
            "jobs": self.counted(),
            "notes": ["Requested times below the actual time were kept as they are."],
        }
        text = json.dumps(manifest | self.manifest)
        (folder / "manifest.json").write_text(text, encoding="utf-8")
        return folder

    def run(self, folder: Path) -> Run:
        """Write the run folder and open it."""
        return load(self.write(folder))


def small_tables() -> Tables:
    """Return a small correct run with one of everything, worked out by hand.

    Cluster ``a`` has 4 slots of the reference speed, ``b`` 4 slots of twice that. Suspendable lease 1
    is preempted for local job 4 and resumes after local job 9, which had to wait for other locals;
    Cancelable 2 ends for local job 3; Migratable 5 leaves ``b`` for ``a``; Non-preemptable 7 is
    refused; local job 8 is ended at its requested time.
    """
    tables = Tables()
    tables.site("a")
    tables.site("b", speed_mips=2000)
    _add_leases(tables)
    _add_segments(tables)
    _add_decisions(tables)
    starts = {3: 40_000, 4: 60_000, 6: 20_000, 8: 60_000, 9: 90_000}
    tables.baseline = [{"lease_id": lease_id, "start_ms": start} for lease_id, start in starts.items()]
    return tables


def _add_leases(tables: Tables) -> None:
    at_a: Row = {"site": "a"}
    tables.lease(
        1,
        "suspendable",
        vms=2,
        requested_ms=150_000,
        actual_ms=100_000,
        first_start_ms=0,
        end_ms=145_000,
        preemptions=1,
        overhead_vm_ms=40_000,
        **at_a,
    )
    tables.lease(
        2,
        "cancelable",
        "terminated",
        vms=2,
        requested_ms=100_000,
        first_start_ms=0,
        end_ms=40_000,
        preemptions=1,
        reason="terminated",
        **at_a,
    )
    tables.local(3, "a", vms=2, requested_ms=50_000, submit_ms=40_000, first_start_ms=40_000, end_ms=90_000)
    tables.local(4, "a", vms=2, requested_ms=30_000, submit_ms=60_000, first_start_ms=60_000, end_ms=90_000)
    tables.lease(
        5,
        "migratable",
        vms=4,
        requested_ms=200_000,
        first_start_ms=0,
        end_ms=315_000,
        preemptions=1,
        migrations=1,
        overhead_vm_ms=80_000,
        deadline_ms=900_000,
        **at_a,
    )
    tables.local(6, "b", vms=1, requested_ms=60_000, submit_ms=20_000, first_start_ms=20_000, end_ms=50_000)
    tables.lease(
        7,
        "non-preemptable",
        "refused",
        vms=1,
        requested_ms=10_000,
        submit_ms=10_000,
        end_ms=10_000,
        reason="no-room-at-ready-time",
    )
    tables.local(
        8,
        "b",
        "killed",
        vms=2,
        requested_ms=20_000,
        actual_ms=40_000,
        submit_ms=60_000,
        first_start_ms=60_000,
        end_ms=70_000,
        reason="walltime-reached",
    )
    tables.local(9, "a", vms=4, requested_ms=5_000, submit_ms=70_000, first_start_ms=90_000, end_ms=95_000)


def _add_segments(tables: Tables) -> None:
    tables.held(1, "a", (0, 60_000), "preempted")
    tables.held(1, "a", (95_000, 105_000), "phase", "resume")
    tables.held(1, "a", (105_000, 145_000), "completed")
    tables.held(2, "a", (0, 40_000), "preempted")
    tables.held(3, "a", (40_000, 90_000), "completed")
    tables.held(4, "a", (60_000, 90_000), "completed")
    tables.held(5, "b", (0, 20_000), "preempted")
    tables.held(5, "a", (145_000, 155_000), "phase", "migrate")
    tables.held(5, "a", (155_000, 315_000), "completed")
    tables.held(6, "b", (20_000, 50_000), "completed")
    tables.held(8, "b", (60_000, 70_000), "killed")
    tables.held(9, "a", (90_000, 95_000), "completed")


def _add_decisions(tables: Tables) -> None:
    tables.decided(0, 1, "start", "room-free", site="a")
    tables.decided(0, 2, "start", "room-free", site="a")
    tables.decided(0, 5, "start", "room-free", site="b")
    tables.decided(10_000, 7, "refuse", "no-room-at-ready-time")
    tables.preempted(20_000, victim=5, site="b", by=6, victim_set=1, needed=1)
    tables.decided(20_000, 6, "start", "room-made", site="b")
    tables.preempted(40_000, victim=2, site="a", by=3, victim_set=2, needed=2)
    tables.decided(40_000, 3, "start", "room-made", site="a")
    tables.preempted(60_000, victim=1, site="a", by=4, victim_set=3, needed=2)
    tables.decided(60_000, 4, "start", "room-made", site="a")
    tables.decided(60_000, 8, "start", "room-free", site="b")
    tables.decided(70_000, 9, "wait", "room-in-use", site="a", planned_ms=90_000)
    tables.decided(90_000, 9, "start", "reserved-start", site="a")
    tables.decided(95_000, 1, "start", "reserved-start", site="a")
    tables.decided(145_000, 5, "start", "reserved-start", site="a")
