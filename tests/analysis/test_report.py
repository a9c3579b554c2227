"""The report: the words say what the numbers say, and the page opens without a network."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.analysis.builders import Tables

from leasehold.analysis.metrics import totals
from leasehold.analysis.report import can_draw, gantt_chart, write_comparison, write_pictures, write_report
from leasehold.analysis.report import contents as sentences
from leasehold.analysis.report.contents import headline_of_two, what_differs
from leasehold.analysis.run import Run
from leasehold.model.errors import LeaseholdError, UnknownName

MOST_BYTES = 3_000_000
drawn = pytest.mark.skipif(not can_draw(), reason="needs the extra [report]")


def _story(run: Run) -> dict[str, str]:
    return {p.question: p.answer for p in sentences.what_happened(run, totals(run))}


def test_the_headline_says_that_nobody_noticed(small: Run) -> None:
    assert sentences.headline(small, totals(small)) == "No local job was delayed."


def test_the_headline_counts_who_noticed(corrupted: Callable[..., Run]) -> None:
    run = corrupted(lambda tables: tables.of("baseline", 9).update(start_ms=80_000))
    expected = "1 of 5 local jobs started later because of guests."
    assert sentences.headline(run, totals(run)) == expected


def test_the_story_of_the_small_run(small: Run) -> None:
    story = _story(small)
    assert "5 local jobs, every one, started at the very instant" in story["Did the clusters' own users notice?"]
    assert "2 of 4 guest leases (50.0 %) got all their time." in story["What did the guests get?"]
    assert "Local jobs left 90.9 % of the VM-time idle" in story["How much idle time was lent?"]
    gave_way = story["Which guests were preempted, and why?"]
    assert "3 times a guest lease gave its VMs to a local job" in gave_way
    assert "1 Cancelable, 1 Suspendable and 1 Migratable" in gave_way
    assert "“moml”" in gave_way
    assert "must start at its ready time" in story["Which requests were refused?"]


def test_a_run_of_locals_alone_speaks_of_them_only(tmp_path: Path) -> None:
    tables = Tables()
    tables.site("a")
    tables.local(1, "a", vms=1, requested_ms=5, first_start_ms=0, end_ms=5)
    tables.held(1, "a", (0, 5), "completed")
    run = tables.run(tmp_path)
    assert sentences.headline(run, totals(run)) == "There were no guests."
    assert list(_story(run)) == ["Did the clusters' own users notice?"]


def test_the_comparison_in_words(small: Run, toy: Run) -> None:
    assert headline_of_two(small, small) == "Both runs preempted 8 VMs."
    assert re.fullmatch(r"toy preempted [\d,]+ VMs more \(\d+ %\) than small\.", headline_of_two(small, toy))
    preemption = {p.question: p.answer for p in what_differs(small, small)}["Preemption"]
    assert preemption.startswith("VMs preempted: 8 in both.")


@drawn
def test_the_page_is_small_and_needs_no_network(small: Run, tmp_path: Path) -> None:
    page = write_report(small, tmp_path / "report.html").read_text(encoding="utf-8")
    assert len(page) < MOST_BYTES
    assert "No local job was delayed." in page
    page = re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
    assert not re.search(r"<(?:script|link|img|iframe)[^>]+(?:src|href)\s*=", page)
    assert not re.search(r"@import|url\(", page.split("</style>")[0])


@drawn
def test_the_page_shows_its_charts_without_scripts(small: Run, tmp_path: Path) -> None:
    page = write_report(small, tmp_path / "report.html").read_text(encoding="utf-8")
    without_scripts = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    assert without_scripts.count("<svg") == 3 + 1 + 2  # who held what, the close look, waiting and giving way


@drawn
def test_names_from_a_log_cannot_break_the_page(corrupted: Callable[..., Run], tmp_path: Path) -> None:
    def name_badly(tables: Tables) -> None:
        tables.of("leases", 3)["consumer"] = "</script><b>"
        tables.manifest["notes"] = ["<b>bold</b>"]

    page = write_report(corrupted(name_badly), tmp_path / "report.html").read_text(encoding="utf-8")
    assert "</script><b>" not in page
    assert "&lt;b&gt;bold&lt;/b&gt;" in page


@drawn
def test_an_interrupted_run_and_tables_that_disagree_are_said(corrupted: Callable[..., Run], tmp_path: Path) -> None:
    def interrupt(tables: Tables) -> None:
        tables.manifest["status"] = "partial"
        tables.of("leases", 1)["preemptions"] = 2

    page = write_report(corrupted(interrupt), tmp_path / "report.html").read_text(encoding="utf-8")
    assert "This run was interrupted" in page
    assert "lease preemptions: 4 by the leases&#39; counters, 3 by segments" in page


@drawn
def test_a_run_in_which_nothing_happened_has_a_page(tmp_path: Path) -> None:
    tables = Tables()
    tables.site("a")
    page = write_report(tables.run(tmp_path / "empty"), tmp_path / "report.html")
    assert "There were no guests." in page.read_text(encoding="utf-8")


@drawn
def test_two_runs_on_one_page(small: Run, toy: Run, tmp_path: Path) -> None:
    page = write_comparison(small, toy, tmp_path / "both.html").read_text(encoding="utf-8")
    assert len(page) < MOST_BYTES
    assert "What differs" in page
    assert "AWRT, weighted by cluster size" in page


@drawn
def test_pictures_are_written_as_svg_and_png(small: Run, tmp_path: Path) -> None:
    files = write_pictures(small, tmp_path / "pictures")
    names = {file.name for file in files}
    assert names == {
        f"{chart}.{kind}" for chart in ("utilisation", "waiting", "preemption", "gantt") for kind in ("svg", "png")
    }
    assert (tmp_path / "pictures" / "gantt.png").read_bytes().startswith(b"\x89PNG")


@drawn
def test_a_notebook_draws_the_gantt_of_a_site(small: Run) -> None:
    spec = gantt_chart(small, "b", 0, 100_000).to_dict()
    assert spec["width"] == 900
    assert len(spec["layer"]) == 4


@drawn
def test_a_gantt_of_an_unknown_site_offers_the_sites(small: Run) -> None:
    with pytest.raises(UnknownName, match="one of a, b"):
        gantt_chart(small, "c")


def test_without_the_extra_the_report_says_what_to_install(
    small: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leasehold.analysis.report.find_spec", lambda _: None)
    with pytest.raises(LeaseholdError, match=r"leasehold\[report\]"):
        write_report(small, tmp_path / "report.html")
