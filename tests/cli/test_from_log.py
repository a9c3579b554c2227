"""``leasehold sim from-slurm`` and ``from-log``: what a cluster would lend, from its own accounting, in one command."""

import json
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from tests.cli.saying import Cli
from tests.workload import accounting

from leasehold.analysis.recorded import recorded_waits
from leasehold.analysis.run import load

FAST = ("--no-report",)


@pytest.fixture(autouse=True)
def sample(folder: Path) -> None:
    (folder / "accounting.txt").write_text(accounting.text(accounting.busy_days(60)))
    (folder / "accounting.json").write_text(accounting.json_text(accounting.busy_days(60), wrapped=True))


class TestFromSlurm:
    def test_answers_what_would_be_lent_and_whether_anybody_would_notice(self, cli: Cli) -> None:
        said = cli("sim", "from-slurm", "accounting.txt", "--procs", "64", "--out", "run", *FAST)
        assert said.code == 0
        answer = " ".join(said.out.split())
        assert "What would the cluster lend, and would anybody notice? " in answer
        assert "core-hours a day of 64 cores" in answer
        assert "Nobody: none of 60 own jobs would start later." in answer
        assert "Again: leasehold sim from-slurm accounting.txt --procs 64 --seed 1" in answer
        run = load("run")
        assert run.log.height == 60
        assert run.leases.filter(pl.col("origin") == "external").height > 0

    def test_the_simulation_waits_as_recorded_where_the_scheduler_is_the_same(self, cli: Cli) -> None:
        """The sample was made first come, first served: an independent scheduler of ten lines."""
        options = ("--procs", "64", "--policy", "fcfs", "--guests", "none")
        said = cli("sim", "from-slurm", "accounting.txt", *options, "--out", "run", *FAST)
        waits = recorded_waits(load("run"))
        assert waits is not None
        assert (waits.jobs, waits.error_pct, waits.p95_off_s) == (60, 0, 0)
        assert waits.recorded.mean_s > 0
        assert "How close is the simulation to the accounting?" in said.out

    def test_both_forms_and_overlapping_files_give_the_same_run(self, cli: Cli) -> None:
        first, second = accounting.busy_days(60)[:40], accounting.busy_days(60)[20:]
        Path("january.txt").write_text(accounting.text(first, steps=True))
        Path("february.txt").write_text(accounting.text(second, epoch=True))
        for name, files in {
            "a": ["accounting.txt"],
            "b": ["accounting.json"],
            "c": ["february.txt", "january.txt"],
        }.items():
            assert cli("sim", "from-slurm", *files, "--out", name, "--quiet", *FAST).code == 0
        tables = [load(name).leases for name in "abc"]
        assert tables[0].equals(tables[1])
        assert tables[0].equals(tables[2])

    def test_can_be_had_again_from_its_folder(self, cli: Cli) -> None:
        cli("sim", "from-slurm", "accounting.txt", "--out", "run", "--quiet", *FAST)
        Path("accounting.txt").unlink()
        assert cli("sim", "run", "run", "--out", "again", "--quiet", *FAST, "--no-export").code == 0
        assert load("run").leases.equals(load("again").leases)
        assert cli("sim", "validate", "run").code == 0
        assert cli("sim", "run", "run/log.parquet", "--out", "alone", "--quiet", *FAST, "--no-export").code == 0
        assert load("alone").leases.height == 60

    def test_plans_nodes_with_their_gpus(self, cli: Cli) -> None:
        facts = [
            accounting.Fact(number, at, at, at, at + 3600, 3600, cpus=8, asked_cpus=8, gpus=4, gpu_model="a100")
            for number in range(1, 9)
            for at in [1_767_571_200 + number * 900]
        ]
        Path("gpus.txt").write_text(accounting.text(facts))
        Path("nodes.txt").write_text(
            "NODELIST|CPUS|MEMORY|GRES\n" + "".join(f"g{n}|32|256000|gpu:a100:4\n" for n in "123")
        )
        said = cli("sim", "from-slurm", "gpus.txt", "--nodes", "nodes.txt", "--out", "run", *FAST)
        assert said.code == 0, said.err
        assert "How many GPU-hours were lent?" in said.out
        run = load("run")
        own = run.placements.filter(pl.col("lease_id").is_in(run.baseline["lease_id"].implode()))
        assert own["gpu_milli"].to_list() == [4000] * 8
        assert run.leases.filter(pl.col("source") == "gpu-guests").height > 0

    def test_json_has_the_same(self, cli: Cli) -> None:
        said = cli("sim", "from-slurm", "accounting.txt", "--out", "run", "--json", *FAST)
        answer = json.loads(said.out)
        assert (answer["status"], answer["jobs"]["local"], said.err) == ("complete", 60, "")

    @pytest.mark.parametrize("name", ["run", None])
    def test_leaves_nothing_where_the_input_is_wrong(self, cli: Cli, name: str | None) -> None:
        before = {path.name for path in Path().iterdir()}
        Path("bad.txt").write_text(Path("accounting.txt").read_text() + "1|2\n")
        said = cli("sim", "from-slurm", "bad.txt", *(("--out", name) if name else ()))
        assert said.code == 2
        assert said.err.splitlines()[-1].startswith(
            "leasehold: bad.txt:62: found 2 fields, expected the 22 of the header"
        )
        assert {path.name for path in Path().iterdir()} == before | {"bad.txt"}

    def test_an_earlier_run_stays_where_the_input_is_wrong(self, cli: Cli) -> None:
        cli("sim", "from-slurm", "accounting.txt", "--out", "run", "--quiet", *FAST)
        Path("bad.txt").write_text("no accounting\n")
        assert cli("sim", "from-slurm", "bad.txt", "--out", "run", "--force").code == 2
        assert load("run").log.height == 60
        assert cli("sim", "from-slurm", "accounting.txt", "--out", "run", "--force", "--quiet", *FAST).code == 0

    @pytest.mark.parametrize(
        ("options", "problem"),
        [
            (["nowhere.txt"], "nowhere.txt: cannot be read: No such file or directory"),
            (["accounting.txt", "--timezone", "Atlantis"], "--timezone: got 'Atlantis', expected a time zone such as"),
            (["accounting.txt", "--procs", "0"], "--procs: got '0'"),
            (["accounting.txt", "--procs", "2", "--guests", "none"], "VMs: got "),
            (["accounting.txt", "--procs", "4"], "--guests: got 'das2', expected a log for a cluster of fewer than 8"),
            (
                ["accounting.txt", "--guest-share", "2"],
                "--guest-share: got 2.0, expected a number above 0, of at most 1",
            ),
            (["accounting.txt", "--nodes", "accounting.txt"], "accounting.txt:1: is not a node"),
            (["accounting.txt", "--policy", "eazy"], "did you mean 'easy'?"),
        ],
    )
    def test_bad_options_give_one_line(self, cli: Cli, options: list[str], problem: str) -> None:
        said = cli("sim", "from-slurm", *options)
        assert said.code == 2
        assert problem in said.err.splitlines()[-1]
        assert not Path("runs").exists()


