"""A cluster on its own, simulated in integers: the same tables as behind a gateway, to the last row."""

import json
from array import array
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.searching import examples

from leasehold.leasing.kernel import ALL
from leasehold.simulation.cluster import ClusterJobs, ClusterRun
from leasehold.simulation.clusters import runs_alone
from leasehold.simulation.run import run_scenario
from leasehold.simulation.scenario.parse import load_scenario

TABLES = ("decisions", "leases", "segments", "sites")

rows = st.lists(
    st.tuples(st.integers(0, 40), st.integers(1, 8), st.integers(1, 60), st.integers(1, 60)),
    min_size=1,
    max_size=60,
)


def write_log(path: Path, log: list[tuple[int, int, int, int]]) -> None:
    """Write a log: gap, processors, asked and needed (s); some need more than they asked for."""
    at, lines = 0, ["; MaxProcs: 6"]
    for number, (gap, procs, asked, needed) in enumerate(log, 1):
        at += gap // 4
        lines.append(f"{number} {at} -1 {needed} {procs} -1 -1 {procs} {asked} -1 1 {number % 3} 1 1 1 1 -1 -1")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_scenario(folder: Path, policy: str, queue: str, speed: int, horizon: str = "") -> Path:
    file = folder / "one.toml"
    file.write_text(
        f'name = "one"\n{horizon}too_wide = "refuse"\n[[cluster]]\nname = "a"\nslots = 6\nspeed_mips = {speed}\n'
        f'local_policy = "{policy}"\nlocal_queue = "{queue}"\n'
        '[[stream]]\nname = "log"\nlog = "log.swf"\nsite = "a"\n',
        encoding="utf-8",
    )
    return file


def tables_of(folder: Path) -> dict[str, object]:
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    for changing in ("started_at", "wall_s", "cpu_s"):
        del manifest[changing]
    return {"manifest": manifest} | {name: pl.read_parquet(folder / f"{name}.parquet").rows() for name in TABLES}


@pytest.mark.parametrize("policy", ["conservative", "easy", "hybrid:3", "fcfs"])
@settings(max_examples=examples(60), deadline=None)
@given(
    log=rows,
    queue=st.sampled_from(["queue", "refuse"]),
    speed=st.sampled_from([1000, 700]),
    cut=st.sampled_from([0, 90]),
)
def test_both_ways_write_the_same(
    policy: str,
    log: list[tuple[int, int, int, int]],
    queue: str,
    speed: int,
    cut: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("both")
    write_log(folder / "log.swf", log)
    horizon = f"horizon_s = {cut}\n" if cut else ""
    scenario = load_scenario(write_scenario(folder, policy, queue, speed, horizon))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("leasehold.simulation.clusters.DECISIONS_AT_ONCE", 9)
        patch.setattr("leasehold.simulation.workload.log_columns.BYTES_PER_BLOCK", 256)
        assert runs_alone(scenario)
        run_scenario(scenario, folder / "integers")
        patch.setattr("leasehold.simulation.run.runs_alone", lambda _: False)
        run_scenario(scenario, folder / "objects")
    assert tables_of(folder / "integers") == tables_of(folder / "objects")


@pytest.mark.parametrize("depth", [0, 1, ALL])
def test_what_is_over_is_not_kept(depth: int) -> None:
    """A cluster that has seen ten times as many jobs holds no more of anything."""
    run = ClusterRun(10, depth, queues=True)
    held = []
    for batch in range(10):
        first_ms = batch * 200_000
        rows = [(i + 1, first_ms + i, 1 + i % 7, 2_000, 1_000) for i in range(100)]
        run.advance(ClusterJobs(*(array("q", column) for column in zip(*rows, strict=True))), first_ms + 200_000)
        assert run.closed.count == len(run.closed.taken().T) == 100
        run.decided.taken()
        queue = run.queue
        columns = [queue.reserved, queue.others, queue.moved, queue.started, queue.reasons, queue._free_rows]
        held.append([len(column) for column in columns] + [run.plan.steps])
    assert held[-1] == held[0]
