"""The numbers of a run: what is measured (`CATALOGUE`), for whom, and whether the tables agree; two runs compared."""

from collections.abc import Callable
from typing import Any

import polars as pl

from leasehold.analysis.facts import PARTIES
from leasehold.analysis.measures import MEASURES, Better, Measure, Stage, measure, summary_of
from leasehold.analysis.run import Run, streamed

AWRT_BY_SIZE = Measure(
    "awrt_by_size_s",
    "AWRT, weighted by cluster size",
    "s",
    "The AWRT of each cluster weighted by its slots, over the clusters that served a best-effort guest.",
    Stage.DERIVED,
    pl.col("slots").dot("awrt_s") / pl.col("slots").sum(),
    Better.LOWER,
    "JPDC 2012, eq 24",
)

CATALOGUE: dict[str, Measure] = {m.key: m for m in (*MEASURES, AWRT_BY_SIZE)}
"""Every measure by its key: title, unit, meaning and source for tables and the report."""

Number = int | float | None


def totals(run: Run) -> dict[str, Number]:
    """Return every measure of the run as a whole, by key; None where nothing could be measured."""
    row = measure(run, MEASURES, ["run"]).to_dicts()
    numbers: dict[str, Number] = {m.key: row[0][m.key] if row else None for m in MEASURES}
    return numbers | {AWRT_BY_SIZE.key: _awrt_by_size_s(run)}


def _awrt_by_size_s(run: Run) -> Number:
    served = by_cluster(run).drop_nulls("awrt_s")
    if served.is_empty():
        return None
    value: float = served.select(AWRT_BY_SIZE.formula).item()
    return value


def by_cluster(run: Run) -> pl.DataFrame:
    """Return every measure for each cluster (``site``), in the order of the run's sites."""
    table = measure(run, MEASURES, ["site"])
    return run.sites.select("site").join(table, on="site", how="inner", maintain_order="left")


def by_party(run: Run) -> pl.DataFrame:
    """Return every measure for locals and for each lease type of the guests (``party``)."""
    return _in_order_of_value(measure(run, MEASURES, ["party"]))


def by_cluster_and_party(run: Run) -> pl.DataFrame:
    """Return every measure for each cluster and party (``site``, ``party``)."""
    return measure(run, MEASURES, ["site", "party"])


def by_origin(run: Run) -> pl.DataFrame:
    """Return every measure for locals and guests (``origin``)."""
    return measure(run, MEASURES, ["origin"])


def by_reason(run: Run) -> pl.DataFrame:
    """Count leases by party, final state and reason, most frequent first."""
    order = ["leases", "party", "state", "reason"]
    return summary_of(run).endings.sort(order, descending=[True, False, False, False])


def by_agreement(run: Run) -> pl.DataFrame:
    """Count guests that an agreement, or want of one, held back or refused at least once, by reason.

    ``agreement`` is null where none is the reason: a resource that is not there, or nothing agreed at all.
    Most guests first.
    """
    is_breach = pl.col("provider").is_not_null() & pl.col("outcome").is_in(["hold", "refuse"])
    keys = ["agreement", "provider", "account", "resource", "outcome", "reason"]
    held = run.scan("decisions").filter(is_breach).group_by(keys).agg(leases=pl.col("lease_id").n_unique())
    found = streamed(held.with_columns(pl.col("leases").cast(pl.Int64)))
    return found.sort(["leases", *keys], descending=[True, *[False] * len(keys)])


def held_by_agreements(run: Run) -> int:
    """Count the guests among them, each once."""
    held = run.scan("decisions").filter(pl.col("provider").is_not_null())
    return _count(held.select(pl.col("lease_id").n_unique()))


def _in_order_of_value(table: pl.DataFrame) -> pl.DataFrame:
    order = pl.DataFrame({"party": PARTIES})
    return order.join(table, on="party", how="inner", maintain_order="left")


def reconcile(run: Run) -> list[str]:
    """Return one sentence for each number on which two tables disagree; none when all agree.

    Totals only: which lease is wrong is the validator's to say.
    """
    found: list[str] = []
    for title, first, one, second, other in _PAIRS:
        left, right = one(run), other(run)
        if left != right:
            found.append(f"{title}: {left} by {first}, {right} by {second}")
    return found + _states(run)


