"""The page in the documentation: made by the command, of what the package says now; plain about its size."""

from pathlib import Path

import pytest

from leasehold.experiments.intergrid.plan import STUDIES, plan
from leasehold.experiments.report import amount, bounded, signed
from leasehold.experiments.statistics import Interval, Status

FIGURES, claims = STUDIES["003"].figures, STUDIES["003"].claims
PAGE = Path(__file__).parents[2] / "docs" / "results" / "003.md"
STATUSES = {str(status) for status in Status}


@pytest.fixture(scope="module")
def lines() -> list[str]:
    return PAGE.read_text(encoding="utf-8").splitlines()


def test_its_first_line_says_how_large_it_is(lines: list[str]) -> None:
    assert "replications of" in lines[2]
    published = plan("003").stated["published"]
    as_published = f"{published['replications']} replications of {published['hours']} hours, as published"
    assert as_published in lines[2] or lines[2].startswith("**Not the published size: ")
    assert lines[4].startswith("Made by `leasehold reproduce 003")


def test_every_claim_stands_there_under_both_readings_with_one_status_word(lines: list[str]) -> None:
    listed = lines[lines.index("## Claims") :]
    for claim in claims:
        rows = [
            line.strip("| ").split(" | ") for line in listed if line.startswith(f"| {claim.figure} | {claim.text} |")
        ]
        assert [row[3] for row in rows] == ["R2", "R0"]
        assert {row[5] for row in rows} <= STATUSES
        assert all(row[6] for row in rows)


def test_the_headline_comes_first_and_says_the_same(lines: list[str]) -> None:
    first, listed = lines.index("## Headline and conclusions"), lines.index("## Claims")
    headline = [line for line in lines[first:listed] if line.startswith("| 5a | PAP-RTDP at least 60 %")]
    assert len(headline) == 2
    assert set(headline) <= set(lines[listed:])


def test_it_says_how_everything_is_read(lines: list[str]) -> None:
    for reading in plan("003").readings:
        assert f"| {reading.name} | {reading.role} | {reading.what} | {reading.why} |" in lines
    for one in plan("003").interpretations:
        assert f"| {one.key} | {one.reading} | {one.why} |" in lines
    for entry in plan("003").stated["why"]:
        assert f"**{entry['about']}** {entry['text']}" in lines


def test_every_figure_has_its_table(lines: list[str]) -> None:
    for figure in FIGURES.values():
        assert f"## Figure {figure.name}: {figure.title}" in lines


@pytest.mark.parametrize(
    ("found", "as_amount", "as_difference"),
    [
        (Interval(11_654.2, 10_842, 12_466.4, 9), "11,654 ± 812", "+11,654 (+10,842 to +12,466)"),
        (Interval(-12.34, -20, -4.68, 9), "-12.3 ± 7.7", "-12.3 (-20.0 to -4.7)"),
        (Interval(0.042, 0.04, 0.044, 9), "0.042 ± 0.002", "+0.042 (+0.040 to +0.044)"),
        (Interval(0, 0, 0, 9), "0 ± 0", "+0 (+0 to +0)"),
    ],
)
def test_numbers_have_about_three_digits(found: Interval, as_amount: str, as_difference: str) -> None:
    assert amount(found) == as_amount
    assert signed(found) == as_difference


def test_ratios_have_two_decimals() -> None:
    assert bounded(Interval(0.3661, 0.35, 0.3899, 9)) == "0.37 (0.35 to 0.39)"
