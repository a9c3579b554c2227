"""``leasehold job list, show, wait, result, plan`` and ``leasehold node``, as they look."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cli.live.job_answers import DONE, ENDED, FAILED, REFUSED, RESULT, USUAL, asked
from tests.cli.saying import Cli
from tests.client.gateway import MOMENT, Gateway, Reply, attempt, job, problem

from leasehold.cli.live.jobs import news_of, show_bytes
from leasehold.cli.live.names import JOB_STATES, complete_backup, complete_job_state
from leasehold.jobs.job import JobState


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leasehold.client.watching.SOONEST_S", 0.0)


class TestLookingAtThem:
    def test_in_a_line_each(self, cli: Cli, gateway: Gateway) -> None:
        gateway.answer("GET", "/v1/jobs", Reply(body={"jobs": [job(deadline=ENDED)], "next": None}))
        head, row = cli("job", "list").out.splitlines()
        assert head.split() == [
            "ID", "NAME", "ST", "CONSUMER", "CORES", "MEM", "NODES", "SITE", "TRIES", "SUBMITTED", "EXPECTED",
            "DEADLINE", "REASON",
        ]  # fmt: skip
        assert row.split() == [
            "7", "survey", "R", "physics", "2", "2048", "1", "das3", "1", "2026-11-21", "10:43:36",
            "2026-11-21", "10:53:36", "runs-on-nodes",
        ]  # fmt: skip
        assert gateway.asked[0].query == [("open", "true"), ("limit", "1000")]
        assert json.loads(cli("job", "list", "--json").out)["jobs"] == [job(deadline=ENDED)]

    def test_those_that_are_asked_for(self, cli: Cli, gateway: Gateway) -> None:
        gateway.answer("GET", "/v1/jobs", Reply(body={"jobs": [], "next": None}))
        cli("job", "list", "--state", "PD,failed", "--site", "das3", "--consumer", "c", "--since", "now-1d")
        assert gateway.asked[0].query == [
            ("state", "waiting"), ("state", "failed"), ("site", "das3"), ("consumer", "c"),
            ("since", "2026-11-20T10:56:10.000Z"), ("limit", "1000"),
        ]  # fmt: skip
        cli("job", "list", "--all")
        assert gateway.asked[1].query == [("limit", "1000")]
        assert "--state: got 'x', expected one of" in cli("job", "list", "--state", "x").err

    def test_in_full_with_every_attempt_and_its_reason_in_words(self, cli: Cli, gateway: Gateway) -> None:
        attempts = [
            attempt(
                1,
                state="failed",
                fault="node-died",
                explanation="the node failed",
                detail="no heartbeat for 60 s",
                ended_at=ENDED,
            ),
            attempt(
                2,
                state="fenced",
                fault="network-failed",
                explanation="the node is unreachable",
                nodes=["das3/n2"],
                lease=43,
                ended_at=ENDED,
            ),
            attempt(3, virtual=True, image="debian+numpy", nodes=["lyon/n1"], site="lyon", lease=44),
            attempt(4, backup=True, state="ordered", lease=None, nodes=["lyon/n2"], site="lyon"),
        ]
        needs = job()["needs"] | {
            "inputs": [{"name": "sky.fits", "size_bytes": 734_003_200, "place": "lyon", "sha256": None}],
            "disk_mib": 9, "cpu_mhz": 2400, "gpus": "a100:1", "nodes": 2,
        }  # fmt: skip
        told = job(
            attempts=attempts, needs=needs, reliability=0.999, surest=0.99951, backup="cold", deadline=ENDED,
            restarts_used=2, group="astro",
        )  # fmt: skip
        gateway.answer("GET", "/v1/jobs/7", Reply(body=told))
        unreachable = "the node is unreachable"
        ended, begun = "2026-11-21 10:53:36", "2026-11-21 10:43:36"
        assert cli("job", "show", "7").out.splitlines() == [
            "job 7 is running at lyon: it gets nodes that have what it needs (runs-on-nodes)",
            "  name         survey",
            "  command      python3 run.py",
            "  consumer     physics, group astro",
            "  needs        2 cores, 2048 MiB of memory, 9 MiB of disk, 2400 MHz, GPUs a100:1, on 2 nodes, for 10:00",
            "  software     python3-numpy >= 1.24",
            "  input        sky.fits, 700 MiB at lyon",
            "  type         suspendable",
            "  backup       cold",
            "  reliability  0.999 required; planned 0.99951",
            "  restarts     2 of at most 3",
            f"  submitted    {begun} (12:33 ago)",
            f"  deadline     {ended} (2:34 ago)",
            f"  attempt 1    on das3/n1, lease 42: failed at {ended}: the node failed (no heartbeat for 60 s)",
            f"  attempt 2    on das3/n2, lease 43: no longer counts at {ended}: {unreachable}",
            f"  attempt 3    in machines on lyon/n1 from debian+numpy, lease 44: runs since {begun}",
            "  attempt 4    on lyon/n2, a backup: kept ready",
        ]
        assert json.loads(cli("job", "show", "7", "--json").out)["job"] == told

    def test_one_that_waits_says_until_when(self, cli: Cli, gateway: Gateway) -> None:
        waits = job(
            state="waiting", reason="tried-again-later", attempts=[], next_try_at=ENDED,
            explanation="found no room and will be retried: the nearest node has them in use",
        )  # fmt: skip
        gateway.answer("GET", "/v1/jobs/7", Reply(body=waits))
        first, *rest = cli("job", "show", "7").out.splitlines()
        assert first.endswith("(tried-again-later); next try by 2026-11-21 10:53:36")
        assert any(line.startswith("  next try") for line in rest)

    def test_one_that_is_not_there(self, cli: Cli, gateway: Gateway) -> None:
        gateway.answer("GET", "/v1/jobs/7", problem(404, "no-such-job", "no job with ID 7"))
        said = cli("job", "show", "7")
        assert (said.code, said.err) == (2, "leasehold: no job with ID 7\n")

    def test_taking_one_back(self, cli: Cli, gateway: Gateway) -> None:
        over = job(
            state="cancelled",
            reason="cancelled-by-user",
            explanation="was cancelled by its user",
            ended_at=ENDED,
        )
        gateway.answer("DELETE", "/v1/jobs/7", Reply(body=over))
        assert cli("job", "cancel", "7").out == (
            "job 7 is cancelled: it was cancelled by its user (cancelled-by-user)\n"
        )
        assert json.loads(cli("job", "cancel", "7", "--json").out)["job"] == over


class TestItsEnd:
    def test_waiting_tells_how_it_stands_until_it_is_over(self, cli: Cli, gateway: Gateway) -> None:
        gateway.answer("GET", "/v1/jobs/7", Reply(body=job()), Reply(body=job()), Reply(body=DONE))
        said = cli("job", "wait", "7")
        assert (said.code, said.out.splitlines()) == (
            0,
            [
                "job 7 is running at das3: it gets nodes that have what it needs (runs-on-nodes)",
                "job 7 is completed at das3: it ran to its end (completed)",
            ],
        )

    @pytest.mark.parametrize("over", [FAILED, REFUSED, job(state="cancelled", ended_at=ENDED)])
    def test_waiting_for_one_that_goes_wrong_exits_as_its_command_or_is_a_no(
        self, cli: Cli, gateway: Gateway, over: dict[str, Any]
    ) -> None:
        gateway.answer("GET", "/v1/jobs/7", Reply(body=over))
        said = cli("job", "wait", "7", "--json")
        assert said.code == (over["exit_status"] or 1)
        assert json.loads(said.out)["job"]["state"] == over["state"]

    def test_the_result_is_what_it_wrote(self, cli: Cli, gateway: Gateway) -> None:
        gateway.answer("GET", "/v1/jobs/7/result", Reply(body=RESULT))
        said = cli("job", "result", "7")
        assert (said.code, said.out, said.err) == (0, "forty-two\n", "")
        assert json.loads(cli("job", "result", "7", "--json").out)["result"] == RESULT

    def test_an_output_that_is_not_kept_any_more_is_not_taken_for_an_empty_one(
        self, cli: Cli, gateway: Gateway
    ) -> None:
        told = RESULT | {"output": "", "is_whole": False, "is_kept": False}
        gateway.answer("GET", "/v1/jobs/7/result", Reply(body=told))
        said = cli("job", "result", "7")
        assert (said.code, said.out) == (0, "")
        assert said.err.splitlines() == ["leasehold: its output is no longer kept: it was too old or too large"]

    def test_the_result_of_one_that_failed_exits_as_its_command(self, cli: Cli, gateway: Gateway) -> None:
        told = RESULT | {"exit_status": 3, "output": "", "is_whole": False}
        gateway.answer("GET", "/v1/jobs/7/result", Reply(body=told))
        said = cli("job", "result", "7")
        assert (said.code, said.out) == (3, "")
        assert said.err.splitlines() == [
            "leasehold: this is only part of its output; the rest was not kept",
            "leasehold: job 7 ended with exit status 3",
        ]

    def test_no_result_is_a_no(self, cli: Cli, gateway: Gateway) -> None:
        gateway.answer("GET", "/v1/jobs/7/result", problem(404, "no-result", "job 7 is running, and has no result"))
        said = cli("job", "result", "7")
        assert (said.code, said.err) == (1, "leasehold: job 7 is running, and has no result\n")


def log(output: str, error: str = "", attempt: int = 1, **told: bool) -> Reply:
    told = {"is_whole": True, "is_over": False} | told
    return Reply(body={"job": 7, "attempt": attempt, "output": output, "error": error, **told})


class TestLogs:
    @pytest.fixture(autouse=True)
    def at_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("leasehold.cli.live.jobs._SOONEST_S", 0.0)
        monkeypatch.setattr("leasehold.cli.live.jobs._LATEST_S", 0.0)

    def test_what_it_has_written_so_far(self, cli: Cli, gateway: Gateway) -> None:
        gateway.answer("GET", "/v1/jobs/7/output", log("one\nt", "careful\n"))
        said = cli("job", "logs", "7")
        assert (said.code, said.out, said.err) == (0, "one\nt", "careful\n")

    def test_nothing_yet(self, cli: Cli, gateway: Gateway) -> None:
        gateway.answer("GET", "/v1/jobs/7/output", log("", attempt=0))
        assert cli("job", "logs", "7").err == "leasehold: job 7 has not begun yet\n"

    def test_followed_everything_comes_once(self, cli: Cli, gateway: Gateway) -> None:
        gateway.answer("GET", "/v1/jobs/7", Reply(body=job()))
        looks = [log(""), log("one\nt"), log("one\ntwo\n", "a"), log("one\ntwo\n", "ab\n", is_over=True)]
        gateway.answer("GET", "/v1/jobs/7/output", *looks)
        said = cli("job", "logs", "--follow", "7")
        assert (said.code, said.out, said.err) == (0, "one\ntwo\n", "ab\n")

    def test_another_attempt_begins_again(self, cli: Cli, gateway: Gateway) -> None:
        gateway.answer("GET", "/v1/jobs/7", Reply(body=job()))
        looks = [log("one\n"), log("one\ntwo\n", attempt=2, is_over=True)]
        gateway.answer("GET", "/v1/jobs/7/output", *looks)
        said = cli("job", "logs", "-f", "7")
        assert (said.out, said.err) == ("one\none\ntwo\n", "leasehold: attempt 2 of job 7 begins\n")


@given(st.data())
def test_of_a_text_that_grows_and_loses_its_beginning_each_piece_is_news_once(data: st.DataObject) -> None:
    """Each window on it overlaps with the one before, as where more is kept than is written between two looks."""
    begin, end, printed, before = 0, 0, "", ""
    for _ in range(data.draw(st.integers(1, 6))):
        begin = data.draw(st.integers(begin, max(begin, end - 1)))
        end = data.draw(st.integers(max(begin, end), end + 60))
        now = "".join(f"{number:04} lines\n" for number in range(begin, end))
        printed += news_of(before, now)
        before = now
    assert printed == "".join(f"{number:04} lines\n" for number in range(end))


LACKS = {
    "answer": "never", "reason": "software-not-there", "what": "python3-numpy",
    "explanation": "lacks the required software",
}  # fmt: skip
USED = {
    "answer": "wait", "reason": "cores-in-use", "what": "",
    "explanation": "has enough cores, but they are in use",
}  # fmt: skip
FITS = {"answer": "fit", "reason": "fits", "what": "", "explanation": "has all that is needed"}
PLACE: dict[str, Any] = {
    "site": "lyon", "nodes": ["lyon/n1"], "image": "", "virtual": True, "builds": ["python3-numpy 1.26"],
    "reason": "no-physical-node", "explanation": "gets a virtual machine",
}  # fmt: skip
LEASE: dict[str, Any] = {
    "verdict": "with-consequences", "consequences": ["waits"], "state": "waiting", "site": "lyon", "starts_at": None,
    "ends_at": None, "walltime_s": None, "reason": "room-in-use", "explanation": "waits, as all room is in use",
    "preempted_leases": 0, "preempted_vms": 0, "delayed_leases": 0,
}  # fmt: skip
OUTCOME: dict[str, Any] = {
    "verdict": "as-asked", "consequences": [], "state": "running", "reason": "runs-on-nodes", "explanation": "runs",
    "what": "", "surest": None, "lease": None,
}  # fmt: skip
SAME: dict[str, Any] = {
    "nodes": None, "cores": None, "memory_mib": None, "execution_s": None, "type": None, "software": [],
    "outcome": OUTCOME,
}  # fmt: skip
TOLD: dict[str, Any] = {
    "verdict": "with-consequences", "consequences": ["builds"], "lease": None, "alternatives": [], "untried": 0,
    "elsewhere": None,
    "state": "building", "reason": "image-is-built", "what": "", "surest": 0.99951,
    "explanation": "waits until an image with its software is built", "places": [PLACE],
    "groups": [
        {"site": "lyon", "nodes": ["lyon/n1"], "count": 1, "problem": "", "as_node": None, "as_host": FITS},
        {"site": "das3", "nodes": ["das3/n1", "das3/n10"], "count": 391, "problem": "",
         "as_node": LACKS, "as_host": USED},
        {"site": "das3", "nodes": ["das3/n2"], "count": 1, "problem": "it is drained",
         "as_node": None, "as_host": None},
        {"site": "das3", "nodes": ["das3/n3"], "count": 1, "problem": "it is drained",
         "as_node": FITS, "as_host": USED},
    ],
}  # fmt: skip


class TestPlanning:
    ARGUMENTS = ("job", "plan", "--execution", "60", "--", "run")

    def test_where_it_could_run_and_what_nodes_say_those_that_say_the_same_together(
        self, cli: Cli, gateway: Gateway
    ) -> None:
        gateway.answer("POST", "/v1/jobs/plan", Reply(body=TOLD))
        said = cli(*self.ARGUMENTS)
        lines = said.out.splitlines()
        assert said.code == 1
        assert lines[:3] == [
            "it would be building: it waits until an image with its software is built (image-is-built)",
            "  in machines on lyon/n1, once an image with python3-numpy 1.26 is built",
            "  done by its deadline with a probability of 0.99951",
        ]
        heads, *nodes = lines[3:]
        assert heads.startswith("NODES ")
        assert [re.split("  +", node.strip()) for node in nodes] == [
            ["1", "-", "yes", "lyon/n1"],
            [
                "391",
                "never, it lacks the required software (python3-numpy)",
                "not now, it has enough cores, but they are in use",
                "das3/n1",
            ],
            ["1", "down: it is drained", "-", "das3/n2"],
            [
                "1",
                "down: it is drained; else yes",
                "else not now, it has enough cores, but they are in use",
                "das3/n3",
            ],
        ]
        assert asked(gateway) == USUAL
        assert json.loads(cli(*self.ARGUMENTS[:2], "--json", *self.ARGUMENTS[2:]).out)["plan"] == TOLD

    @pytest.mark.parametrize(
        ("place", "line"),
        [
            ({"virtual": False}, "  on lyon/n1"),
            ({"builds": [], "image": "debian"}, "  in machines on lyon/n1, from the image debian"),
        ],
    )
    def test_each_kind_of_place(self, cli: Cli, gateway: Gateway, place: dict[str, Any], line: str) -> None:
        told = TOLD | {"places": [PLACE | place]}
        gateway.answer("POST", "/v1/jobs/plan", Reply(body=told))
        assert cli(*self.ARGUMENTS).out.splitlines()[1] == line

    @pytest.mark.parametrize(("verdict", "code"), [("as-asked", 0), ("with-consequences", 1), ("refused", 3)])
    def test_whether_it_would_start_as_asked_with_consequences_or_be_refused(
        self, cli: Cli, gateway: Gateway, verdict: str, code: int
    ) -> None:
        gateway.answer("POST", "/v1/jobs/plan", Reply(body=TOLD | {"places": [], "verdict": verdict}))
        assert cli(*self.ARGUMENTS).code == code

    def test_what_its_lease_would_cost_and_what_would_go_better(self, cli: Cli, gateway: Gateway) -> None:
        others = [
            SAME | {"change": "nodes", "nodes": 2},
            SAME | {"change": "memory", "memory_mib": 4096},
            SAME | {"change": "software", "software": ["gcc", "python3 >= 3.11"]},
            SAME | {"change": "execution", "execution_s": 1800},
            SAME | {"change": "type", "type": "cancelable", "outcome": OUTCOME | {"lease": LEASE}},
            SAME | {"change": "deadline"},
        ]
        told = TOLD | {"places": [], "groups": [], "surest": None, "lease": LEASE, "alternatives": others, "untried": 1}
        told |= {"state": "running", "reason": "runs-on-nodes", "explanation": "gets nodes that fit"}
        gateway.answer("POST", "/v1/jobs/plan", Reply(body=told))
        assert cli(*self.ARGUMENTS).out.splitlines()[:-1] == [
            "it would be waiting for its machines: it gets nodes that fit (runs-on-nodes)",
            "  its lease would wait at lyon",
            "  better, each tried:",
            "    with --nodes 2: it would be running (runs-on-nodes)",
            "    with --memory 4096MiB: it would be running (runs-on-nodes)",
            "    with --software gcc --software 'python3 >= 3.11': it would be running (runs-on-nodes)",
            "    with --execution 30:00: it would be running (runs-on-nodes)",
            "    with --type cancelable: it would be waiting for its machines (runs-on-nodes); "  # noqa: ISC004 - one line
            "its lease would wait at lyon",
            "    without --deadline: it would be running (runs-on-nodes)",
            "  1 other alternative not tried",
        ]


NODE = {
    "name": "das3/n1", "site": "das3", "cores": 8, "free_cores": 6, "memory_mib": 16_384,
    "free_memory_mib": 12_288, "disk_mib": 9, "free_disk_mib": 8, "cpu_mhz": 2400, "bytes_per_s": 0,
    "gpus": 0, "gpu_shares": 1, "free_gpus": [], "gpu_model": "",
    "software": [], "packages": 312, "is_host": True, "runs": True, "takes_files": True,
    "problem": "", "fault": "",
    "failures": 1, "failed_at": MOMENT, "first_seen_at": MOMENT, "seen_at": "2026-11-21T10:56:00.000Z",
}  # fmt: skip


class TestNodesAndImages:
    def test_nodes_in_a_line_each(self, cli: Cli, gateway: Gateway) -> None:
        lost = NODE | {"name": "das3/n2", "problem": "it is drained", "cpu_mhz": 0, "is_host": False}
        idle = NODE | {"name": "das3/n3", "runs": False, "is_host": False}
        gateway.answer("GET", "/v1/nodes", Reply(body={"nodes": [NODE, lost, idle], "next": None}))
        head, *rows = cli("node", "list", "--site", "das3", "--software", "gcc >= 12").out.splitlines()
        assert head.split() == [
            "NODE", "STATE", "CORES", "MEM", "DISK", "MHZ", "SOFTWARE", "RUNS", "FAILED", "SEEN", "PROBLEM"
        ]  # fmt: skip
        assert rows[0].split() == [
            "das3/n1", "up", "6/8", "12288/16384", "8/9", "2400", "312", "jobs+machines", "1", "0:10", "ago"
        ]  # fmt: skip
        assert rows[1].split()[1:2] + rows[1].split()[5:6] == ["down", "-"]
        assert rows[1].endswith("it is drained")
        assert " nothing " in rows[2]
        assert gateway.asked[0].query == [
            ("site", "das3"), ("software", "gcc >= 12"), ("brief", "true"), ("limit", "1000")
        ]  # fmt: skip
        assert json.loads(cli("node", "list", "--json").out)["nodes"] == [NODE, lost, idle]
        assert gateway.asked[1].query == [("limit", "1000")]

    def test_gpus_are_listed_where_a_node_has_some(self, cli: Cli, gateway: Gateway) -> None:
        lends = NODE | {"name": "das3/n2", "gpus": 4, "free_gpus": [1, 0.5, 0, 0], "gpu_model": "a100"}
        gateway.answer("GET", "/v1/nodes", Reply(body={"nodes": [NODE, lends], "next": None}))
        head, none, some = cli("node", "list").out.splitlines()
        assert head.split()[5] == "GPUS"
        assert (none.split()[5], some.split()[5:7]) == ("-", ["1+0.5/4", "a100"])

    def test_images_in_a_line_each(self, cli: Cli, gateway: Gateway) -> None:
        image = {
            "name": "debian", "site": "lyon", "state": "there", "software": ["python3 3.13"], "packages": [],
            "size_bytes": 104_857_600, "least_memory_mib": 256, "problem": "", "since": MOMENT,
            "seen_at": MOMENT,
        }  # fmt: skip
        failed = image | {
            "name": "debian+x", "site": "", "state": "failed", "software": [], "packages": ["x 1", "y 2"],
            "size_bytes": 0, "least_memory_mib": 0, "problem": "no network",
        }  # fmt: skip
        gateway.answer("GET", "/v1/images", Reply(body={"images": [image, failed]}))
        _, first, second = cli("node", "images").out.splitlines()
        assert first.split() == [
            "debian", "lyon", "there", "100", "MiB", "256", "1", "2026-11-21", "10:43:36"
        ]  # fmt: skip
        assert second.split()[:7] == ["debian+x", "-", "failed", "-", "-", "2", "2026-11-21"]
        assert second.endswith("no network")
        assert json.loads(cli("node", "images", "--json").out)["images"] == [image, failed]


def test_names_complete() -> None:
    assert complete_job_state("re") == ["refused"]
    assert complete_backup("") == ["none", "cold", "hot"]


def test_there_are_words_for_every_state() -> None:
    assert set(JOB_STATES.known) == set(JobState)


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1 KiB"), (734_003_200, "700 MiB"), (2**50, "1024 TiB")],
)
def test_amounts_of_bytes(count: int, text: str) -> None:
    assert show_bytes(count) == text
