"""``leasehold job submit`` and ``describe``: by options, by a file, by both."""

import hashlib
import json
from pathlib import Path

import pytest
from tests.cli.live.job_answers import DONE, FAILED, REFUSED, RESULT, USUAL, asked
from tests.cli.saying import Cli
from tests.client.gateway import MOMENT, Gateway, Reply, job, problem


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leasehold.client.watching.SOONEST_S", 0.0)


def hash_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def stored(name: str, content: bytes, received: int | None = None) -> Reply:
    has = len(content) if received is None else received
    return Reply(
        body={
            "sha256": hash_of(content),
            "name": name,
            "size_bytes": len(content),
            "received_bytes": has,
            "is_complete": has == len(content),
            "created_at": MOMENT,
        }
    )


class TestSubmitting:
    def test_the_number_is_the_answer(self, cli: Cli, gateway: Gateway) -> None:
        gateway.answer("POST", "/v1/jobs", Reply(201, job()))
        said = cli("job", "submit", "--execution", "60", "--", "run")
        assert (said.code, said.out) == (0, "7\n")
        assert said.err == (
            "leasehold: job 7 is running at das3: it gets nodes that have what it needs (runs-on-nodes)\n"
        )
        assert asked(gateway) == USUAL

    def test_everything_that_can_be_said(self, cli: Cli, gateway: Gateway, tmp_path: Path) -> None:
        gateway.answer("POST", "/v1/jobs", Reply(201, job()))
        (tmp_path / "sky.fits").write_bytes(b"12345")
        options = ["--software", "python3-numpy >= 1.24", "-s", "gcc", "--memory", "2GiB", "--cores", "2"]
        options += [
            "--disk",
            "512",
            "--gpus",
            "a100:0.5",
            "--cpu-speed",
            "2.4GHz",
            "--nodes",
            "3",
            "--execution",
            "10m",
        ]
        options += ["--input", "sky.fits", "--input", "old.fits:700MiB@lyon", "--deadline", "now+2h"]
        options += ["--reliability", "0.999", "--backup", "hot", "--restarts", "0", "--type", "cancelable"]
        options += ["--name", "survey", "--group", "astro", "--idempotency-key", "k"]
        gateway.answer("POST", "/v1/files", stored("sky.fits", b"12345"))
        assert cli("job", "submit", *options, "--", "python3", "run.py", "-v").code == 0
        assert gateway.asked[0].body == {"sha256": hash_of(b"12345"), "name": "sky.fits", "size_bytes": 5}
        assert gateway.asked[1].body == {
            "command": ["python3", "run.py", "-v"], "cores": 2, "memory_mib": 2048, "disk_mib": 512,
            "gpus": "a100:0.5", "cpu_mhz": 2400, "nodes": 3, "software": ["python3-numpy >= 1.24", "gcc"],
            "inputs": [
                {"name": "sky.fits", "size_bytes": 5, "place": "", "sha256": hash_of(b"12345")},
                {"name": "old.fits", "size_bytes": 734_003_200, "place": "lyon"},
            ],
            "execution_s": 600, "deadline": "2026-11-21T12:56:10.000Z", "reliability": 0.999, "backup": "hot",
            "type": "cancelable", "restarts": 0, "name": "survey", "group": "astro",
        }  # fmt: skip
        assert gateway.asked[1].headers["idempotency-key"] == "k"

    @pytest.mark.parametrize(("text", "moment"), [("18:00", "21T18:00"), ("9:30", "22T09:30")])
    def test_a_time_of_day_is_when_the_clock_shows_it_next(
        self, cli: Cli, gateway: Gateway, text: str, moment: str
    ) -> None:
        gateway.answer("POST", "/v1/jobs", Reply(201, job()))
        cli("job", "submit", "--execution", "60", "--deadline", text, "--", "run")
        assert asked(gateway)["deadline"] == f"2026-11-{moment}:00.000Z"

    def test_a_file_describes_it_and_options_change_that(self, cli: Cli, gateway: Gateway, tmp_path: Path) -> None:
        gateway.answer("POST", "/v1/jobs", Reply(201, job()))
        (tmp_path / "in").mkdir()
        (tmp_path / "in" / "sky.fits").write_bytes(b"123")
        fields = {
            "Executable": "python3", "Argument": ["run.py"], "ExecutionTime": "1m", "Deadline": "18:00",
            "DataStaging": [{"FileName": "sky", "Source": "sky.fits"}], "IndividualCPUCount": 4,
            "Software": ["gcc"],
        }  # fmt: skip
        (tmp_path / "in" / "job.json").write_text(json.dumps(fields))
        gateway.answer("POST", "/v1/files", stored("sky", b"123"))
        cli("job", "submit", "in/job.json", "--cores", "2", "--software", "python3")
        assert gateway.asked[1].body == USUAL | {
            "command": ["python3", "run.py"], "cores": 2, "software": ["python3"],
            "inputs": [{"name": "sky", "size_bytes": 3, "place": "", "sha256": hash_of(b"123")}],
            "deadline": "2026-11-21T18:00:00.000Z",
        }  # fmt: skip
        cli("job", "submit", "in/job.json", "--", "other", "word")
        assert gateway.asked[3].body["command"] == ["other", "word"]

    def test_an_upload_is_continued_where_it_was_interrupted(self, cli: Cli, gateway: Gateway, tmp_path: Path) -> None:
        (tmp_path / "sky.fits").write_bytes(b"12345")
        gateway.answer("POST", "/v1/files", stored("sky.fits", b"12345", received=2))
        path = f"/v1/files/{hash_of(b'12345')}/content"
        gateway.answer("PUT", path, stored("sky.fits", b"12345"))
        said = cli("file", "put", "sky.fits")
        assert (said.code, said.out) == (0, f"{hash_of(b'12345')}  sky.fits\n")
        sent = gateway.asked[1]
        assert (sent.method, sent.path, sent.headers["content-range"]) == ("PUT", path, "bytes 2-4/5")

    def test_beyond_a_quota_nothing_is_submitted(self, cli: Cli, gateway: Gateway, tmp_path: Path) -> None:
        (tmp_path / "sky.fits").write_bytes(b"12345")
        gateway.answer("POST", "/v1/files", problem(409, "file-quota", "file 'sky.fits' has 5 bytes"))
        said = cli("job", "submit", "--input", "sky.fits", "--execution", "60", "--", "run")
        assert (said.code, said.err) == (1, "leasehold: file 'sky.fits' has 5 bytes\n")
        assert len(gateway.asked) == 1

    def test_a_refusal_is_a_no(self, cli: Cli, gateway: Gateway) -> None:
        gateway.answer("POST", "/v1/jobs", Reply(201, REFUSED))
        said = cli("job", "submit", "--execution", "60", "--", "run")
        assert (said.code, said.out) == (1, "7\n")
        assert "job 7 is refused: it cannot run anywhere here: it needs a virtual machine" in said.err

    def test_with_wait_what_it_wrote_is_the_answer(self, cli: Cli, gateway: Gateway) -> None:
        gateway.answer("POST", "/v1/jobs", Reply(201, job()))
        gateway.answer("GET", "/v1/jobs/7", Reply(body=job()), Reply(body=DONE))
        gateway.answer("GET", "/v1/jobs/7/result", Reply(body=RESULT))
        said = cli("job", "submit", "--wait", "--execution", "60", "--", "run")
        assert (said.code, said.out) == (0, "forty-two\n")
        assert said.err.splitlines()[-1] == "leasehold: job 7 is completed at das3: it ran to its end (completed)"

    def test_with_wait_it_exits_as_the_command_did(self, cli: Cli, gateway: Gateway) -> None:
        gateway.answer("POST", "/v1/jobs", Reply(201, job()))
        gateway.answer("GET", "/v1/jobs/7", Reply(body=FAILED))
        wrote = RESULT | {"exit_status": 3, "output": "no", "error": "nothing there\n"}
        gateway.answer("GET", "/v1/jobs/7/result", Reply(body=wrote))
        said = cli("job", "submit", "--wait", "--execution", "60", "--", "run")
        assert (said.code, said.out) == (3, "no\n")
        assert said.err.splitlines()[-2:] == ["nothing there", "leasehold: job 7 ended with exit status 3"]

    def test_an_array_is_waited_for_as_a_whole(self, cli: Cli, gateway: Gateway) -> None:
        first, second = job(7, array=7, array_index=1), job(8, array=7, array_index=4)
        gateway.answer("POST", "/v1/jobs", Reply(201, first))
        gateway.answer("GET", "/v1/jobs", Reply(body={"jobs": [second, first], "next": None}))
        gateway.answer("GET", "/v1/jobs/7", Reply(body=DONE))
        gateway.answer("GET", "/v1/jobs/8", Reply(body=FAILED | {"id": 8}))
        gateway.answer("GET", "/v1/jobs/7/result", Reply(body=RESULT))
        gateway.answer("GET", "/v1/jobs/8/result", Reply(body=RESULT | {"job": 8, "exit_status": 3, "output": "no"}))
        said = cli("job", "submit", "--wait", "--array", "1-4:3", "--execution", "60", "--", "run")
        assert asked(gateway)["array"] == [1, 4]
        assert gateway.asked[1].query[0] == ("array", "7")
        assert (said.code, said.out) == (3, "forty-two\nno\n")

    def test_variables_are_given_or_taken_from_here(
        self, cli: Cli, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        gateway.answer("POST", "/v1/jobs", Reply(201, job()))
        monkeypatch.setenv("FROM_HERE", "a b")
        monkeypatch.delenv("NOT_SET", raising=False)
        cli("job", "submit", "--execution", "60", "--env", "A=1=2", "--env", "FROM_HERE", "--env", "E=", "--", "run")
        assert asked(gateway)["environment"] == {"A": "1=2", "FROM_HERE": "a b", "E": ""}

    def test_with_wait_a_job_without_result_is_no_mistake(self, cli: Cli, gateway: Gateway) -> None:
        gateway.answer("POST", "/v1/jobs", Reply(201, REFUSED))
        gateway.answer("GET", "/v1/jobs/7", Reply(body=REFUSED))
        gateway.answer("GET", "/v1/jobs/7/result", problem(404, "no-result", "it has none"))
        assert cli("job", "submit", "--wait", "--execution", "60", "--", "run").code == 1

    def test_as_json(self, cli: Cli, gateway: Gateway) -> None:
        gateway.answer("POST", "/v1/jobs", Reply(201, job()))
        said = cli("job", "submit", "--execution", "60", "--json", "--", "run")
        assert json.loads(said.out)["job"] == job()

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (["--", "run"], "--execution: missing, expected how long it is thought to run"),
            (["--execution", "60"], "COMMAND: missing, expected what to run, after --, or a file with"),
            (["--execution", "soon", "--", "x"], "--execution: got 'soon', expected a time such as"),
            (["--cores", "0"], "--cores: got 0, expected a whole number from 1 to 1000000"),
            (["--memory", "2 kg"], "--memory: got '2 kg', expected a number of MiB, or one with its unit"),
            (["--memory", "0"], "--memory: got '0', expected at least 1 MiB"),
            (["--disk", "1B"], "--disk: got '1B', expected at least 1 MiB"),
            (["--cpu-speed", "fast"], "--cpu-speed: got 'fast', expected a number of MHz"),
            (["--gpus", "a100:1.5"], "--gpus: got 'a100:1.5', expected MODEL:NUMBER such as a100:2 or a100:0.5"),
            (["--gpus", "0"], "--gpus: got '0', expected MODEL:NUMBER such as a100:2 or a100:0.5"),
            (["--nodes", "-1"], "--nodes: got -1, expected a whole number"),
            (["--env", "NOT_SET_ANYWHERE"], "--env: got 'NOT_SET_ANYWHERE', expected NAME=VALUE, or the name"),
            (["--env", "1A=x"], "--env: got '1A', expected the name of a variable"),
            (["--array", "3-1"], "--array: got '3-1', expected indexes such as 1-10"),
            (["--array", "1-2000"], "--array: got '1-2000', expected at most 1000 indexes"),
            (["--software", "numpy => 1"], "--software: got '=>', expected one of"),
            (["--software", "numpy >= x"], "--software: got 'x', expected a version such as"),
            (["--input", "gone.fits"], "--input: got 'gone.fits', expected an existing file"),
            (["--input", "a:7 apples@lyon"], "--input: got '7 apples', expected a number of B"),
            (["--deadline", "soon"], "--deadline: got 'soon', expected a time such as 18:00"),
            (["--deadline", "25:00"], "--deadline: got '25:00', expected a time such as 18:00"),
            (
                ["--reliability", "1.5", "--deadline", "18:00"],
                "--reliability: got 1.5, expected a number above 0",
            ),
            (["--reliability", "0.9"], "--deadline: missing, expected a time: --reliability is the"),
            (["--backup", "warm"], "--backup: got 'warm', expected one of cold, hot, none"),
            (["--type", "cancellable"], "did you mean 'cancelable'?"),
            (["--restarts", "-1"], "--restarts: got -1, expected a whole number from 0 to 100"),
        ],
    )
    def test_what_is_wrong_is_one_line_that_names_the_option(
        self, cli: Cli, gateway: Gateway, options: list[str], message: str
    ) -> None:
        base = ["--execution", "60"] if "--execution" not in options and options[0] != "--" else []
        command = [] if "--" in options or options == ["--execution", "60"] else ["--", "run"]
        said = cli("job", "submit", *base, *options, *command)
        assert (said.code, gateway.asked) == (2, [])
        assert said.err.startswith("leasehold: ")
        assert message in said.err
        assert said.err.count("\n") == 1

    def test_what_is_wrong_in_a_file_is_said_with_its_line(self, cli: Cli, tmp_path: Path) -> None:
        (tmp_path / "job.xml").write_text(
            "<JobDescription>\n<Executable>a</Executable>\n<Cores>0</Cores></JobDescription>"
        )
        said = cli("job", "submit", "job.xml")
        assert said.code == 2
        assert said.err.startswith("leasehold: job.xml: ExecutionTime: missing, expected how long")
        said = cli("job", "submit", "gone.JSON")
        assert said.err == "leasehold: gone.JSON: cannot be read: No such file or directory\n"


