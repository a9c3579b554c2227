"""The report has every number, and the page in the documentation is one of it."""

from pathlib import Path

import pytest

from leasehold.experiments.report import markdown
from leasehold.experiments.usla.evaluation import (
    AgreementsOutcome,
    as_data,
    draw,
    metric_table,
    number_table,
    outcome_of,
    page,
    summary,
)
from leasehold.experiments.usla.plan import METRIC_TITLES, METRICS, TABLES, UNITS, plan

PAGE = Path(__file__).resolve().parents[2] / "docs" / "results" / "usla.md"


@pytest.fixture
def outcome() -> AgreementsOutcome:
    results = {
        name: {metric: [20.0 + place, 21.0, 22.0] for metric in METRICS}
        for place, name in enumerate(plan().configurations)
    }
    return outcome_of(plan(), results, 3)


def printed_lines() -> list[str]:
    """How each printed number begins its line."""
    return [
        f"| {row} | {METRIC_TITLES[metric]} ({UNITS[metric]}) | {'-' if value is None else f'{value:.2f}'} |"
        for rows in TABLES.values()
        for row, numbers in rows.items()
        for metric in METRICS
        for value in [numbers[metric]]
    ]


def numbers_of(page: str) -> list[str]:
    """The lines of Tables 1 to 7, up to the printed number."""
    tables = page.split("## Table 1")[1].split("## Readings", maxsplit=1)[0]
    lines = [line for line in tables.splitlines() if line.startswith("| ") and "(" in line]
    return ["|".join(line.split("|")[:4]) + "|" for line in lines]


def test_every_printed_number_has_its_line(outcome: AgreementsOutcome) -> None:
    assert numbers_of(markdown(page(outcome))) == printed_lines()


def test_the_picture_shows_every_row_of_every_table(outcome: AgreementsOutcome, tmp_path: Path) -> None:
    svg, _ = draw(outcome.numbers, tmp_path)
    assert f"]({svg.name})" in markdown(page(outcome))
    assert f"]({svg.name})" in PAGE.read_text(encoding="utf-8")
    drawn = svg.read_text(encoding="utf-8")
    for table, rows in TABLES.items():
        for row in rows:
            assert drawn.count(f">Table {table}, {row}<") == 3


def test_the_page_in_the_documentation_was_made_of_these_numbers_and_readings() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert numbers_of(page) == printed_lines()
    assert "leasehold reproduce usla --seeds 100" in page
    for entry in plan().stated["why"]:
        assert entry["text"] in page
    for one in plan().interpretations:
        assert f"| {one.key} | {one.reading} | {one.why} |" in page
    for control in plan().controls:
        assert control.question in page


def test_a_number_that_cannot_be_compared_says_why(outcome: AgreementsOutcome) -> None:
    words = [line[-1] for line in number_table(outcome.of_table(6)).lines]
    assert any(word.startswith("not comparable: misprint: 11.17 is the Starv") for word in words)


def test_all_is_counted(outcome: AgreementsOutcome) -> None:
    assert sum(int(count) for line in metric_table(outcome).lines for count in line[1:]) == 27 * len(METRICS)
    assert summary(outcome).startswith("Of 135 numbers: ")


def test_the_json_has_what_the_report_has(outcome: AgreementsOutcome) -> None:
    data = as_data(outcome)
    assert [(cell["table"], cell["row"], cell["metric"]) for cell in data["cells"]] == [
        (table, row, metric) for table, rows in TABLES.items() for row in rows for metric in METRICS
    ]
    assert len(data["claims"]) == len(outcome.verdicts)
    assert [control["name"] for control in data["controls"]] == [one.name for one in plan().controls]
