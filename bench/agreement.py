"""Do the script and Leasehold start the same jobs at the same times?

    python -m bench.agreement BY_HAND.csv RUN

With exact estimates they must: no job ends before its booked time, so nothing is ever planned twice, and
both give each job, in order of arrival, the earliest start that the plan has. With loose estimates room
comes free early and is given out again: by Leasehold in order of arrival, by the script in order of the
reservations. Both are conservative backfilling, and the starts differ.
"""

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import polars as pl


@dataclass(frozen=True, slots=True)
class Agreement:
    """Jobs that both ran, those of them that start at the same time in both, and the mean waits."""

    jobs: int
    same_start: int
    by_hand_wait_s: float
    leasehold_wait_s: float


def agreement(table: Path, run: Path) -> Agreement:
    """Compare what the script wrote with a run folder."""
    scripted = pl.read_csv(table).select(
        job=pl.col("job").cast(pl.String),
        start_s=pl.col("started"),
        script_wait_s=pl.col("started") - pl.col("submitted"),
    )
    leases = pl.read_parquet(run / "leases.parquet").select(
        job="source_id",
        start_ms="first_start_ms",
        wait_ms=pl.col("first_start_ms") - pl.col("ready_ms"),
    )
    both = scripted.join(leases, on="job")
    same = both.filter(pl.col("start_s") * 1000 == pl.col("start_ms"))
    waits = both.select(pl.col("script_wait_s").mean(), pl.col("wait_ms").mean() / 1000).row(0)
    return Agreement(both.height, same.height, *waits)


if __name__ == "__main__":
    print(json.dumps(asdict(agreement(Path(sys.argv[1]), Path(sys.argv[2])))))
