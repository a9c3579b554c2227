"""Rules about nodes: nothing of one is given twice, neither a core nor memory nor a share of a device."""

import polars as pl

from leasehold.analysis.validation.evidence import WHOLE, Evidence, ValidationRule, findings

_MILLI = 1_000


def node_overcommitted(evidence: Evidence) -> pl.DataFrame:
    """Find nodes on which VMs hold more at some time than there is."""
    placements, nodes = evidence.run.placements, evidence.run.nodes
    known = placements.join(nodes.rename({"gpu_model": "has_model"}), on=["site", "node"], how="left", suffix="_has")
    amounts = [
        _held(known, "cores", pl.col("cores"), pl.col("cores_has")),
        _held(known, "MiB", pl.col("memory_mib"), pl.col("memory_mib_has")).filter(pl.col("most") > 0),
        _devices(known),
    ]
    held = pl.concat(amounts)
    changes = pl.concat(
        [
            held.select("site", "node", "what", "most", "lease_id", at_ms=pl.col("start_ms"), by=pl.col("amount")),
            held.select("site", "node", "what", "most", "lease_id", at_ms=pl.col("end_ms"), by=-pl.col("amount")),
        ]
    )
    at_once = changes.group_by("site", "node", "what", "at_ms").agg(
        pl.col("by").sum(), pl.col("most").min(), pl.col("lease_id").max()
    )
    over = pl.col("by").cum_sum().over("site", "node", "what")
    levels = at_once.sort("site", "node", "what", "at_ms").with_columns(held=over)
    wrong = levels.filter(pl.col("held") > pl.col("most"))
    sentence = pl.format("{} of {}: {} are held, there are {}", "what", "node", "held", "most")
    return findings(wrong, sentence, site="site", time_ms="at_ms")


def model_absent(evidence: Evidence) -> pl.DataFrame:
    """Find VMs on nodes that do not have the GPUs that they requested."""
    nodes = evidence.run.nodes.select("site", "node", has_model=pl.col("gpu_model"))
    both = evidence.run.placements.filter(pl.col("gpu_milli") > 0).join(nodes, on=["site", "node"], how="left")
    other = pl.col("gpu_model").is_not_null() & (pl.col("gpu_model") != pl.col("has_model"))
    wrong = both.filter(pl.col("has_model").is_null() | other)
    sentence = pl.format("is on {}, which has no such GPU", "node")
    return findings(wrong, sentence, site="site", time_ms="start_ms")


def _held(known: pl.DataFrame, what: str, amount: pl.Expr, most: pl.Expr) -> pl.DataFrame:
    columns = [pl.col("site", "node", "lease_id", "start_ms", "end_ms"), pl.lit(what).alias("what")]
    return known.select(*columns, amount=amount, most=most.fill_null(0))


def _devices(known: pl.DataFrame) -> pl.DataFrame:
    """What is held of each device: all shares of a whole one, or those of a fraction, rounded up for each VM."""
    each = known.filter(pl.col("gpu_milli") > 0).with_columns(
        device=pl.col("devices").str.split("+"), milli=pl.col("gpu_milli") // pl.col("vms")
    )
    shares = (
        pl.when(pl.col("milli") >= _MILLI)
        .then(pl.col("gpu_shares"))
        .otherwise((pl.col("milli") * pl.col("gpu_shares") + _MILLI - 1) // _MILLI)
    )
    apart = each.explode("device").with_columns(what=pl.format("GPU {}", "device"))
    return apart.select(
        "site",
        "node",
        "lease_id",
        "start_ms",
        "end_ms",
        "what",
        amount=shares,
        most=pl.col("gpu_shares").fill_null(0),
    )


PLACEMENTS = (
    ValidationRule(
        "node-overcommitted",
        "No node gives more cores, memory or shares of a GPU than it has.",
        node_overcommitted,
        WHOLE,
    ),
    ValidationRule("model-absent", "VMs that need GPUs are on nodes that have these.", model_absent, WHOLE),
)
