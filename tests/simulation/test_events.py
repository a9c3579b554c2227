"""Events besides jobs, one kind after the other: each comes when the scenario says, and the gateway acts on it."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.simulation.worlds import LogLine, swf, tables

from leasehold.analysis.run import load
from leasehold.analysis.validation import validate
from leasehold.model.errors import InputError, InvalidField
from leasehold.simulation.run import RunResult, run_scenario
from leasehold.simulation.scenario.parse import scenario_from_dict

Plain = dict[str, Any]


class World:
    """A cluster ``a`` of four slots with jobs of its own, and guests."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runs = 0

    def run(self, own: list[LogLine] = [], guests: list[LogLine] = [], **keys: Any) -> RunResult:  # noqa: B006 - not changed
        """Run it with every promise checked; ``keys`` are set over the scenario's."""
        values = keys if "stream" in keys else self.values(own, guests) | keys
        return run_scenario(scenario_from_dict(values), self._out(), check=True)

    def values(self, own: list[LogLine], guests: list[LogLine]) -> Plain:
        streams: list[Plain] = []
        for name, lines, whose in (("own", own, {"site": "a"}), ("guests", guests, {"external": True})):
            if lines:
                path = self.folder / f"{name}-{self.runs}.swf"
                path.write_text(swf(lines))
                streams.append({"name": name, "log": str(path), **whose})
                if name == "guests":
                    streams[-1]["types"] = {"suspendable": 1}
        return {
            "name": "world",
            "gateway": {"policy": "rr"},
            "cluster": [{"name": "a", "slots": 4}],
            "stream": streams,
        }

    def _out(self) -> Path:
        self.runs += 1
        return self.folder / f"run-{self.runs}"


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def leases(run: RunResult) -> pl.DataFrame:
    """The leases by number; the tables must agree with each other, as `leasehold sim validate` checks."""
    assert validate(load(run.path)) == []
    return tables(run)["leases"].sort("lease_id")


def column(run: RunResult, name: str) -> list[Any]:
    return leases(run)[name].to_list()


class TestNodes:
    def test_a_failing_node_takes_what_runs_there_and_its_room_is_missed_until_it_is_back(self, world: World) -> None:
        failure = {"at_s": 100, "kind": "node-failure", "site": "a", "nodes": 4, "lasts_s": 500}
        run = world.run([(0, 300, 4, 300), (200, 50, 2, 50)], timeline=[failure])
        assert column(run, "state") == ["failed", "completed"]
        assert column(run, "reason") == ["machines-lost", "completed"]
        assert column(run, "first_start_ms") == [0, 600_000]
        assert run.manifest["events"] == {"node-failure": 4}

    def test_the_others_start_on_the_nodes_that_are_up(self, world: World) -> None:
        failure = {"at_s": 100, "kind": "node-failure", "site": "a", "nodes": 2, "lasts_s": 500}
        run = world.run([(200, 50, 2, 50), (200, 50, 3, 50)], timeline=[failure])
        assert column(run, "first_start_ms") == [200_000, 600_000]

    def test_nodes_fail_at_the_rate_that_is_said_and_alike_with_and_without_guests(self, world: World) -> None:
        own, guests = [(600 * n, 500, 2, 500) for n in range(200)], [(900 * n, 2_000, 2, 2_000) for n in range(100)]
        clusters = [{"name": "a", "slots": 4, "failures": {"mtbf_s": 10_000, "mttr_s": 1_000}}]
        once = {"policy": "rr", "max_restarts": 0}
        with_guests, alone = world.run(own, guests, cluster=clusters, gateway=once), world.run(own, cluster=clusters)
        failures = with_guests.manifest["events"]["node-failure"]
        assert 25 < failures < 70  # four nodes, 120,000 s, 11,000 s for each failure: 44
        assert "failed" in column(with_guests, "state")
        mine = leases(with_guests).filter(pl.col("origin") == "local")["first_start_ms"].to_list()
        assert mine == column(alone, "first_start_ms")

    def test_guests_begin_again_as_often_as_the_gateway_lets_them(self, world: World) -> None:
        failures = [
            {"at_s": at_s, "kind": "node-failure", "site": "a", "nodes": 4, "lasts_s": 10} for at_s in (100, 200, 300)
        ]
        runs = {most: self.guest(world, failures, most) for most in (0, 1, 3)}
        assert runs[0] == ("failed", "machines-lost", 0, 100_000)
        assert runs[1] == ("failed", "restart-limit-reached", 1, 200_000)
        assert runs[3] == ("completed", "completed", 3, 460_000)  # it is back from 310 s on, with all of its 150 s

    def guest(self, world: World, failures: list[Plain], most: int) -> tuple[str, str, int, int]:
        gateway = {"policy": "rr", "max_restarts": most}
        run = world.run([(0, 1, 1, 1)], [(0, 150, 4, 150)], timeline=failures, gateway=gateway)
        row = leases(run).filter(pl.col("origin") == "external").row(0, named=True)
        return row["state"], row["reason"], row["restarts"], row["end_ms"]

    def test_a_weibull_shape_below_one_makes_failures_come_in_bursts(self, world: World) -> None:
        rates = {"mtbf_s": 10_000, "mttr_s": 1_000, "distribution": "weibull", "shape": 0.5}
        run = world.run([(0, 100_000, 1, 100_000)] * 4, cluster=[{"name": "a", "slots": 4, "failures": rates}])
        assert run.manifest["events"]["node-failure"] > 0


