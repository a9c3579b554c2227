"""Whom agreements held back, and why."""

import polars as pl

from leasehold.analysis.run import Run


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
