"""The numbers of a run: what is measured (`CATALOGUE`), for whom, and whether the tables agree."""

from leasehold.analysis.metrics.coallocations import COALLOCATION_CATALOGUE, coallocation_totals
from leasehold.analysis.metrics.measure import Better, Measure, Stage
from leasehold.analysis.metrics.reconcile import reconcile
from leasehold.analysis.metrics.tables import (
    CATALOGUE,
    MEASURES,
    Number,
    by_agreement,
    by_cluster,
    by_cluster_and_party,
    by_origin,
    by_party,
    by_reason,
    held_by_agreements,
    totals,
)

__all__ = [
    "CATALOGUE",
    "COALLOCATION_CATALOGUE",
    "MEASURES",
    "Better",
    "Measure",
    "Number",
    "Stage",
    "by_agreement",
    "by_cluster",
    "by_cluster_and_party",
    "by_origin",
    "by_party",
    "by_reason",
    "coallocation_totals",
    "held_by_agreements",
    "reconcile",
    "totals",
]
