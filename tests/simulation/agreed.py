"""Runs under agreements, and what their tables say of them: counted from the segments alone."""

from collections.abc import Iterable
from pathlib import Path

import polars as pl

from leasehold.gateway.gateway import Gateway
from leasehold.simulation.kernel import SimulatedWorld
from leasehold.simulation.recorder import Recorder
from leasehold.simulation.run import make_gateway
from leasehold.simulation.scenario.sites import routing, sharing
from leasehold.simulation.scenario.sources import open_streams, with_sizes
from leasehold.simulation.scenario.spec import Scenario

Tables = dict[str, pl.DataFrame]


def played(scenario: Scenario, folder: Path) -> tuple[Gateway, Tables, int]:
    """Play a scenario to its end; gives the gateway as it is then, the tables, and the last instant."""
    scenario = with_sizes(scenario)
    gateway = make_gateway(scenario, routing(scenario), sharing(scenario))
    folder.mkdir()
    recorder = Recorder(folder)
    world = SimulatedWorld(gateway, enumerate(open_streams(scenario, []), 1), recorder)
    for _ in world.run():
        pass
    recorder.finish(gateway.leases, world.now_ms)
    names = ("leases", "segments", "decisions")
    return gateway, {name: pl.read_parquet(folder / f"{name}.parquet") for name in names}, world.now_ms


def segments_of(tables: Tables, consumer: str, sites: Iterable[str]) -> pl.DataFrame:
    """Find what guests of a consumer, and whoever is beneath it, held at these sites."""
    path = pl.col("consumer")
    is_beneath = (path == consumer) | path.str.starts_with(f"{consumer}/")
    guests = tables["leases"].filter(is_beneath & (pl.col("origin") == "external"))
    held = tables["segments"].join(guests.select("lease_id", "memory_mib"), on="lease_id")
    return held.filter(pl.col("site").is_in(list(sites)))


def used_slot_ms(held: pl.DataFrame) -> int:
    """Add up what was held."""
    total: int = held.select(((pl.col("end_ms") - pl.col("start_ms")) * pl.col("vms")).sum()).item()
    return total


def most_at_a_time(held: pl.DataFrame) -> int:
    """Give the most slots that were held at once; who ends at an instant makes room for who starts then."""
    begins = held.select(at_ms="start_ms", change="vms")
    ends = held.select(at_ms="end_ms", change=-pl.col("vms"))
    levels = pl.concat([begins, ends]).group_by("at_ms").agg(pl.col("change").sum()).sort("at_ms")
    most: int | None = levels.select(pl.col("change").cum_sum().max()).item()
    return most or 0