class TestSites:
    def test_a_drained_cluster_takes_no_guests_until_it_is_resumed(self, world: World) -> None:
        drain = {"at_s": 100, "kind": "drain", "site": "a"}
        resume = {"at_s": 900, "kind": "resume", "site": "a"}
        run = world.run([(0, 10, 1, 10)], [(50, 200, 1, 200), (150, 100, 1, 100)], timeline=[drain, resume])
        assert leases(run).filter(pl.col("origin") == "external")["first_start_ms"].to_list() == [50_000, 900_000]

    def test_a_drain_may_say_how_long_it_lasts_and_own_users_do_not_notice(self, world: World) -> None:
        drain = {"at_s": 100, "kind": "drain", "site": "a", "lasts_s": 400}
        run = world.run([(150, 10, 1, 10)], [(150, 100, 1, 100)], timeline=[drain])
        assert sorted(column(run, "first_start_ms")) == [150_000, 500_000]

    def test_a_cluster_that_never_lends_again_leaves_its_guests_waiting(self, world: World) -> None:
        run = world.run([(0, 10, 1, 10)], [(150, 100, 1, 100)], timeline=[{"at_s": 100, "kind": "drain", "site": "a"}])
        assert sorted(column(run, "state")) == ["completed", "held"]

    def test_no_guest_starts_where_machines_do_not_answer(self, world: World) -> None:
        silent = {"at_s": 100, "kind": "unreachable", "site": "a", "lasts_s": 400}
        run = world.run([(0, 10, 1, 10)], [(150, 100, 1, 100)], timeline=[silent])
        assert sorted(column(run, "first_start_ms")) == [0, 500_000]