class TestFromLog:
    def test_takes_guests_from_the_log_where_the_mapping_names_them(self, cli: Cli) -> None:
        header = "job_name,organization,gpu_model,cpu_request,gpu_request,worker_num,submit_time,duration,job_type\n"
        rows = [f"j{n},org{n % 3},,4,0,2,{n * 100},{1000 + n},{'Spot' if n % 3 else 'HP'}\n" for n in range(30)]
        Path("jobs.csv").write_text(header + "".join(rows))
        said = cli("sim", "from-log", "jobs.csv", "--mapping", "spot-gpu", "--procs", "64", "--out", "run", *FAST)
        assert said.code == 0, said.err
        origins = load("run").leases["origin"].to_list()
        assert (origins.count("local"), origins.count("external")) == (10, 20)

    @pytest.mark.parametrize(
        ("options", "problem"),
        [
            (["small.swf", "--mapping", "openbb"], "--mapping: got 'openbb', expected one of"),
            (["small.swf", "--mapping", "openb"], "small.swf:1: has no column name, which the mapping names"),
            (["small.swf", "--mapping", "pm100"], "small.swf: cannot be read as Parquet"),
            (["small.swf", "--mapping", "kueue"], "small.swf:1: is not valid JSON: found ';', expected a JSON object"),
        ],
    )
    def test_what_is_wrong_gives_one_line(self, cli: Cli, options: list[str], problem: str) -> None:
        said = cli("sim", "from-log", *options)
        assert said.code == 2
        assert problem in said.err.splitlines()[-1]


class TestMapping:
    def test_lists_and_prints(self, cli: Cli) -> None:
        assert "spot-gpu" in cli("sim", "mapping").out
        printed = cli("sim", "mapping", "openb")
        Path("mine.toml").write_text(printed.out)
        assert cli("sim", "from-log", "none.csv", "--mapping", "mine.toml").err.endswith(
            "none.csv: cannot be read: No such file or directory\n"
        )
        names = [one["name"] for one in json.loads(cli("sim", "mapping", "--json").out)["mappings"]]
        assert names == ["f-data", "in2p3", "kueue", "openb", "pm100", "spot-gpu"]
        assert json.loads(cli("sim", "mapping", "openb", "--json").out)["name"] == "openb"
        assert cli("sim", "mapping", "openbb").code == 2


def test_the_dump_script_is_printed_ready_to_run(cli: Cli) -> None:
    Path("dump.py").write_text(cli("sim", "dump-script").out)
    done = subprocess.run([sys.executable, "-I", "-S", "dump.py", "--help"], capture_output=True, text=True, check=True)
    assert "--key-file" in done.stdout
