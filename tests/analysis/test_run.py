"""Opening a run folder: what is there is read when it is looked at, what is wrong is said in one line."""

import json
from pathlib import Path

import polars as pl
import pytest
from tests.analysis.builders import small_tables

from leasehold.analysis.run import Run, load, polars_schema
from leasehold.model.errors import InputError
from leasehold.model.tables import MAY_BE_NULL, TABLES


def test_the_tables_have_the_columns_of_the_schema(small: Run) -> None:
    for table in TABLES:
        assert getattr(small, table).schema == polars_schema(table)


def test_every_column_that_may_be_null_exists() -> None:
    assert all(MAY_BE_NULL[table] <= set(columns) for table, columns in TABLES.items())


def test_a_run_without_guests_has_an_empty_baseline(tmp_path: Path) -> None:
    tables = small_tables()
    tables.baseline = []
    assert tables.run(tmp_path).baseline.is_empty()


def test_the_run_spans_from_the_first_request_to_the_last_instant(small: Run) -> None:
    assert (small.begin_ms, small.end_ms, small.span_ms) == (0, 315_000, 315_000)


def test_a_folder_without_manifest_is_no_run_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"not a run folder: it has no manifest\.json"):
        load(tmp_path)


def test_another_schema_version_is_refused(tmp_path: Path) -> None:
    small_tables().write(tmp_path)
    (tmp_path / "manifest.json").write_text(json.dumps({"schema_version": 99}))
    with pytest.raises(InputError, match="schema_version is 99, this Leasehold reads 1"):
        load(tmp_path)


@pytest.mark.parametrize("text", ["{", "[]", "17"])
def test_a_broken_manifest_is_refused(tmp_path: Path, text: str) -> None:
    small_tables().write(tmp_path)
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(InputError, match=r"manifest\.json"):
        load(tmp_path)


@pytest.mark.parametrize("table", ["leases", "segments", "decisions", "sites"])
def test_a_missing_table_is_named(tmp_path: Path, table: str) -> None:
    small_tables().write(tmp_path)
    (tmp_path / f"{table}.parquet").unlink()
    with pytest.raises(InputError, match=f"{table}.parquet is missing"):
        load(tmp_path)


def test_a_column_of_another_type_is_named(tmp_path: Path) -> None:
    small_tables().write(tmp_path)
    file = tmp_path / "leases.parquet"
    pl.read_parquet(file).with_columns(vms=pl.lit("two")).write_parquet(file)
    with pytest.raises(InputError, match="column vms: expected Int64, found String"):
        load(tmp_path)


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    small_tables().write(tmp_path)
    file = tmp_path / "segments.parquet"
    pl.read_parquet(file).drop("kind").write_parquet(file)
    with pytest.raises(InputError, match="column kind: expected String, found no such column"):
        load(tmp_path)


def test_a_table_that_is_no_parquet_is_refused(tmp_path: Path) -> None:
    small_tables().write(tmp_path)
    (tmp_path / "leases.parquet").write_text("lease_id,vms\n")
    with pytest.raises(InputError, match="not readable as Parquet"):
        load(tmp_path)


def test_a_run_shows_itself(small: Run) -> None:
    assert repr(small) == "<Run small: complete, 5 local, 4 external>"
    assert "<td>VMs preempted</td><td>8</td>" in small._repr_html_()