class TestStarts:
    def cluster(self, name: str = "a", **starts: Any) -> Plain:
        return {"name": name, "slots": 4, "starts": starts}

    def test_a_lease_has_all_its_time_from_when_its_machines_are_there(self, world: World) -> None:
        run = world.run([(0, 100, 4, 100)], cluster=[self.cluster(mean_s=30, least_s=29)])
        start_ms, end_ms = column(run, "first_start_ms")[0], column(run, "end_ms")[0]
        assert 29_000 <= start_ms < 45_000
        assert end_ms - start_ms == 100_000
        kinds = tables(run)["segments"].sort("start_ms").select("kind", "start_ms", "ended_by").rows()
        assert kinds == [("start", 0, "phase"), ("run", start_ms, "completed")]

    def test_what_starts_elsewhere_in_the_instant_in_which_its_machines_failed_was_not_seen_before(
        self, world: World
    ) -> None:
        clusters = [self.cluster(mean_s=10, fail_share=1), {"name": "b", "slots": 4}]
        run = world.run(guests=[(0, 100, 4, 100)], cluster=clusters)
        failed_ms = column(run, "first_start_ms")[0]
        segments = tables(run)["segments"].sort("start_ms").select("site", "kind", "start_ms", "ended_by").rows()
        assert segments == [("a", "start", 0, "failed"), ("b", "run", failed_ms, "completed")]

    def test_machines_may_still_be_starting_at_the_horizon(self, world: World) -> None:
        run = world.run([(0, 100, 4, 100)], cluster=[self.cluster(mean_s=30, least_s=29)], horizon_s=10, drain=False)
        assert column(run, "state") == ["starting"]

    def test_machines_that_are_seen_in_the_instant_in_which_a_lease_is_cancelled_were_seen(self, world: World) -> None:
        jobs, cluster = [(0, 100, 4, 100)], [self.cluster(mean_s=30)]
        seen_ms = column(world.run(jobs, cluster=cluster), "first_start_ms")[0]
        cancel = {"at_s": seen_ms / 1000, "kind": "cancel", "stream": "own", "job": 1}
        run = world.run(jobs, cluster=cluster, timeline=[cancel])
        assert column(run, "first_start_ms") == column(run, "end_ms") == [seen_ms]
        segments = tables(run)["segments"].sort("start_ms").select("kind", "start_ms", "end_ms", "ended_by").rows()
        assert segments == [("start", 0, seen_ms, "phase"), ("run", seen_ms, seen_ms, "cancelled")]

    def test_machines_that_are_later_than_the_lease_was_to_last_delay_who_waits_for_the_room(
        self, world: World
    ) -> None:
        run = world.run([(0, 10, 4, 10), (5, 10, 4, 10)], cluster=[self.cluster(mean_s=60, least_s=59)])
        assert column(run, "state") == ["completed", "completed"]
        assert run.manifest["events"]["late-start"] > 0
        assert "delayed-by-slow-start" in tables(run)["decisions"]["reason"].to_list()

    def test_a_guest_whose_machines_do_not_start_is_tried_elsewhere_and_a_local_job_fails(self, world: World) -> None:
        clusters = [self.cluster(mean_s=10, fail_share=1), {"name": "b", "slots": 4}]
        run = world.run([(0, 100, 1, 100)], [(50, 100, 4, 100)], cluster=clusters)
        assert column(run, "state") == ["failed", "completed"]
        assert column(run, "reason") == ["never-started", "completed"]
        assert column(run, "site") == ["a", "b"]


class TestNativeSchedulers:
    def test_the_clusters_own_scheduler_starts_jobs_in_its_order(self, world: World) -> None:
        jobs = [(0, 100, 4, 100), (10, 300, 4, 300), (20, 50, 4, 50)]
        cluster = {"name": "a", "slots": 4, "native_order": "shortest"}
        starts_s = [round(ms / 1000) for ms in column(world.run(jobs, cluster=[cluster]), "first_start_ms")]
        assert starts_s == [0, 150, 100]
        cluster["native_order"] = "fifo"
        starts_s = [round(ms / 1000) for ms in column(world.run(jobs, cluster=[cluster]), "first_start_ms")]
        assert starts_s == [0, 100, 400]

    def test_the_gateway_says_that_it_followed_and_guests_still_give_way(self, world: World) -> None:
        cluster = {"name": "a", "slots": 4, "native_order": "shortest"}
        jobs = [(0, 100, 4, 100), (10, 300, 4, 300), (20, 50, 4, 50)]
        run = world.run(jobs, [(450, 500, 2, 500)], cluster=[cluster])
        assert "started-by-native-scheduler" in tables(run)["decisions"]["reason"].to_list()
        assert set(column(run, "state")) == {"completed"}