class TestDescribing:
    ARGUMENTS = ("job", "describe", "--execution", "90m", "--memory", "2GiB", "--name", "survey")

    def test_as_json_that_can_be_submitted(self, cli: Cli, gateway: Gateway, tmp_path: Path) -> None:
        said = cli(*self.ARGUMENTS, "--", "run")
        assert json.loads(said.out) == {
            "JobName": "survey", "Executable": "run", "IndividualCPUCount": 1,
            "IndividualPhysicalMemory": "2048MiB", "TotalResourceCount": 1, "ExecutionTime": 5400,
            "Backup": "none", "LeaseType": "suspendable", "Restarts": 3,
        }  # fmt: skip
        (tmp_path / "job.json").write_text(said.out)
        assert cli("job", "describe", "job.json").out == said.out
        assert gateway.asked == []

    def test_as_xml_that_can_be_submitted(self, cli: Cli, tmp_path: Path) -> None:
        said = cli(*self.ARGUMENTS, "--xml", "--", "run")
        assert said.out.startswith('<?xml version="1.0" encoding="UTF-8"?>\n<JobDefinition ')
        (tmp_path / "job.xml").write_text(said.out)
        assert cli("job", "describe", "job.xml", "--xml").out == said.out
        assert json.loads(cli("job", "describe", "job.xml", "--json").out)["description"]["JobName"] == "survey"