def _count(query: pl.LazyFrame) -> int:
    return int(streamed(query).item() or 0)


def _by_segments(run: Run, key: str) -> int:
    return int(summary_of(run).segments[key].sum())


def _preempt_decisions(run: Run) -> pl.LazyFrame:
    return run.scan("decisions").filter(pl.col("outcome") == "preempt")


def _decided_vms(run: Run) -> int:
    victims = _preempt_decisions(run).group_by("lease_id").agg(times=pl.len())
    leases = run.scan("leases").select("lease_id", "vms").join(streamed(victims).lazy(), on="lease_id")
    return _count(leases.select((pl.col("vms") * pl.col("times")).sum()))


def _jobs(run: Run, key: str) -> int:
    jobs: dict[str, Any] = run.manifest.get("jobs", {})
    return int(jobs.get(key, 0))


def _of_origin(run: Run, origin: str) -> int:
    return int(summary_of(run).leases.filter(origin=origin)["leases"].sum())


_Count = Callable[[Run], int]

_PAIRS: tuple[tuple[str, str, _Count, str, _Count], ...] = (
    (
        "lease preemptions",
        "the leases' counters",
        lambda run: _count(run.scan("leases").select(pl.col("preemptions").sum())),
        "segments that ended so",
        lambda run: _by_segments(run, "preemptions"),
    ),
    (
        "lease preemptions",
        "segments that ended so",
        lambda run: _by_segments(run, "preemptions"),
        "decisions",
        lambda run: _count(_preempt_decisions(run).select(pl.len())),
    ),
    (
        "VMs preempted",
        "segments that ended so",
        lambda run: _by_segments(run, "vms_preempted"),
        "decisions",
        _decided_vms,
    ),
    (
        "leases that started",
        "their first start",
        lambda run: int(summary_of(run).leases["started"].sum()),
        "segments",
        lambda run: summary_of(run).owned,
    ),
    (
        "local jobs",
        "the manifest",
        lambda run: _jobs(run, "local"),
        "leases",
        lambda run: _of_origin(run, "local"),
    ),
    (
        "external requests",
        "the manifest",
        lambda run: _jobs(run, "external"),
        "leases",
        lambda run: _of_origin(run, "external"),
    ),
)


def _states(run: Run) -> list[str]:
    stated: dict[str, int] = run.manifest.get("jobs", {}).get("by_state", {})
    counted = dict(summary_of(run).endings.group_by("state").agg(pl.col("leases").sum()).iter_rows())
    return [
        f"leases {state}: {stated.get(state, 0)} by the manifest, {counted.get(state, 0)} by leases"
        for state in sorted(stated.keys() | counted.keys())
        if stated.get(state, 0) != counted.get(state, 0)
    ]


def compare(first: Run, second: Run) -> pl.DataFrame:
    """Return one row for each metric: both values, ``difference``, ``ratio`` and ``verdict``.

    ``difference`` is second less first, ``ratio`` is second over first (null where first is zero),
    ``verdict`` says whether the second run is ``better``, ``worse``, the ``same``, or ``n/a``: one of
    them has no value, or neither direction is welcome.
    """
    ours, theirs = totals(first), totals(second)
    return pl.DataFrame([_row(key, ours[key], theirs[key]) for key in CATALOGUE], infer_schema_length=None)


def _row(key: str, first: Number, second: Number) -> dict[str, object]:
    measure = CATALOGUE[key]
    both = first is not None and second is not None
    difference = float(second) - float(first) if first is not None and second is not None else None
    return {
        "metric": key,
        "title": measure.title,
        "unit": measure.unit,
        "first": None if first is None else float(first),
        "second": None if second is None else float(second),
        "difference": difference,
        "ratio": float(second or 0) / float(first) if both and first else None,
        "verdict": _verdict(measure.better, difference),
    }


def _verdict(better: Better, difference: float | None) -> str:
    if difference is None or better is Better.NEITHER:
        return "n/a"
    if difference == 0:
        return "same"
    return "better" if (difference < 0) is (better is Better.LOWER) else "worse"