class TestManagers:
    """Cluster b decides for itself, and messages take a second."""

    def clusters(self, slots: int = 1) -> list[Plain]:
        return [{"name": "a", "slots": slots}, {"name": "b", "slots": 4, "manager_delay_s": 1}]

    def test_a_guest_is_offered_and_followed_by_what_the_manager_reports(self, world: World) -> None:
        run = world.run([(0, 10, 1, 10)], [(0, 100, 2, 100)], cluster=self.clusters())
        row = leases(run).row(1, named=True)
        assert (row["site"], row["state"]) == ("b", "completed")
        assert (row["first_start_ms"], row["end_ms"]) == (1_000, 102_000)

    def test_its_own_users_come_first_there(self, world: World) -> None:
        scenario = world.values([(50, 100, 4, 100)], [(0, 100, 2, 100)]) | {"cluster": self.clusters()}
        scenario["stream"][0]["site"] = "b"
        run = world.run(**scenario)
        assert leases(run).filter(pl.col("origin") == "local")["first_start_ms"].to_list() == [50_000]
        assert leases(run).filter(pl.col("origin") == "external")["preemptions"].to_list() == [1]

    def test_while_it_is_out_of_touch_nothing_is_sent_there_and_news_come_late(self, world: World) -> None:
        silent = {"at_s": 50, "kind": "unreachable", "site": "b", "lasts_s": 200}
        run = world.run(
            [(0, 10, 1, 10)], [(0, 100, 2, 100), (60, 10, 2, 10)], cluster=self.clusters(), timeline=[silent]
        )
        ends = leases(run).filter(pl.col("origin") == "external").sort("submit_ms")["end_ms"].to_list()
        assert ends[0] == 251_000
        assert ends[1] > 251_000

    def test_what_is_there_has_failed_once_it_is_forgotten(self, world: World) -> None:
        timeline = [
            {"at_s": 50, "kind": "unreachable", "site": "b"},
            {"at_s": 90, "kind": "forget", "site": "b"},
        ]
        run = world.run([(0, 10, 1, 10)], [(0, 100, 2, 100)], cluster=self.clusters(), timeline=timeline)
        row = tables(run)["leases"].filter(pl.col("origin") == "external").row(0, named=True)
        assert (row["state"], row["reason"], row["end_ms"]) == ("failed", "machines-lost", 90_000)
        segment = tables(run)["segments"].filter(pl.col("lease_id") == row["lease_id"]).row(0, named=True)
        assert (segment["ended_by"], segment["end_ms"]) == ("failed", 90_000)

    def test_a_peer_is_asked_for_what_no_own_cluster_can_take(self, world: World) -> None:
        clusters = self.clusters(slots=2)
        clusters[1]["peer_ask"] = "none-can"
        run = world.run([(0, 10, 1, 10)], [(0, 100, 2, 100), (0, 100, 3, 100)], cluster=clusters)
        assert leases(run).filter(pl.col("origin") == "external")["site"].to_list() == ["a", "b"]
        assert set(column(run, "state")) == {"completed"}
        assert "sent-to-peer" in tables(run)["decisions"]["reason"].to_list()

    def test_a_user_cancels_what_runs_there(self, world: World) -> None:
        cancel = {"at_s": 50, "kind": "cancel", "stream": "guests", "job": 1}
        run = world.run([(0, 10, 1, 10)], [(0, 100, 2, 100)], cluster=self.clusters(), timeline=[cancel])
        assert column(run, "state") == ["completed", "cancelled"]


