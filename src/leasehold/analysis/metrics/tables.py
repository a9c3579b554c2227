"""The metrics of a run: as a whole, for each cluster, for each party, and by agreement."""

import polars as pl

from leasehold.analysis.facts import PARTIES, PARTY
from leasehold.analysis.metrics.capacity import CAPACITY
from leasehold.analysis.metrics.measure import Better, Measure, Stage, measure
from leasehold.analysis.metrics.outcomes import OUTCOMES
from leasehold.analysis.metrics.waiting import WAITING
from leasehold.analysis.run import Run

MEASURES: tuple[Measure, ...] = (*OUTCOMES, *WAITING, *CAPACITY)

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
    return (
        run.leases.group_by(party=PARTY, state="state", reason="reason")
        .agg(leases=pl.len().cast(pl.Int64), vms=pl.col("vms").sum())
        .sort(["leases", "party", "state", "reason"], descending=[True, False, False, False])
    )


def by_agreement(run: Run) -> pl.DataFrame:
    """Count guests that an agreement, or want of one, held back or refused at least once, by reason.

    ``agreement`` is null where none is the reason: a resource that is not there, or nothing agreed at all.
    Most guests first.
    """
    is_breach = pl.col("provider").is_not_null() & pl.col("outcome").is_in(["hold", "refuse"])
    keys = ["agreement", "provider", "account", "resource", "outcome", "reason"]
    return (
        run.decisions.filter(is_breach)
        .group_by(keys, maintain_order=True)
        .agg(leases=pl.col("lease_id").n_unique().cast(pl.Int64))
        .sort(["leases", *keys], descending=[True, *[False] * len(keys)])
    )


def held_by_agreements(run: Run) -> int:
    """Count the guests among them, each once."""
    held = run.decisions.filter(pl.col("provider").is_not_null())
    return held["lease_id"].n_unique()


def _in_order_of_value(table: pl.DataFrame) -> pl.DataFrame:
    order = pl.DataFrame({"party": PARTIES})
    return order.join(table, on="party", how="inner", maintain_order="left")
