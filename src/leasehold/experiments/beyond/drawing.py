"""Pictures of what is beyond: what fewer preemptions cost, and where they hold."""

from pathlib import Path

from leasehold.experiments import pictures
from leasehold.experiments.beyond.outcome import Outcome
from leasehold.experiments.beyond.settings import NAME, VMS, Setting

AWRT = "awrt_s"


def draw(outcome: Outcome, folder: Path) -> list[Path]:
    """Draw both; returns the files."""
    main = [one for one in outcome.settings if one.role == "main"]
    written = pictures.write(_ratios(outcome), folder / f"{NAME}-ratios")
    if main:
        chart = pictures.beside([_pareto(outcome, setting) for setting in main])
        written += pictures.write(chart, folder / f"{NAME}-pareto")
    return written


def _pareto(outcome: Outcome, setting: Setting) -> pictures.AnyChart:
    dots = [
        pictures.Dot(one.contender.title, one.contender.family, one.ratios[VMS], one.ratios[AWRT])
        for one in outcome.of(setting)
    ]
    axes = ("VMs preempted, ratio to RR", "AWRT (eq 24), ratio to RR")
    return pictures.trade_off(f"{setting.name}: what fewer preemptions cost", axes, dots, _wanted(outcome))


def _wanted(outcome: Outcome) -> tuple[float, float]:
    bounds = {one.metric: one.at_most for one in outcome.plan.wanted}
    return bounds[VMS] or 0.0, bounds[AWRT] or 0.0


def _ratios(outcome: Outcome) -> pictures.AnyChart:
    found = [
        {one.contender.title: one.ratios[VMS] for one in outcome.of(setting)} for setting in outcome.settings
    ]
    bounds = [
        next(one.at_most or 0.0 for one in outcome.plan.wanted_in(setting) if one.metric == VMS)
        for setting in outcome.settings
    ]
    titles = [setting.name for setting in outcome.settings]
    return pictures.intervals(titles, "VMs preempted, ratio to RR", found, bounds)