class TestUsers:
    def test_a_job_is_cancelled_while_it_waits_and_another_while_it_runs(self, world: World) -> None:
        timeline = [{"at_s": at_s, "kind": "cancel", "stream": "own", "job": job} for at_s, job in ((50, 2), (80, "1"))]
        run = world.run([(0, 100, 4, 100), (10, 100, 4, 100), (20, 100, 4, 100)], timeline=timeline)
        assert column(run, "state") == ["cancelled", "cancelled", "completed"]
        assert column(run, "end_ms") == [80_000, 50_000, 180_000]
        assert column(run, "reason")[:2] == ["cancelled-by-user", "cancelled-by-user"]
        assert run.manifest["events"] == {"cancel": 2}

    def test_who_loses_patience_cancels_what_has_not_started(self, world: World) -> None:
        scenario = world.values([(0, 1_000, 4, 1_000), *[(10, 100, 1, 100)] * 20], [])
        scenario["stream"][0]["users"] = {"patience_s": 600}
        run = world.run(**scenario)
        states = column(run, "state")
        assert states[0] == "completed"
        assert 5 < states.count("cancelled") < 20
        assert leases(run).filter(pl.col("state") == "cancelled")["first_start_ms"].null_count() > 0

    @pytest.mark.parametrize(("every_s", "victim"), [(None, "late"), (60, "early"), (45, "early"), (60_000, "late")])
    def test_who_lost_least_since_the_last_checkpoint_gives_way(
        self, world: World, every_s: int | None, victim: str
    ) -> None:
        """At 100 s one guest has worked for 100 s and may have saved that of its first 60; the other for 50."""
        scenario = world.values([(100, 10, 2, 10)], [])
        for name, submit_s in (("early", 0), ("late", 50)):
            path = world.folder / f"{name}-{every_s}.swf"
            path.write_text(swf([(submit_s, 200, 2, 200)]))
            scenario["stream"].append({"name": name, "log": str(path), "external": True, "types": {"cancelable": 1}})
        if every_s is not None:
            scenario["stream"][1]["users"] = {"checkpoint_every_s": every_s}
        scenario["cluster"][0]["victims"] = "least-lost"
        run = world.run(**scenario)
        states = dict(zip(column(run, "source"), column(run, "state"), strict=True))
        assert states == {"own": "completed", "early": "completed", "late": "completed"} | {victim: "terminated"}
        counted = {None: 0, 60: 1, 45: 2, 60_000: 0}[every_s]
        assert run.manifest.get("events", {}).get("checkpoint", 0) == counted

    def test_guests_do_not_checkpoint_while_they_wait(self, world: World) -> None:
        """A node that comes back after months has the room of a guest: it has saved four times by then."""
        failure = {"at_s": 30, "kind": "node-failure", "site": "a", "nodes": 4, "lasts_s": 10_000_000}
        scenario = world.values([], [(0, 100, 4, 100)])
        scenario["stream"][0]["users"] = {"checkpoint_every_s": 7}
        run = world.run(**scenario, timeline=[failure])
        assert column(run, "state") == ["completed"]
        held_s = [(end - start) // 1000 for start, end in tables(run)["segments"].select("start_ms", "end_ms").rows()]
        assert run.manifest["events"]["checkpoint"] == 4 + (held_s[-1] - 1) // 7

    def test_a_share_is_cancelled_and_it_is_the_same_share_in_each_run(self, world: World) -> None:
        scenario = world.values([(200 * n, 100, 1, 100) for n in range(100)], [])
        scenario["stream"][0]["users"] = {"cancel_share": 0.2}
        first, second = world.run(**scenario), world.run(**scenario)
        assert 8 < column(first, "state").count("cancelled") < 35
        assert column(first, "state") == column(second, "state")

    def test_a_job_that_needs_longer_than_it_asked_for_is_extended(self, world: World) -> None:
        scenario = world.values([(0, 150, 2, 100), (0, 150, 2, 100)], [])
        scenario["stream"][0]["overrun"] = "kill"
        extend = {"at_s": 50, "kind": "extend", "stream": "own", "job": 1, "by_s": 100}
        run = world.run(**scenario, timeline=[extend])
        assert column(run, "state") == ["completed", "killed"]
        assert column(run, "end_ms") == [150_000, 100_000]
        assert column(run, "requested_ms") == [200_000, 100_000]

    def test_what_a_log_says_was_cancelled_is_asked_for_and_cancelled_after_that_time(self, world: World) -> None:
        scenario = world.values([(0, 100, 4, 100), (20, 50, 4, 50), (30, 10, 1, 10)], [])
        log = Path(scenario["stream"][0]["log"])
        lines = log.read_text().splitlines()
        lines[2] = "2 20 60 -1 -1 -1 -1 4 50 -1 5 1 1 -1 1 1 -1 -1"
        log.write_text("\n".join(lines) + "\n")
        assert column(world.run(**scenario), "source_id") == ["1", "3"]
        scenario["stream"][0]["replay_cancelled"] = True
        run = world.run(**scenario)
        assert column(run, "state") == ["completed", "cancelled", "completed"]
        assert column(run, "end_ms") == [100_000, 80_000, 110_000]
        assert run.manifest["events"] == {"cancel": 1}
        log.write_text(log.read_text() + "4 x\n")
        with pytest.raises(InputError, match=rf"{log.name}:5"):
            world.run(**scenario)

    def test_an_extension_is_denied_where_others_were_promised_the_room(self, world: World) -> None:
        extend = {"at_s": 50, "kind": "extend", "stream": "own", "job": 1, "by_s": 100}
        run = world.run([(0, 100, 4, 100), (10, 100, 4, 100)], timeline=[extend])
        assert "deny" in tables(run)["decisions"]["outcome"].to_list()
        assert column(run, "end_ms") == [100_000, 200_000]

    def test_an_extension_is_decided_by_the_manager_of_the_cluster(self, world: World) -> None:
        """It takes 10 s to get there, and 10 s until the gateway knows; then the guest has run for longer than it."""
        keys = world.values([], [(0, 300, 6, 100)])
        keys["cluster"].append({"name": "far", "slots": 8, "manager_delay_s": 10})
        keys["stream"][0]["overrun"] = "kill"
        extend = {"at_s": 50, "kind": "extend", "stream": "guests", "job": 1}
        for by_s, ends_ms, state in ((100, 210_000, "killed"), (300, 310_000, "completed")):
            run = world.run(**keys, timeline=[extend | {"by_s": by_s}])
            assert column(run, "state") == [state]
            decisions = tables(run)["decisions"]
            [decided] = decisions.filter(decisions["outcome"] == "extend").to_dicts()
            assert (decided["time_ms"], decided["reason"], decided["site"]) == (70_000, "extended", "far")
            [segment] = tables(run)["segments"].to_dicts()
            assert (segment["start_ms"], segment["end_ms"]) == (10_000, ends_ms)

    def test_a_share_asks_for_more_time(self, world: World) -> None:
        scenario = world.values([(400 * n, 200, 1, 100) for n in range(50)], [])
        scenario["stream"][0] |= {"overrun": "kill", "users": {"extend_share": 0.5, "extend_by": 1.0}}
        states = column(world.run(**scenario), "state")
        assert 10 < states.count("completed") < 40
        assert states.count("completed") + states.count("killed") == 50

    def test_a_cancelled_co_allocation_ends_with_all_its_components(self, world: World) -> None:
        scenario = world.values([], [(0, 500, 4, 500)])
        scenario["stream"][0]["together"] = {"share": 1}
        cancel = {"at_s": 50, "kind": "cancel", "stream": "guests", "job": 1}
        run = world.run(**scenario, timeline=[cancel])
        assert set(column(run, "state")) == {"cancelled"}
        assert tables(run)["coallocations"]["state"].to_list() == ["cancelled"]


class TestAgreements:
    """Guests of user 1 at cluster a, of which an agreement gives them some at a time."""

    def terms(self, most: int | None, **keys: Any) -> Plain:
        limit = {} if most is None else {"lending_limit": most}
        return {"name": "first", "provider": "a", "consumer": "1", "kind": "no-limit", **limit, **keys}

    def starts(self, run: RunResult) -> list[int]:
        return column(run, "first_start_ms")

    def test_a_changed_agreement_gives_more_from_then_on(self, world: World) -> None:
        more = {"at_s": 100, "kind": "agree", "agreement": self.terms(2)}
        run = world.run(guests=[(0, 500, 1, 500), (0, 500, 1, 500)], agreement=[self.terms(1)], timeline=[more])
        assert self.starts(run) == [0, 100_000]

    def test_a_new_agreement_counts_what_was_used_before(self, world: World) -> None:
        share = {"kind": "decay", "share": 0.1, "window_s": 1_000, "factors": [1.0]}
        terms = {"name": "share", "provider": "a", "consumer": "1", **share}
        timeline = [{"at_s": 500, "kind": "agree", "agreement": terms}]
        guests = [(0, 450, 4, 450), (600, 100, 1, 100)]
        assert self.starts(world.run(guests=guests))[1] == 600_000
        assert self.starts(world.run(guests=guests, timeline=timeline))[1] >= 1_000_000

    def test_requests_under_a_revoked_agreement_are_refused(self, world: World) -> None:
        revoke = {"at_s": 100, "kind": "revoke", "agreement": "first"}
        run = world.run(guests=[(0, 500, 1, 500), (0, 500, 1, 500)], agreement=[self.terms(1)], timeline=[revoke])
        assert column(run, "state") == ["completed", "refused"]
        assert column(run, "reason")[1] == "agreement-revoked"

    def test_a_lifted_penalty_lets_the_agreement_be_broken_again(self, world: World) -> None:
        lift = {"at_s": 100, "kind": "lift-penalty", "agreement": "first", "consumer": "1"}
        keys: Plain = {"agreement": [self.terms(1, penalty=5)], "sharing": {"threshold": 10}}
        guests = [(0, 500, 1, 500), (0, 500, 1, 500), (50, 500, 1, 500)]
        assert self.starts(world.run(guests=guests, **keys)) == [0, 0, 500_000]
        assert self.starts(world.run(guests=guests, **keys, timeline=[lift])) == [0, 0, 100_000]

    def test_what_is_not_agreed_cannot_be_revoked(self, world: World) -> None:
        with pytest.raises(InvalidField) as raised:
            world.run([(0, 10, 1, 10)], timeline=[{"at_s": 1, "kind": "revoke", "agreement": "first"}])
        assert raised.value.field == "timeline[0].agreement"

    def test_the_terms_are_checked_as_those_of_any_agreement(self, world: World) -> None:
        for terms, field in ((self.terms(1, kind="none"), "kind"), (self.terms(1, provider="b"), "provider")):
            with pytest.raises(InvalidField) as raised:
                world.run([(0, 10, 1, 10)], timeline=[{"at_s": 1, "kind": "agree", "agreement": terms}])
            assert raised.value.field == f"timeline[0].agreement.{field}"


@pytest.mark.parametrize(
    "keys",
    [
        {"timeline": [{"at_s": 50, "kind": "cancel", "stream": "own", "job": 1}]},
        {"cluster": [{"name": "a", "slots": 4, "failures": {"mtbf_s": 100, "mttr_s": 10}}]},
        {"cluster": [{"name": "a", "slots": 4, "starts": {"mean_s": 20}}]},
        {"users": {"cancel_share": 1}},
    ],
)
def test_own_users_alone_meet_the_same_events_whether_promises_are_checked_or_not(world: World, keys: Plain) -> None:
    scenario = world.values([(10 * n, 100, 1, 100) for n in range(20)], []) | keys
    scenario["stream"][0] |= {"users": scenario.pop("users")} if "users" in scenario else {}
    checked = world.run(**scenario)
    unchecked = run_scenario(scenario_from_dict(scenario), world.folder / "unchecked")
    assert tables(checked)["segments"].equals(tables(unchecked)["segments"])
    assert "events" in checked.manifest


@pytest.mark.parametrize(
    ("entry", "field", "expected"),
    [
        ({"at_s": 1, "kind": "drain"}, "timeline[0].site", "drain takes at_s, site, lasts_s"),
        ({"at_s": 1, "kind": "resume", "site": "a", "nodes": 2}, "timeline[0].nodes", "resume takes at_s, site"),
        ({"at_s": 1, "kind": "drains", "site": "a"}, "timeline[0].kind", "drain"),
        ({"at_s": 1, "kind": "drain", "site": "b"}, "timeline[0].site", "a"),
        ({"kind": "drain", "site": "a"}, "timeline[0].at_s", "number"),
        ({"at_s": 1, "kind": "node-failure", "site": "a"}, "timeline[0].lasts_s", "node-failure takes"),
    ],
)
def test_wrong_entries_are_refused_in_one_line(world: World, entry: Plain, field: str, expected: str) -> None:
    with pytest.raises(InvalidField) as raised:
        world.run([(0, 10, 1, 10)], timeline=[entry])
    assert raised.value.field == field
    assert expected in str(raised.value)


def test_a_scenario_with_events_is_written_as_it_was_read(world: World) -> None:
    values = world.values([(0, 10, 1, 10)], [])
    values["timeline"] = [{"at_s": 1, "kind": "node-failure", "site": "a", "nodes": 2, "lasts_s": 5}]
    terms = {"name": "x", "provider": "a", "consumer": "1", "kind": "no-limit", "end_s": 900}
    values["timeline"].append({"at_s": 2, "kind": "agree", "agreement": terms})
    values["timeline"].append({"at_s": 2, "kind": "cancel", "stream": "own", "job": "1"})
    values["stream"][0]["users"] = {"patience_s": 7}
    values["cluster"][0]["starts"] = {"mean_s": 20, "least_s": 5}
    values["cluster"][0]["failures"] = {"mtbf_s": 1_000, "mttr_s": 10}
    scenario = scenario_from_dict(values)
    assert scenario_from_dict(scenario.to_dict()) == scenario
