"""Leasehold as a library: what its ten functions give, and the worked notebook, run anew."""

import ast
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import leasehold
from leasehold.model.errors import InputError, InvalidField, UnknownName

REPOSITORY = Path(__file__).resolve().parents[2]
SHORT: dict[str, float] = {"horizon_s": 1200}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> leasehold.Run:
    return leasehold.simulate("demo", tmp_path_factory.mktemp("study") / "run", SHORT)


class TestScenario:
    def test_reads_a_packaged_scenario_and_overrides_its_keys(self) -> None:
        assert leasehold.scenario("demo", {"seed": 7}).seed == 7

    def test_takes_a_scenario_as_well(self) -> None:
        first = leasehold.scenario("demo", {"seed": 7})
        assert leasehold.scenario(first) is first
        assert leasehold.scenario(first, {"cluster.C64.slots": 32}).clusters[0].slots == 32

    def test_makes_one_around_a_log(self, tmp_path: Path) -> None:
        log = tmp_path / "small.swf"
        log.write_text("1 0 -1 60 4 -1 -1 4 60 -1 1 1 1 -1 1 -1 -1 -1\n", encoding="utf-8")
        assert leasehold.scenario(log, procs=8).clusters[0].slots == 8

    def test_options_of_logs_are_refused_for_anything_else(self) -> None:
        with pytest.raises(InvalidField, match="a workload log"):
            leasehold.scenario("demo", procs=8)

    def test_another_name_lists_the_known_ones(self) -> None:
        with pytest.raises(InvalidField, match="demo"):
            leasehold.scenario("nosuch")


class TestSimulate:
    def test_leaves_a_run_folder_that_load_opens(self, run: leasehold.Run) -> None:
        assert leasehold.load(run.path).leases.equals(run.leases)
        assert leasehold.validate(run) == []

    def test_makes_what_the_command_line_makes(self, run: leasehold.Run, tmp_path: Path) -> None:
        again = leasehold.simulate(run.path, tmp_path / "again")
        assert again.segments.equals(run.segments)
        assert again.decisions.equals(run.decisions)

    def test_goes_to_a_folder_of_its_own_unless_told(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        first, second = (leasehold.simulate("demo", set={"horizon_s": 60}, baseline=False) for _ in range(2))
        assert {one.path.parent.name for one in (first, second)} == {"runs"}
        assert first.path != second.path

    def test_never_overwrites(self, run: leasehold.Run) -> None:
        with pytest.raises(InvalidField, match="a new or empty folder"):
            leasehold.simulate("demo", run.path)


class TestWhatARunSays:
    def test_metrics_have_title_unit_and_meaning(self, run: leasehold.Run) -> None:
        table = leasehold.metrics(run)
        assert table.columns == ["metric", "title", "value", "unit", "meaning"]
        assert table.filter(metric="leases")["value"].item() == run.leases.height

    def test_a_run_compared_with_itself_is_the_same(self, run: leasehold.Run) -> None:
        verdicts = set(run.compare(run)["verdict"])
        assert verdicts == {"same", "n/a"}
        assert leasehold.compare(run, run).equals(run.compare(run))

    def test_gantt_draws_the_segments_of_a_site(self, run: leasehold.Run) -> None:
        assert run.gantt("C64").to_dict() == leasehold.gantt(run, "C64").to_dict()
        with pytest.raises(UnknownName, match="C64"):
            run.gantt("nosuch")

    def test_another_folder_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="not a run folder"):
            leasehold.load(tmp_path)


class TestReplicate:
    def test_settings_share_their_requests_seed_by_seed(self) -> None:
        less: dict[str, float] = {**SHORT, "stream.*.load": 0.5}
        settings = {"one": ("demo", SHORT), "same": ("demo", SHORT), "less": ("demo", less)}
        runs = leasehold.replicate(settings, seeds=[3, 5], metrics=["leases", "vms_preempted"], workers=1)
        assert runs.select("setting", "seed").rows() == [(name, seed) for name in settings for seed in (3, 5)]
        one, same = (runs.filter(setting=name).drop("setting") for name in ("one", "same"))
        assert one.equals(same)
        table = leasehold.differences(runs, against="one")
        assert table.filter(setting="same")["difference"].to_list() == [0.0, 0.0]
        assert table.filter(setting="less", metric="leases")["difference"].item() < 0

    def test_the_interval_is_that_of_students_t(self) -> None:
        """Differences 1, 2, 3: mean 2, standard error 1/sqrt 3, and t(2) is 4.3027 at 97.5 %."""
        rows = [("a", seed, 0.0) for seed in range(3)] + [("b", seed, 1.0 + seed) for seed in range(3)]
        table = leasehold.differences(pl.DataFrame(rows, ["setting", "seed", "m"], orient="row"), against="a")
        row = table.row(0, named=True)
        assert (row["mean"], row["difference"]) == (2.0, 2.0)
        assert [row["low"], row["high"]] == pytest.approx([-0.4841, 4.4841], abs=1e-4)
        assert row["p"] == pytest.approx(0.0742, abs=1e-4)

    def test_another_metric_or_setting_lists_the_known_ones(self) -> None:
        with pytest.raises(UnknownName, match="metrics"):
            leasehold.replicate({"one": "demo"}, metrics=["nosuch"])
        with pytest.raises(UnknownName, match="against"):
            leasehold.differences(pl.DataFrame({"setting": ["a"], "seed": [1], "leases": [1.0]}), against="b")


def test_the_package_offers_what_the_page_documents() -> None:
    page = (REPOSITORY / "docs" / "howto" / "notebook.md").read_text(encoding="utf-8")
    offered = [name for name in dir(leasehold) if callable(getattr(leasehold, name)) and name[0].islower()]
    functions = set(offered) - {"import_module"}
    assert len(functions) == 10
    assert all(f"| `{name}(" in page for name in functions)
    with pytest.raises(AttributeError, match="nosuch"):
        _ = leasehold.nosuch  # type: ignore[attr-defined]


def test_the_stub_declares_what_the_package_offers() -> None:
    stub = ast.parse((REPOSITORY / "src" / "leasehold" / "__init__.pyi").read_text(encoding="utf-8"))
    declared = {alias.name for node in stub.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert declared == {name for name in dir(leasehold) if not name.startswith("_")} & declared
    assert declared == set(leasehold._STUDY)  # type: ignore[attr-defined]


@pytest.mark.docs
def test_the_notebook_gives_what_is_saved_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each cell is run in order, and its last expression has the text that the notebook shows."""
    monkeypatch.chdir(tmp_path)
    notebook = json.loads((REPOSITORY / "examples" / "lending.ipynb").read_text(encoding="utf-8"))
    names: dict[str, Any] = {}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            shown = [output["data"] for output in cell["outputs"]]
            assert [_text(data) for data in shown] == [repr(_executed("".join(cell["source"]), names))]


def _text(data: dict[str, list[str]]) -> str:
    return "".join(data["text/plain"])


def _executed(source: str, names: dict[str, Any]) -> object:
    """Run a cell, and give the value of its last expression."""
    tree = ast.parse(source)
    last = tree.body.pop()
    assert isinstance(last, ast.Expr)
    exec(compile(tree, "cell", "exec"), names)  # noqa: S102 - the notebook of this repository
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names)  # noqa: S307 - as above
