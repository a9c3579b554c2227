"""``leasehold sim run``: what it leaves, what it says, and that the same can be had again."""

import json
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal
from tests.cli.saying import Cli

from leasehold.model.tables import OPTIONAL_TABLES, TABLES

FAST = ("--no-report", "--no-export")


def manifest(folder: str) -> dict[str, object]:
    values: dict[str, object] = json.loads((Path(folder) / "manifest.json").read_text())
    return values


class TestFolder:
    def test_of_a_log_holds_everything(self, cli: Cli) -> None:
        assert cli("sim", "run", "small.swf", "--out", "run").code == 0
        files = {path.name for path in Path("run").iterdir()}
        tables = {f"{table}.parquet" for table in TABLES if table not in OPTIONAL_TABLES}
        assert files == tables | {"manifest.json", "report.html", "run.swf", "jobs.csv"}

    def test_holds_no_more_than_wished(self, cli: Cli) -> None:
        cli("sim", "run", "small.toml", "--out", "run", "--no-report", "--no-export", "--no-baseline")
        files = {path.name for path in Path("run").iterdir()}
        tables = {f"{table}.parquet" for table in TABLES if table not in OPTIONAL_TABLES}
        assert files == tables | {"manifest.json"}

    def test_has_no_report_where_nothing_can_draw_one(self, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("leasehold.cli.running.can_draw", lambda: False)
        said = cli("sim", "run", "small.swf", "--out", "run", "--no-export")
        assert said.code == 0
        assert "pip install 'leasehold[report]'" in said.err
        assert not Path("run/report.html").exists()

    def test_has_a_baseline_where_there_are_guests(self, cli: Cli) -> None:
        cli("sim", "run", "small.toml", "--out", "run", *FAST)
        assert pl.read_parquet("run/baseline.parquet").height == 3

    def test_is_named_after_the_scenario_and_the_time(self, cli: Cli) -> None:
        cli("sim", "run", "small.toml", *FAST)
        cli("sim", "run", "small.toml", *FAST)
        names = sorted(path.name for path in Path("runs").iterdir())
        assert len(names) == 2
        assert all(name.startswith("small-20") for name in names)

    def test_is_valid(self, cli: Cli) -> None:
        cli("sim", "run", "small.toml", "--out", "run", "--check", *FAST)
        said = cli("sim", "validate", "run")
        assert (said.code, said.out.splitlines()[-1][:12]) == (0, "no violation")


class TestOptions:
    @pytest.mark.parametrize(
        ("options", "column", "value"),
        [
            (["--procs", "16"], "slots", 16),
            (["--site", "mine"], "site", "mine"),
            (["--policy", "easy"], "local_policy", "easy"),
            (["--victims", "mlip"], "victims", "by-value:mlip"),
            (["--set", "cluster.small.speed_mips=2"], "speed_mips", 2),
            (["--set", "defaults.guest_policy=fcfs"], "guest_policy", "fcfs"),
        ],
    )
    def test_change_the_cluster(self, cli: Cli, options: list[str], column: str, value: object) -> None:
        assert cli("sim", "run", "small.swf", "--out", "run", *options, *FAST).code == 0
        assert pl.read_parquet("run/sites.parquet")[column].to_list() == [value]

    def test_a_policy_of_local_jobs_reaches_clusters_that_a_field_makes(self, cli: Cli) -> None:
        cli("sim", "run", "small.swf", "--cluster-by", "partition", "--policy", "fcfs", "--out", "run", *FAST)
        sites = pl.read_parquet("run/sites.parquet")
        assert sites["site"].to_list() == ["partition-1", "partition-2"]
        assert set(sites["local_policy"]) == {"fcfs"}

    def test_load_brings_jobs_nearer(self, cli: Cli) -> None:
        cli("sim", "run", "small.swf", "--load", "2", "--out", "run", *FAST)
        assert pl.read_parquet("run/leases.parquet").sort("lease_id")["submit_ms"].to_list() == [
            0, 30_000, 60_000, 3_600_000
        ]  # fmt: skip

    def test_horizon_ends_arrivals(self, cli: Cli) -> None:
        cli("sim", "run", "small.swf", "--horizon", "120", "--out", "run", *FAST)
        assert pl.read_parquet("run/leases.parquet").height == 2

    def test_guests_come_from_another_log(self, cli: Cli) -> None:
        cli("sim", "run", "small.swf", "--guests", "small.swf", "--routing", "rr", "--out", "run", *FAST)
        origins = pl.read_parquet("run/leases.parquet")["origin"].to_list()
        assert sorted(origins) == ["external"] * 4 + ["local"] * 4

    def test_a_policy_of_ones_own_decides(self, cli: Cli, folder: Path) -> None:
        (folder / "mine.py").write_text("def all_of_them(candidates, needed_vms):\n    return candidates\n")
        cli("sim", "run", "small.toml", "--victims", "mine.py:all_of_them", "--out", "run", *FAST)
        assert pl.read_parquet("run/sites.parquet")["victims"].to_list() == ["by-value:all-of-them"]


class TestAgain:
    def test_the_command_that_is_told_does_the_same(self, cli: Cli) -> None:
        wishes = ["--seed", "5", "--victims", "mov", "--load", "2", "--set", "cluster.a.slots=9"]
        cli("sim", "run", "small.toml", *wishes, "--out", "first", *FAST)
        command = manifest("first")["command"]
        assert command == "leasehold sim run small.toml --victims mov --load 2 --seed 5 --set cluster.a.slots=9"
        cli(*str(command).split()[1:], "--out", "second", *FAST)
        for table in TABLES.keys() - (OPTIONAL_TABLES - {"baseline"}):
            first, second = (pl.read_parquet(f"{run}/{table}.parquet") for run in ("first", "second"))
            assert_frame_equal(first, second)

    def test_a_run_folder_can_be_run(self, cli: Cli) -> None:
        cli("sim", "run", "small.toml", "--seed", "5", "--out", "first", *FAST)
        cli("sim", "run", "first", "--out", "second", *FAST)
        assert manifest("first")["scenario"] == manifest("second")["scenario"]

    def test_another_seed_gives_another_run(self, cli: Cli) -> None:
        for seed in ("1", "2"):
            cli("sim", "run", "small.toml", "--seed", seed, "--out", seed, *FAST)
        first, second = (pl.read_parquet(f"{seed}/leases.parquet")["submit_ms"].to_list() for seed in "12")
        assert first != second


class TestTalk:
    def test_says_what_happened_where_it_is_and_how_to_repeat_it(self, cli: Cli) -> None:
        said = cli("sim", "run", "small.swf", "--out", "run")
        lines = said.out.splitlines()
        assert lines[0].endswith("4 local jobs, 0 guests.")
        assert lines[-3:] == [
            "Run folder: run",
            "Report:     run/report.html",
            "Again:      leasehold sim run small.swf --seed 1",
        ]

    def test_progress_goes_to_standard_error(self, cli: Cli) -> None:
        assert cli("sim", "run", "small.swf", "--out", "run", *FAST).err.startswith("small: ")

    def test_quiet_says_nothing_beside_the_answer(self, cli: Cli) -> None:
        assert cli("sim", "run", "small.swf", "--out", "run", "--quiet", *FAST).err == ""

    def test_json_is_one_object_and_nothing_else(self, cli: Cli) -> None:
        said = cli("sim", "run", "small.swf", "--out", "run", "--json", *FAST)
        answer = json.loads(said.out)
        assert said.err == ""
        assert answer["schema_version"] == 1
        assert (answer["run"], answer["status"], answer["seed"]) == ("run", "complete", 1)
        assert answer["jobs"]["read"] == 4
        assert answer["metrics"]["completed"] == 4
        assert answer["report"] is None
        assert answer["replay"] == "leasehold sim run small.swf --seed 1"
