"""The commands that only look: at runs, policies and scenarios."""

import json
from pathlib import Path

import polars as pl
import pytest
from tests.cli.saying import Cli

from leasehold.gateway.coallocation.placement.registry import placement_policy_names
from leasehold.leasing.backfill import DISCIPLINES
from leasehold.leasing.victims.registry import victim_policy_names
from leasehold.routing.registry import routing_policy_names
from leasehold.sharing.broker_policies.registry import broker_policy_names

FAST = ("--no-report", "--no-export", "--quiet")
NAMES = [
    *(*routing_policy_names(), *victim_policy_names(), *DISCIPLINES),
    *(*broker_policy_names(), *placement_policy_names()),
]


class TestValidate:
    def test_a_run_that_was_tampered_with_gives_one(self, cli: Cli) -> None:
        cli("sim", "run", "small.swf", "--out", "run", *FAST)
        leases = pl.read_parquet("run/leases.parquet")
        leases.with_columns(state=pl.lit("refused")).write_parquet("run/leases.parquet/00000.parquet")
        said = cli("sim", "validate", "run")
        assert said.code == 1
        assert "violations of" in said.out.splitlines()[-1]

    def test_json_lists_the_violations(self, cli: Cli) -> None:
        cli("sim", "run", "small.swf", "--out", "run", *FAST)
        segments = pl.read_parquet("run/segments.parquet")
        segments.with_columns(vms=pl.lit(9, pl.Int64)).write_parquet("run/segments.parquet/00000.parquet")
        said = cli("sim", "validate", "run", "--json")
        answer = json.loads(said.out)
        assert (said.code, answer["schema_version"], answer["run"]) == (1, 1, "run")
        assert {"rule", "lease_id", "site", "time_ms", "sentence"} == set(answer["violations"][0])


class TestCompare:
    @pytest.fixture(autouse=True)
    def runs(self, cli: Cli) -> None:
        cli("sim", "run", "small.swf", "--policy", "fcfs", "--out", "fcfs", *FAST)
        cli("sim", "run", "small.swf", "--policy", "easy", "--out", "easy", *FAST)

    def test_sets_side_by_side(self, cli: Cli) -> None:
        said = cli("sim", "compare", "fcfs", "easy", "--metric", "wait_mean_s", "--metric", "completed")
        assert said.code == 0
        head, wait, completed = said.out.splitlines()[:3]
        assert head.split() == ["fcfs", "easy", "change"]
        assert wait.split()[:2] == ["mean", "wait"]
        assert wait.endswith("better")
        assert completed.split() == ["completed", "4", "4", "same"]

    def test_json_has_every_metric(self, cli: Cli) -> None:
        answer = json.loads(cli("sim", "compare", "fcfs", "easy", "--json").out)
        found = {row["metric"]: row for row in answer["metrics"]}
        # jobs 2, 3 and 4 wait 59 min, 88 min and none under FCFS; job 3 not at all under EASY
        assert found["wait_mean_s"]["first"] == (3540 + 5280) / 4
        assert found["wait_mean_s"]["second"] == 3540 / 4

    def test_a_threshold_makes_it_a_test(self, cli: Cli) -> None:
        better = ["sim", "compare", "fcfs", "easy", "--metric", "wait_mean_s", "--worse-than", "5"]
        worse = ["sim", "compare", "easy", "fcfs", "--metric", "wait_mean_s", "--worse-than"]
        assert cli(*better).code == 0
        assert cli(*worse, "5").code == 1
        assert cli(*worse, "500").code == 0

    def test_writes_a_report_on_both(self, cli: Cli) -> None:
        cli("sim", "compare", "fcfs", "easy", "--report", "both.html")
        assert "easy" in Path("both.html").read_text()

    def test_runs_of_different_requests_are_compared_with_a_warning(self, cli: Cli) -> None:
        cli("sim", "run", "small.swf", "--guests", "das2", "--out", "lent", *FAST)
        guests = json.loads(Path("lent/manifest.json").read_text())["jobs"]["external"]
        assert guests > 1
        said = cli("sim", "compare", "fcfs", "lent")
        (warning,) = said.err.splitlines()
        assert f"(fcfs: 4 local jobs and 0 guests; lent: 4 local jobs and {guests} guests)" in warning
        answer = json.loads(cli("sim", "compare", "fcfs", "lent", "--json").out)
        assert answer["warnings"] == [warning]
        assert cli("sim", "compare", "fcfs", "lent", "--metric", "locals_delayed").err == ""

    def test_and_of_the_same_requests_without(self, cli: Cli) -> None:
        assert cli("sim", "compare", "fcfs", "easy").err == ""
        assert json.loads(cli("sim", "compare", "fcfs", "easy", "--json").out)["warnings"] == []

    def test_another_metric_is_refused(self, cli: Cli) -> None:
        said = cli("sim", "compare", "fcfs", "easy", "--metric", "wait_mena_s")
        assert (said.code, "did you mean 'wait_mean_s'?" in said.err) == (2, True)


