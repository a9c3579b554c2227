"""Pictures of evaluations: every name, axis and title is in them, and what is no number is left out."""

from math import nan
from pathlib import Path

import pytest

from leasehold.experiments import pictures
from leasehold.experiments.beyond.plan import plan
from leasehold.experiments.pictures import Dot, Panel, Ranking
from leasehold.experiments.statistics import Interval

PNG = b"\x89PNG"


def around(mean: float) -> Interval:
    return Interval(mean, mean - 0.1, mean + 0.1, 30)


NOT_MEASURED = Interval(nan, nan, nan, 0)

CURVES = pictures.curves(
    [
        Panel(
            title,
            "requests a second",
            "VMs preempted",
            {"RR": [(1.0, around(2)), (2.0, around(3))], "PAP": [(1.0, around(1)), (2.0, NOT_MEASURED)]},
        )
        for title in ("5a, R2", "5a, R0")
    ],
    columns=2,
)
DOTS = [
    Dot("RR", "", around(1), around(1)),
    Dot("hasty", "patience", around(0.5), around(0.9)),
    Dot("calm", "patience", around(0.4), around(1.2)),
    Dot("unmeasured", "", NOT_MEASURED, around(1)),
]
TRADE_OFF = pictures.trade_off("R2", ("VMs, ratio", "AWRT, ratio"), DOTS)
INTERVALS = pictures.intervals(
    [
        Ranking("R2", "VMs, ratio", {"RR": around(1), "best": around(0.3), "unmeasured": NOT_MEASURED}, reference=1.0),
        Ranking("KTH", "VMs, ratio", {"RR": around(1)}, printed={"RR": 0.9}),
    ]
)


@pytest.mark.parametrize(
    ("chart", "words"),
    [
        (CURVES, ("5a, R2", "5a, R0", "RR", "PAP", "requests a second", "VMs preempted")),
        (pictures.beside([TRADE_OFF, TRADE_OFF]), ("R2", "RR", "hasty", "calm", "VMs, ratio", "AWRT, ratio")),
        (INTERVALS, ("R2", "KTH", "RR", "best", "VMs, ratio")),
    ],
)
def test_says_what_it_shows(chart: pictures.AnyChart, words: tuple[str, ...], tmp_path: Path) -> None:
    svg, png = pictures.write(chart, tmp_path / "picture")
    drawn = svg.read_text(encoding="utf-8")
    for word in words:
        assert f">{word}<" in drawn
    assert ">unmeasured<" not in drawn
    assert "NaN" not in drawn
    assert png.read_bytes().startswith(PNG)


def test_there_is_a_colour_for_every_contender() -> None:
    assert len(set(pictures.COLOURS)) == len(pictures.COLOURS)
    assert len(pictures.COLOURS) >= len(plan().contenders)
