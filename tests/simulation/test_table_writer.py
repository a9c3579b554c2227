"""A table is read by others as it was written, whatever is in it, in however many pages and row groups."""

from array import array
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.model.tables import COLUMNS, TABLES
from leasehold.simulation import table_writer
from leasehold.simulation.table_writer import Coded, TableWriter, Values

LARGEST = 2**63 - 1
_VALUES = {
    "i64": st.integers(-LARGEST - 1, LARGEST) | st.integers(0, 3),
    "str": st.sampled_from(["", "a", "b\u00e4r", "\U0001f40e" * 40])
    | st.text(st.characters(exclude_categories=["Cs"])),
    "bool": st.booleans(),
}
ROW = st.tuples(
    *(
        st.none() | _VALUES[column.kind] if column.may_be_null else _VALUES[column.kind]
        for column in COLUMNS["decisions"]
    )
)


def read(folder: Path, name: str) -> pl.DataFrame:
    """Read a table, and see that its types are the declared ones."""
    found = pl.read_parquet(folder / f"{name}.parquet")
    kinds = {"i64": pl.Int64, "str": pl.String, "bool": pl.Boolean}
    assert found.schema == {column: kinds[kind] for column, kind in TABLES[name].items()}
    return found


@given(rows=st.lists(ROW, max_size=60), page=st.integers(1, 40), group=st.integers(1, 40))
def test_rows(rows: list[tuple[object, ...]], page: int, group: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("rows")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_writer, "ROWS_PER_BLOCK", page)
        patch.setattr(table_writer, "ROWS_PER_FILE", group)
        table = TableWriter(folder, "decisions")
        for row in rows:
            table.add(row)
        table.close()
    assert read(folder, "decisions").rows() == rows
    assert [path.name for path in folder.iterdir()] == ["decisions.parquet"]


@given(blocks=st.lists(st.lists(st.integers(-LARGEST, LARGEST), min_size=1, max_size=300), min_size=1, max_size=5))
def test_columns(blocks: list[list[int]], tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("columns")
    names = [f"name {number}" for number in range(300)]
    segments, expected = TableWriter(folder, "segments"), []
    for block in blocks:
        size = range(len(block))
        columns: dict[str, Values] = {
            "lease_id": array("q", block),
            "site": Coded(size, names),
            "kind": names[: len(block)],
            "start_ms": np.array(block),
            "end_ms": size,
            "vms": len(block),
            "ended_by": np.array(block),
        }
        segments.extend(len(block), columns)
        expected += [(n, names[at], names[at], n, at, len(block), str(n)) for at, n in enumerate(block)]
    segments.close()
    assert read(folder, "segments").rows() == expected


_MANY = [pytest.param(distinct, marks=pytest.mark.soak) for distinct in (5_000, 40_000, 70_000)]


@pytest.mark.parametrize("distinct", [1, 2, 3, 4, 5, 16, 17, 256, 257, *_MANY])
def test_so_many_names(distinct: int, tmp_path: Path) -> None:
    names = [f"consumer {number}" for number in range(distinct)]
    codes = np.arange(150_000) % distinct
    leases = TableWriter(tmp_path, "leases")
    for first in range(0, len(codes), 35_000):
        some = codes[first : first + 35_000]
        as_texts = [names[code] for code in some.tolist()]
        leases.extend(len(some), {"consumer": Coded(some, names), "home": as_texts, "vms": some})
    leases.close()
    found = read(tmp_path, "leases")
    assert found["consumer"].to_list() == found["home"].to_list() == [names[code] for code in codes.tolist()]
    assert found["vms"].to_list() == codes.tolist()


def test_a_table_without_rows(tmp_path: Path) -> None:
    TableWriter(tmp_path, "baseline").close()
    assert read(tmp_path, "baseline").is_empty()
