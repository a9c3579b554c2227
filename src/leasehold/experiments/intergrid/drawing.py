"""The figures as pictures: one for each figure of the publication, with its parts under each reading."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from leasehold.experiments import pictures
from leasehold.experiments.intergrid.claims import TITLES, Figure
from leasehold.experiments.intergrid.outcome import Outcome, Panel


def picture_of(number: str, figure: str) -> str:
    """Name the picture that shows a part of a figure: ``003-fig5`` for 5a."""
    return f"{number}-fig{figure[:-1]}"


def draw(outcome: Outcome, folder: Path) -> list[Path]:
    """Draw all figures that were asked for; returns the files."""
    readings = len(outcome.plan.swept)
    number = outcome.plan.study.number
    return [
        path
        for name, panels in _by_picture(number, outcome.panels).items()
        for path in pictures.write(
            pictures.curves([_panel(outcome, panel) for panel in panels], columns=readings), folder / name
        )
    ]


def _by_picture(number: str, panels: Iterable[Panel]) -> Mapping[str, list[Panel]]:
    found: dict[str, list[Panel]] = {}
    for panel in panels:
        found.setdefault(picture_of(number, panel.figure.name), []).append(panel)
    return found


def _panel(outcome: Outcome, panel: Panel) -> pictures.Panel:
    figure: Figure = panel.figure
    sweep = outcome.plan.sweeps[figure.letter]
    curves = {
        TITLES[curve.policy]: [
            (point.shown, found[figure.metric])
            for point, found in zip(sweep.points, curve.points, strict=True)
        ]
        for curve in panel.curves
    }
    return pictures.Panel(f"{figure.name}, {panel.reading}", sweep.axis, figure.title, curves)
