"""What came of an evaluation as plain data, for JSON."""

from collections.abc import Mapping
from dataclasses import asdict
from math import isfinite
from typing import Any

from leasehold.experiments.anova import Anova, Effect
from leasehold.experiments.intergrid.outcome import EQUATION_2, Outcome, Panel
from leasehold.experiments.intergrid.settings import Plan
from leasehold.experiments.intergrid.verdicts import Tested, Verdict
from leasehold.experiments.statistics import Interval
from leasehold.experiments.status import counted


def as_data(outcome: Outcome) -> dict[str, Any]:
    """Give everything."""
    plan = outcome.plan
    return {
        "evaluation": plan.study.number,
        "source": plan.study.source,
        "figures": list(outcome.wanted),
        "replications": outcome.replications,
        "hours": plan.hours,
        "is_whole": outcome.is_whole,
        "level": 0.95,
        "published": plan.said["published"],
        "streams": plan.said["stream"],
        "readings": [asdict(reading) for reading in plan.readings],
        "interpretations": [asdict(one) for one in plan.interpretations],
        "counts": {
            reading.name: counted(verdict.status for verdict in outcome.of_reading(reading.name))
            for reading in plan.swept
        },
        "panels": [_panel_data(plan, panel) for panel in outcome.panels],
        "response_by_vms_preempted": [
            {
                "reading": one.reading,
                "printed": EQUATION_2,
                **_intervals(
                    {
                        "intercept": one.line.intercept,
                        "slope": one.line.slope,
                        "r_squared": one.line.r_squared,
                    }
                ),
                "status": one.status,
            }
            for one in outcome.associations
        ],
        "claims": [_verdict_data(outcome, verdict) for verdict in outcome.verdicts],
        "to_reference": [
            {"reading": one.reading, "policy": one.policy, "ratios": _intervals(one.ratios)}
            for one in outcome.standings
        ],
        "base": [
            {"reading": one.reading.name, "policy": one.policy, "means": _intervals(one.means)}
            for one in outcome.base_points
        ],
    }


def _panel_data(plan: Plan, panel: Panel) -> dict[str, Any]:
    points = plan.sweeps[panel.figure.letter].points
    return {
        "figure": panel.figure.name,
        "metric": panel.figure.metric,
        "reading": panel.reading,
        "curves": [
            {
                "policy": curve.policy,
                "points": [
                    {"at": point.shown, **_intervals(found)}
                    for point, found in zip(points, curve.points, strict=True)
                ],
            }
            for curve in panel.curves
        ],
        "anova": _anova_data(panel.anova),
        "largest_cv": _number(panel.largest_cv),
    }


def _anova_data(found: Anova) -> dict[str, Any]:
    effects = {
        "policy": found.first,
        "point": found.second,
        "together": found.together,
        "replication": found.replications,
    }
    return {
        **{name: _effect_data(effect) for name, effect in effects.items()},
        "error": {"squares": _number(found.error_squares), "freedom": found.error_freedom},
        "normal_p": _number(found.assumptions.normal_p),
        "equal_spread_p": _number(found.assumptions.equal_spread_p),
    }


def _effect_data(effect: Effect) -> dict[str, Any]:
    return {
        "squares": _number(effect.squares),
        "freedom": effect.freedom,
        "f": _number(effect.f),
        "p": _number(effect.p),
    }


def _verdict_data(outcome: Outcome, verdict: Verdict) -> dict[str, Any]:
    return {
        "figure": verdict.claim.figure,
        "claim": verdict.claim.text,
        "reading": verdict.reading,
        "printed": verdict.claim.printed,
        "status": verdict.status,
        "why": outcome.because(verdict),
        "contrasts": [_tested_data(one) for one in verdict.tested],
    }


def _tested_data(one: Tested) -> dict[str, Any]:
    return {
        **_interval(one.found.difference),
        "p": _number(one.found.p),
        "p_adjusted": _number(one.p),
        "normal_p": _number(one.normal_p),
        "signed_rank_p": _number(one.signed_rank_p),
    }


def _intervals(found: Mapping[str, Interval]) -> dict[str, Any]:
    return {metric: _interval(one) for metric, one in found.items()}


def _interval(found: Interval) -> dict[str, Any]:
    return {"mean": _number(found.mean), "low": _number(found.low), "high": _number(found.high)}


def _number(value: float) -> float | None:
    """Write what is not a number as JSON can: there was nobody to take a mean of, or nothing to test."""
    return value if isfinite(value) else None