class TestProducts:
    def test_a_report_is_written_where_wished(self, cli: Cli) -> None:
        cli("sim", "run", "small.swf", "--out", "run", *FAST)
        assert cli("sim", "report", "run").out == "run/report.html\n"
        assert json.loads(cli("sim", "report", "run", "--out", "a.html", "--json").out)["report"] == "a.html"
        assert "There were no guests" in Path("a.html").read_text()

    def test_its_charts_are_written_as_pictures_too(self, cli: Cli) -> None:
        cli("sim", "run", "small.swf", "--out", "run", *FAST)
        said = json.loads(cli("sim", "report", "run", "--pictures", "charts", "--json").out)
        assert "charts/utilisation.png" in said["pictures"]
        assert all(Path(file).stat().st_size > 0 for file in said["pictures"])

    def test_files_for_other_tools_are_written_where_wished(self, cli: Cli) -> None:
        cli("sim", "run", "small.swf", "--out", "run", *FAST)
        assert cli("sim", "export", "run").out.splitlines() == ["run/run.swf", "run/jobs.csv"]
        answer = json.loads(cli("sim", "export", "run", "--out", "to", "--format", "swf", "--json").out)
        assert answer["files"] == ["to/run.swf"]
        assert cli("sim", "run", "to/run.swf", "--out", "again", *FAST).code == 0

    def test_another_format_is_refused(self, cli: Cli) -> None:
        cli("sim", "run", "small.swf", "--out", "run", *FAST)
        assert cli("sim", "export", "run", "--format", "swff").code == 2


class TestPolicies:
    def test_the_list_has_all_of_them(self, cli: Cli) -> None:
        answer = json.loads(cli("policy", "list", "--json").out)
        assert [policy["name"] for policy in answer["policies"]] == NAMES
        assert [line.split()[0] for line in cli("policy", "list").out.splitlines() if line[0] != " "][1:] == NAMES

    @pytest.mark.parametrize("name", NAMES)
    def test_each_says_question_and_rule(self, cli: Cli, name: str) -> None:
        policy = json.loads(cli("policy", "show", name, "--json").out)["policy"]
        assert policy["question"].endswith("?")
        assert policy["rule"]
        assert bool(policy["information"]) is (policy["kind"] == "routing")

    def test_it_is_shown_in_words(self, cli: Cli) -> None:
        lines = cli("policy", "show", "rr").out.splitlines()
        assert lines[:3] == ["rr (routing)", "", "  Whose turn is it?"]
        assert "  Source: JPDC 2012, section 5.2.1, eq 25." in lines


class TestScenarios:
    def test_the_list_has_the_demonstration(self, cli: Cli) -> None:
        assert json.loads(cli("scenario", "list", "--json").out)["scenarios"][0]["name"] == "demo"
        assert "demo" in cli("scenario", "list").out

    def test_what_is_shown_is_a_scenario_file(self, cli: Cli, folder: Path) -> None:
        shown = cli("scenario", "show", "small.toml").out
        (folder / "shown.toml").write_text(shown)
        assert cli("scenario", "show", "shown.toml").out == shown

    def test_a_log_is_shown_as_the_scenario_that_it_makes(self, cli: Cli) -> None:
        assert 'slots = "max-procs"' in cli("scenario", "show", "small.swf").out

    def test_a_check_reads_everything(self, cli: Cli) -> None:
        said = cli("scenario", "check", "small.swf")
        assert said.out.splitlines()[0] == (
            "small is fine: 1 cluster with 8 slots, 1 stream with 4 local jobs and 0 guests"
        )
        assert said.code == 0

    def test_a_check_finds_what_only_reading_finds(self, cli: Cli, folder: Path) -> None:
        with (folder / "small.swf").open("a") as log:
            log.write("5 0 0\n")
        said = cli("scenario", "check", "small.toml")
        assert said.code == 0  # the horizon comes before that line
        said = cli("scenario", "check", "small.swf")
        assert (said.code, "small.swf:6: " in said.err) == (2, True)
