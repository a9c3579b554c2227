"""One pass over the tables, slice by slice: the numbers are those of the whole tables, in whatever order they are."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from leasehold.analysis.export import write_batsim_jobs, write_swf
from leasehold.analysis.facts import PARTIES
from leasehold.analysis.measures import summary_of
from leasehold.analysis.metrics import by_cluster_and_party, by_reason, reconcile, totals
from leasehold.analysis.passes import STRETCHES, mean_held
from leasehold.analysis.report.contents import headline, what_happened
from leasehold.analysis.run import Run, load
from leasehold.analysis.validation import validate

ORDERS: dict[str, Callable[[pl.DataFrame], pl.DataFrame]] = {
    "as written": lambda table: table,
    "reversed": lambda table: table.reverse(),
    "shuffled": lambda table: table.sample(fraction=1, shuffle=True, seed=5),
}


def numbers(run: Run) -> dict[str, Any]:
    """Everything that a report says, but for its drawings."""
    held = mean_held(run, summary_of(run).levels, STRETCHES).select(PARTIES)
    return {
        **totals(run),
        "owned": summary_of(run).owned,
        **{f"held {party}": held[party].sum() for party in PARTIES},
        **{f"{row['party']} {row['state']} {row['reason']}": row["leases"] for row in by_reason(run).to_dicts()},
        **{
            f"{row['site']} {row['party']} {key}": value
            for row in by_cluster_and_party(run).to_dicts()
            for key, value in row.items()
            if isinstance(value, float)
        },
    }


def rewritten(run: Run, folder: Path, order: Callable[[pl.DataFrame], pl.DataFrame]) -> Run:
    """The same run, its tables in another order and in several files each."""
    shutil.copytree(run.path, folder)
    for table in ("leases", "segments", "baseline"):
        (folder / f"{table}.parquet").unlink()
        (folder / f"{table}.parquet").mkdir()
        for number, rows in enumerate(order(run.scan(table).collect()).iter_slices(50)):
            rows.write_parquet(folder / f"{table}.parquet" / f"{number:05}.parquet")
    return load(folder)


@pytest.mark.soak
@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
def test_small_slices_and_other_orders_change_nothing(
    toy: Run, order: Callable[[pl.DataFrame], pl.DataFrame], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = numbers(toy)
    again = rewritten(toy, tmp_path / "toy", order)
    monkeypatch.setattr("leasehold.analysis.run.SLICE_ROWS", 37)
    found = numbers(again)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert found[name] == (None if value is None else pytest.approx(value)), name
    assert reconcile(again) == []


@pytest.mark.parametrize(("rank", "key"), [("median", "wait_median_s"), ("p95", "wait_p95_s")])
def test_quantiles_of_waits_are_exact(toy: Run, rank: str, key: str) -> None:
    waits = (pl.col("first_start_ms") - pl.col("ready_ms")) / 1_000
    exact = waits.median() if rank == "median" else waits.quantile(0.95)
    assert totals(toy)[key] == toy.leases.select(exact).item()
    of_site = toy.leases.filter(site="a", origin="external", lease_type="suspendable").select(exact).item()
    cell = by_cluster_and_party(toy).filter(site="a", party="suspendable")
    assert cell[key].to_list() == ([] if of_site is None else [of_site])


def test_the_answer_in_words_reads_no_whole_table(small: Run) -> None:
    opened = load(small.path)
    told = totals(opened)
    assert headline(opened, told)
    assert what_happened(opened, told)
    assert reconcile(opened) == []
    assert not {"leases", "segments", "decisions", "baseline"} & vars(opened).keys()


@pytest.mark.soak
@pytest.mark.parametrize("order", [pytest.param(order, id=name) for name, order in ORDERS.items()])
def test_exports_are_the_same_whatever_files_the_tables_are_in(
    toy: Run, order: Callable[[pl.DataFrame], pl.DataFrame], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    again = rewritten(toy, tmp_path / "toy", order)
    monkeypatch.setattr("leasehold.analysis.run._ROWS_PER_SAMPLE", 1)
    monkeypatch.setattr("leasehold.analysis.export._ROWS_PER_WINDOW", 20)
    monkeypatch.setattr("leasehold.analysis.validation.evidence.ROWS_PER_PART", 30)
    monkeypatch.setattr("leasehold.analysis.validation.preemption.ROWS_PER_PART", 30)
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    for write in (write_swf, write_batsim_jobs):
        assert write(toy, whole).read_text() == write(again, cut).read_text()
    assert validate(again) == []
