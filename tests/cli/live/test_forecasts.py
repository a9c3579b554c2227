"""``leasehold estimate``, ``whatif`` and ``snapshot``: what they ask, print and refuse."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.cli.saying import Cli
from tests.client.gateway import Gateway, Reply, attempt, job, lease, problem
from tests.forecasting.worlds import AGREED, Story, recorded, terms

from leasehold.forecasting.file import Recording, read, snapshot_bytes, write
from leasehold.gateway.sites import RemoteTold
from leasehold.model.lease import Lease, LeaseState
from leasehold.model.request import LeaseType, Request
from leasehold.simulation.workload.job import WorkloadJob

START = {
    "what": "start", "earliest_at": "2026-11-21T11:00:00.000Z", "expected_at": "2026-11-21T11:06:10.000Z",
    "latest_at": "2026-11-21T11:56:10.000Z", "sites": [{"site": "das3", "share": 0.9}, {"site": "lyon", "share": 0.1}],
    "moved_by": ["run times of the leases that hold machines at das3"],
}  # fmt: skip
UNKNOWN: dict[str, Any] = {
    "what": "end", "earliest_at": None, "expected_at": None, "latest_at": None, "sites": [], "moved_by": [],
}  # fmt: skip
ESTIMATE = {
    "lease": 42, "made_at": "2026-11-21T10:56:02.000Z", "age_s": 8, "preempted_share": 0.13,
    "estimates": [START, UNKNOWN],
}  # fmt: skip
JOB = {name: value for name, value in ESTIMATE.items() if name != "lease"} | {"job": 7, "estimates": [START]}
SCORE = {
    "what": "start", "whom": "", "site": "", "is_sure": False, "scored": 200, "covered": 181, "covered_share": 0.905,
    "covered_from": 0.856, "covered_to": 0.938, "below": 9, "above": 10, "width": 1.1, "off": 0.2,
}  # fmt: skip
FIGURE = {
    "site": "das3", "name": "guest_wait_s", "as_is": 60.0, "changed": 150.0, "difference": 90.0,
    "difference_from": 30.0, "difference_to": 150.0, "is_clear": True,
}  # fmt: skip
WHAT_IF = {
    "taken_at": "2026-11-21T10:56:00.000Z", "horizon_s": 7200, "replications": 20, "is_shortened": False,
    "figures": [FIGURE],
}  # fmt: skip


class TestEstimates:
    def test_all_open_leases_in_a_line_for_each_thing(self, cli: Cli, gateway: Gateway) -> None:
        gateway.answer("GET", "/v1/estimates", Reply(body={"leases": [ESTIMATE], "jobs": [JOB]}))
        lines = cli("estimate", "list").out.splitlines()
        assert lines[0].split() == ["of", "expected", "earliest", "latest", "preempted"]
        assert lines[1].split() == ["lease", "42", "starts", "10:00", "3:50", "1:00:00", "13%"]
        assert lines[2].split() == ["lease", "42", "ends", "unknown", "13%"]
        assert lines[3].split() == ["job", "7", "starts", "10:00", "3:50", "1:00:00", "13%"]
        assert lines[-1] == "90 % intervals, worked out 0:08 ago."

    def test_one_lease_with_what_may_move_it(self, cli: Cli, gateway: Gateway) -> None:
        gateway.answer("GET", "/v1/estimates/42", Reply(body=ESTIMATE))
        assert cli("estimate", "show", "42").out.splitlines() == [
            "starts at das3 in about 10:00, with 90 % between 3:50 and 1:00:00",
            "  may be moved by run times of the leases that hold machines at das3",
            "ends: cannot be said",
            "preempted before its end in 13% of futures",
            "worked out 0:08 ago",
        ]

    def test_json_is_what_the_gateway_says(self, cli: Cli, gateway: Gateway) -> None:
        gateway.answer("GET", "/v1/estimates/42", Reply(body=ESTIMATE))
        gateway.answer("GET", "/v1/estimates", Reply(body={"leases": [ESTIMATE], "jobs": [JOB]}))
        assert json.loads(cli("estimate", "show", "42", "--json").out)["estimate"] == ESTIMATE
        listed = json.loads(cli("estimate", "list", "--json").out)
        assert (listed["estimates"], listed["jobs"]) == ([ESTIMATE], [JOB])

    def test_a_lease_of_which_nothing_is_known_is_not_found(self, cli: Cli, gateway: Gateway) -> None:
        gateway.answer("GET", "/v1/estimates/42", problem(404, "no-such-lease", "there is no lease 42"))
        said = cli("estimate", "show", "42")
        assert (said.code, said.out) == (2, "")
        assert "there is no lease 42" in said.err
        assert said.err.count("\n") == 1

    @pytest.mark.parametrize("number", ["-1", "soon"])
    def test_a_number_is_one(self, cli: Cli, number: str) -> None:
        said = cli("estimate", "show", "--", number)
        assert said.code == 2
        assert number in said.err

    def test_a_job_by_the_leases_of_its_open_attempts(self, cli: Cli, gateway: Gateway) -> None:
        over = attempt(1, lease=41, ended_at="2026-11-21T10:44:00.000Z", state="failed")
        going = [attempt(2, lease=42, state="queued"), attempt(3, lease=43, state="queued")]
        gateway.answer("GET", "/v1/jobs/7", Reply(body=job(attempts=[over, *going])))
        gateway.answer("GET", "/v1/estimates/42", Reply(body=ESTIMATE))
        gateway.answer("GET", "/v1/estimates/43", problem(404, "no-such-lease", "there is no lease 43"))
        lines = cli("estimate", "job", "7").out.splitlines()
        assert lines[:2] == ["lease 42", "starts at das3 in about 10:00, with 90 % between 3:50 and 1:00:00"]

    def test_a_job_that_waits_for_nodes(self, cli: Cli, gateway: Gateway) -> None:
        gateway.answer("GET", "/v1/jobs/7", Reply(body=job(state="waiting", attempts=[])))
        gateway.answer(
            "GET", "/v1/jobs/7/estimate", Reply(body=JOB), Reply(body=JOB), problem(404, "no-such-job", "no")
        )
        assert cli("estimate", "job", "7").out.splitlines()[:2] == [
            "starts at das3 in about 10:00, with 90 % between 3:50 and 1:00:00",
            "  may be moved by run times of the leases that hold machines at das3",
        ]
        assert json.loads(cli("estimate", "job", "7", "--json").out)["waiting"] == JOB
        said = cli("estimate", "job", "7")
        unknown = "Nothing can be said of job 7: it has ended, has no node to wait for, or was not looked at yet.\n"
        assert (said.code, said.out) == (0, unknown)

    def test_how_earlier_predictions_did(self, cli: Cli, gateway: Gateway) -> None:
        found: dict[str, Any] = {"coverage": 0.9, "scores": [SCORE], "predictions": []}
        gateway.answer("GET", "/v1/calibration", Reply(body=found), Reply(body={**found, "scores": []}))
        row = cli("estimate", "calibration").out.splitlines()[1].split()
        assert row == ["starts", "all", "any", "differ", "200", "90.5%", "86%", "..", "94%", "9", "10", "3.0"]
        assert cli("estimate", "calibration").out == "Nothing that was predicted has happened yet.\n"

    def test_lists_of_leases_have_a_column_of_them(self, cli: Cli, gateway: Gateway) -> None:
        expected = {name: START[name] for name in ("earliest_at", "expected_at", "latest_at")}
        waiting = lease(1, state="waiting", expected={**expected, "made_at": ESTIMATE["made_at"]})
        gateway.answer("GET", "/v1/leases", Reply(body={"leases": [waiting, lease(2)], "next": None}))
        lines = cli("lease", "list", "--format", "id,expected").out.splitlines()
        assert [line.split() for line in lines] == [
            ["ID", "EXPECTED"],
            ["1", "10:00", "(3:50", "to", "1:00:00)"],
            ["2"],
        ]


class TestPlans:
    def test_futures_are_asked_for_unless_none_are_wanted(self, cli: Cli, gateway: Gateway) -> None:
        gateway.answer("POST", "/v1/leases/plan", problem(403, "forbidden", "not allowed"))
        for options, within in (((), "2"), (("--within", "9"), "9"), (("--within", "0"), "0")):
            cli("lease", "plan", "--type", "suspendable", "--vms", "1", "--duration", "60", *options)
            assert dict(gateway.asked[-1].query).get("within_s", "0") == within

    def test_no_longer_than_half_a_minute(self, cli: Cli, gateway: Gateway) -> None:
        said = cli("lease", "plan", "--type", "suspendable", "--vms", "1", "--duration", "60", "--within", "31")
        assert said.code == 2
        assert "--within" in said.err
        assert gateway.asked == []


class TestWhatIf:
    def test_both_futures_beside_each_other(self, cli: Cli, gateway: Gateway) -> None:
        gateway.answer("POST", "/v1/whatif", Reply(body=WHAT_IF))
        said = cli("whatif", "drain", "das3", "--horizon", "2h")
        assert said.out.splitlines()[1].split() == [
            "das3",
            "guests",
            "wait",
            "1:00",
            "2:30",
            "1:30",
            "0:30",
            "..",
            "2:30",
        ]
        assert "Means over 20 pairs of futures of 2:00:00 from" in said.out
        assert gateway.asked[0].body == {
            "changes": [{"drain": "das3"}], "horizon_s": 7200, "replications": 20, "seed": 0,
        }  # fmt: skip

    @pytest.mark.parametrize(
        ("arguments", "change"),
        [
            (("add-site", "new", "--slots", "64"), {"add_site": "new", "slots": 64}),
            (("site", "das3", "--slots", "48", "--victims", "moml"), {"site": "das3", "slots": 48, "victims": "moml"}),
            (("policy", "selective"), {"policy": "selective"}),
            (("load", "x1.2"), {"load": 1.2}),
            (("load", "0.5"), {"load": 0.5}),
            (("lend", "das3", "0.3"), {"lend": "das3", "share": 0.3}),
        ],
    )
    def test_each_change_is_asked_as_one(
        self, cli: Cli, gateway: Gateway, arguments: tuple[str, ...], change: dict[str, Any]
    ) -> None:
        gateway.answer("POST", "/v1/whatif", Reply(body=WHAT_IF))
        assert json.loads(cli("whatif", *arguments, "--json").out)["what_if"] == WHAT_IF
        assert gateway.asked[0].body["changes"] == [change]

    @pytest.mark.parametrize(
        ("arguments", "named"),
        [
            (("load", "much"), "FACTOR: got 'much', expected a number"),
            (("lend", "das3", "half"), "SHARE: got 'half', expected a number"),
            (("drain", "das3", "--horizon", "soon"), "--horizon: got 'soon'"),
            (("drain", "das3", "--replications", "1"), "--replications"),
            (("add-site", "new", "--slots", "0"), "--slots"),
            (("add-site", "new"), "--slots and --file: missing, expected one of them"),
            (("add-site", "new", "--slots", "4", "--file", "x.toml"), "--slots and --file: got '4 and x.toml'"),
            (("add-site", "--slots", "4"), "NAME: missing, expected a name beside --slots"),
            (("add-site", "--file", "missing.toml"), "missing.toml"),
            (("agreement", "missing.toml"), "missing.toml"),
            (("drain", "das3", "--on", "missing.json"), "missing.json"),
        ],
    )
    def test_what_makes_no_sense_is_named_and_nothing_is_asked(
        self, cli: Cli, gateway: Gateway, arguments: tuple[str, ...], named: str
    ) -> None:
        said = cli("whatif", *arguments)
        assert (said.code, said.out) == (2, "")
        assert named in said.err
        assert gateway.asked == []

    def test_a_site_is_added_as_its_file_says(self, cli: Cli, gateway: Gateway, tmp_path: Path, snapshot: Path) -> None:
        gateway.answer("POST", "/v1/whatif", Reply(body=WHAT_IF))
        file = tmp_path / "lyon.toml"
        agreed = '[[agreement]]\nname = "a"\nprovider = "lyon"\nconsumer = "*"\nkind = "no-limit"\nlending_limit = 4\n'
        file.write_text(f'[[cluster]]\nname = "lyon"\nslots = 16\nlocal_policy = "easy"\n{agreed}', encoding="utf-8")
        assert cli("whatif", "add-site", "--file", str(file)).code == 0
        [change] = gateway.asked[0].body["changes"]
        assert {key: change["add_site"][key] for key in ("name", "slots", "local_policy")} == {
            "name": "lyon", "slots": 16, "local_policy": "easy",
        }  # fmt: skip
        assert [one["lending_limit"] for one in change["agreement"]] == [4]
        asked = ("--on", str(snapshot), "--horizon", "10m", "--replications", "2", "--json")
        found = json.loads(cli("whatif", "add-site", "--file", str(file), *asked).out)["what_if"]
        assert {one["site"] for one in found["figures"]} == {"", "alpha", "beta", "gamma", "lyon"}
        assert len(gateway.asked) == 1

    def test_from_a_snapshot_without_a_gateway(self, cli: Cli, gateway: Gateway, snapshot: Path) -> None:
        asked = ("--on", str(snapshot), "--horizon", "10m", "--replications", "2")
        found = json.loads(cli("whatif", "drain", "alpha", *asked, "--json").out)["what_if"]
        assert found["replications"] == 2
        assert {one["site"] for one in found["figures"]} == {"", "alpha", "beta", "gamma"}
        assert (
            cli("whatif", "drain", "alpha", *asked, "--json").out
            == cli("whatif", "drain", "alpha", *asked, "--json").out
        )
        said = cli("whatif", "drain", "das9", *asked)
        assert said.code == 2
        assert "das9" in said.err
        assert gateway.asked == []


@pytest.fixture
def recording() -> Recording:
    guests = [
        WorkloadJob(1000 * at, 3, 9000, 9000, "ada", lease_type=LeaseType.SUSPENDABLE, group="physics")
        for at in range(6)
    ]
    own = [WorkloadJob(7000 + 1000 * at, 4, 5000, 5000, "own", site="alpha") for at in range(3)]
    return recorded(Story(terms("rr", "conservative", AGREED), (*guests, *own), 4))


@pytest.fixture
def snapshot(tmp_path: Path, recording: Recording) -> Path:
    write(tmp_path / "now.json.gz", recording)
    return tmp_path / "now.json.gz"


class TestSnapshots:
    def test_what_is_in_one(self, cli: Cli, snapshot: Path, recording: Recording) -> None:
        out = cli("snapshot", "inspect", str(snapshot)).out
        assert "guests routed by rr" in out
        assert f"{len(recording.snapshot.leases)} open leases" in out
        assert f"{len(recording.instants)} instants recorded after it" in out
        shown = json.loads(cli("snapshot", "inspect", str(snapshot), "--json").out)
        assert shown["instants"] == len(recording.instants)
        assert [one["id"] for one in shown["snapshot"]["leases"]] == [one.id for one in recording.snapshot.leases]

    def test_what_is_not_known_of_sites_elsewhere(self, cli: Cli, tmp_path: Path, recording: Recording) -> None:
        far = RemoteTold("far", 8, 1, promises=True, free_vms=2, running_guest_vms=1, units={"cpus": 8})
        peer = RemoteTold("peer", 5, 1, is_peer=True, silent=True, gateway_id="p")
        there = Lease(77, Request(77, LeaseType.SUSPENDABLE, 3, 9000, 0, 0), 3, 77, 9000, "far", LeaseState.RUNNING)
        there.first_start_ms = recording.snapshot.taken_ms
        snapshot = replace(recording.snapshot, remotes=(far, peer), leases=(*recording.snapshot.leases, there))
        write(tmp_path / "far.json", Recording(snapshot))
        lines = [line.split() for line in cli("snapshot", "inspect", str(tmp_path / "far.json")).out.splitlines()]
        assert ["far", "8", "unknown", "3", "0", "lends"] in lines
        assert ["peer", "5", "unknown", "0", "0", "silent"] in lines
        said = [" ".join(line) for line in lines]
        who = "5 VMs held by its own users are taken to stay so"
        assert f"far has a manager of its own: only this gateway's leases there are known; {who}" in said
        assert any(line.startswith("peer is a peer: of what is there, its widest site") for line in said)

    def test_what_followed_is_decided_again_alike(self, cli: Cli, snapshot: Path, recording: Recording) -> None:
        effects = sum(len(instant.effects) for instant in recording.instants)
        said = cli("snapshot", "replay", str(snapshot))
        assert said.out == f"{effects} effects of {len(recording.instants)} instants: all as recorded\n"
        assert said.code == 0

    def test_what_was_changed_is_found(self, cli: Cli, tmp_path: Path, recording: Recording) -> None:
        index = next(number for number, one in enumerate(recording.instants) if one.effects)
        instants = list(recording.instants)
        first, *rest = instants[index].effects
        instants[index] = type(instants[index])(
            instants[index].at_ms, instants[index].events, ({**first, "rule": "chance"}, *rest)
        )
        write(tmp_path / "lied.json", Recording(recording.snapshot, tuple(instants)))
        said = cli("snapshot", "replay", str(tmp_path / "lied.json"))
        assert said.code == 1
        assert said.out.startswith(f"instant {index}, after ")
        assert '"rule": "chance"' in said.out

    def test_names_are_hidden_and_decisions_stay(self, cli: Cli, tmp_path: Path, snapshot: Path) -> None:
        other = tmp_path / "other.json"
        assert cli("snapshot", "anonymise", str(snapshot), str(other)).code == 0
        text = other.read_text(encoding="utf-8")
        assert not [name for name in ("alpha", "physics", "ada") if f'"{name}"' in text]
        assert cli("snapshot", "replay", str(other)).code == 0

    def test_one_is_taken_from_the_gateway_with_what_follows(
        self, cli: Cli, gateway: Gateway, tmp_path: Path, recording: Recording
    ) -> None:
        write(tmp_path / "served.json", recording)
        content = (tmp_path / "served.json").read_text(encoding="utf-8")
        gateway.answer("GET", "/v1/snapshot", Reply(body=content, kind="application/octet-stream"))
        out = tmp_path / "taken.json"
        said = cli("snapshot", "take", str(out), "--record", "90s")
        assert dict(gateway.asked[0].query) == {"record_s": "90"}
        assert snapshot_bytes(read(out).snapshot) == snapshot_bytes(recording.snapshot)
        assert said.out.startswith(f"{out}: {len(recording.snapshot.leases)} open leases, ")

    @pytest.mark.parametrize("record", ["soon", "-5s", "6m"])
    def test_how_long_to_record_is_checked(self, cli: Cli, gateway: Gateway, tmp_path: Path, record: str) -> None:
        said = cli("snapshot", "take", str(tmp_path / "x.json"), "--record", record)
        assert (said.code, said.out) == (2, "")
        assert said.err.count("\n") == 1
        assert not (tmp_path / "x.json").exists()
        assert gateway.asked == []

    @pytest.mark.parametrize("command", [("inspect",), ("replay",), ("anonymise", "out.json")])
    def test_a_file_that_is_none_is_named(self, cli: Cli, tmp_path: Path, command: tuple[str, ...]) -> None:
        bad = tmp_path / "bad.json"
        bad.write_text("{}\n", encoding="utf-8")
        verb, *rest = command
        for path in (bad, tmp_path / "missing.json"):
            said = cli("snapshot", verb, str(path), *rest)
            assert (said.code, said.out) == (2, "")
            assert path.name in said.err
            assert said.err.count("\n") == 1
