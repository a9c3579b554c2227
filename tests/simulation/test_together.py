"""Co-allocations in scenarios: some of a stream's requests are split, and their parts run together."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.searching import examples
from tests.simulation.worlds import DAS2, LogLine, busy, tables, write_log

from leasehold.analysis.measures import COALLOCATION_CATALOGUE, coallocation_totals
from leasehold.analysis.metrics import totals
from leasehold.analysis.report.contents import coallocation_tables, what_happened
from leasehold.analysis.run import Run, load
from leasehold.analysis.validation import validate
from leasehold.model.errors import InvalidField
from leasehold.model.tables import OPTIONAL_TABLES, TABLES
from leasehold.simulation.run import run_scenario
from leasehold.simulation.scenario.parse import scenario_from_dict
from leasehold.simulation.scenario.sites import told_moments
from leasehold.simulation.scenario.sources import open_streams
from leasehold.simulation.scenario.spec import Scenario
from leasehold.simulation.workload.combine import numbered, split_some
from leasehold.simulation.workload.job import WorkloadJob
from leasehold.simulation.workload.together import StreamCoAllocations

NETWORK = {"network_mbps": 8}
"""One MiB takes 1.048576 s."""


def two_clusters(
    folder: Path, guests: Sequence[LogLine], own: Sequence[LogLine] = (), together: Any = None, **keys: Any
) -> Scenario:
    """Clusters a of 4 slots and b of 6, whose users send `own`; of the guests some want to run together."""
    streams = [_stream(folder, "guests", guests, external=True, types={"suspendable": 1.0})]
    streams[0] |= {"together": {"share": 1.0, **(together or {})}}
    streams += [_stream(folder, "own", own, site="b")] if own else []
    clusters = [
        {"name": "a", "slots": 4, "overhead": NETWORK},
        {"name": "b", "slots": 6, "overhead": NETWORK},
    ]
    return scenario_from_dict({"name": "coallocation", "cluster": clusters, "stream": streams, **keys})


def _stream(folder: Path, name: str, lines: Sequence[LogLine], **keys: Any) -> dict[str, Any]:
    return {"name": name, "log": str(write_log(folder / f"{name}.swf", lines)), **keys}


def played(scenario: Scenario, folder: Path) -> Run:
    """Run a scenario with every invariant checked, and see that the independent checker finds nothing."""
    run = load(run_scenario(scenario, folder / "run", check=True).path)
    assert validate(run) == []
    return run


def held(run: Run) -> list[tuple[Any, ...]]:
    """Who held machines where: lease, site, kind, from and until (s), and what ended that."""
    rows = run.segments.sort("lease_id", "start_ms").select(
        "lease_id", "site", "kind", "start_ms", "end_ms", "ended_by"
    )
    return [(lease, site, kind, b / 1000, e / 1000, end) for lease, site, kind, b, e, end in rows.iter_rows()]


class TestWorkedByHand:
    """8 VMs asked for 20 s and used for 10; the start is 20 s after the request, claiming begins after 15."""

    WIDE = (0, 10, 8, 20)
    PATIENT: dict[str, Any] = {"margin_s": 20}  # noqa: RUF012 - never changed

    def test_both_components_claim_their_room_and_start_together(self, tmp_path: Path) -> None:
        run = played(two_clusters(tmp_path, [self.WIDE], together=self.PATIENT), tmp_path)
        assert held(run) == [
            (1, "b", "claim", 15, 20, "phase"),
            (1, "b", "run", 20, 30, "completed"),
            (2, "a", "claim", 15, 20, "phase"),
            (2, "a", "run", 20, 30, "completed"),
        ]
        row = run.coallocations.row(0, named=True)
        assert (row["components"], row["vms"], row["tries"], row["state"]) == (2, 8, 1, "completed")
        assert (row["submit_ms"], row["started_ms"], row["ended_ms"]) == (0, 20_000, 30_000)
        assert row["idle_vm_ms"] == 2 * 4 * 5_000
        assert (row["source"], row["source_id"], row["consumer"]) == ("guests", "1", "1")

    def test_who_finds_no_room_is_claimed_for_again(self, tmp_path: Path) -> None:
        """From 10 to 16 s b is full: the first takes a, and the second gets b after 3/4 of the 5 s left."""
        own = [(10, 6, 6, 6)]
        run = played(two_clusters(tmp_path, [self.WIDE], own, self.PATIENT), tmp_path)
        assert held(run) == [
            (1, "a", "claim", 15, 20, "phase"),
            (1, "a", "run", 20, 30, "completed"),
            (2, "b", "claim", 18.75, 20, "phase"),
            (2, "b", "run", 20, 30, "completed"),
            (7, "b", "run", 10, 16, "completed"),  # two components and three tries: the next number is 7
        ]
        assert run.coallocations["idle_vm_ms"].to_list() == [4 * 5_000 + 4 * 1_250]

    def test_who_has_none_at_the_start_gives_everything_back(self, tmp_path: Path) -> None:
        """b is full until 25 s: the try fails at 20 s, and the next finds room at 30 s."""
        own = [(10, 15, 6, 15)]
        run = played(two_clusters(tmp_path, [self.WIDE], own, self.PATIENT), tmp_path)
        assert held(run)[0] == (1, "a", "claim", 15, 20, "cancelled")
        row = run.coallocations.row(0, named=True)
        assert (row["tries"], row["started_ms"], row["ended_ms"]) == (2, 50_000, 60_000)
        assert row["idle_vm_ms"] == 4 * 5_000 + 2 * 4 * 5_000
        assert set(run.leases["coallocation_id"]) == {1, None}
        assert totals(run)["guest_computation_vm_h"] == pytest.approx(8 * 10 / 3600)  # each component once

    def test_the_only_try_is_refused_with_its_reason(self, tmp_path: Path) -> None:
        patient = self.PATIENT | {"tries": 1}
        run = played(two_clusters(tmp_path, [self.WIDE], [(10, 15, 6, 15)], patient), tmp_path)
        row = run.coallocations.row(0, named=True)
        assert (row["state"], row["reason"], row["ended_ms"]) == ("refused", "no-common-room", 20_000)
        assert row["started_ms"] is None

    def test_a_reservation_starts_when_all_have_room(self, tmp_path: Path) -> None:
        guests = [(0, 30, 8, 30), self.WIDE]
        run = played(two_clusters(tmp_path, guests, together={"claim": "reservation"}), tmp_path)
        assert run.coallocations["started_ms"].to_list() == [0, 30_000]
        assert run.coallocations["idle_vm_ms"].to_list() == [0, 0]
        assert set(run.leases["ready_ms"]) == {0}

    def test_it_goes_where_its_files_are_and_waits_for_the_others(self, tmp_path: Path) -> None:
        """One fetches 10 MiB from a, which takes 10.486 s; both are claimed after 3/4 of that, 7.865 s."""
        close = {"place": "close-to-files", "files": {"a": 10}}
        run = played(two_clusters(tmp_path, [self.WIDE], together=close), tmp_path)
        assert run.coallocations["started_ms"].to_list() == [10_486]
        assert run.segments.filter(kind="claim")["start_ms"].to_list() == [7_865, 7_865]

    def test_what_cannot_be_is_refused_at_once(self, tmp_path: Path) -> None:
        run = played(two_clusters(tmp_path, [(0, 10, 12, 10)]), tmp_path)
        row = run.coallocations.row(0, named=True)
        assert (row["state"], row["reason"], row["ended_ms"]) == ("refused", "no-common-room", 0)
        assert run.segments.is_empty()

    def test_longer_than_anybody_lends_for_good_is_refused_at_once(self, tmp_path: Path) -> None:
        scenario = two_clusters(tmp_path, [self.WIDE], defaults={"non_preemptable_max_s": 19})
        assert played(scenario, tmp_path).coallocations["reason"].to_list() == ["no-common-room"]

    def test_whom_an_agreement_never_gives_room_is_held_when_nothing_else_happens(self, tmp_path: Path) -> None:
        """b lends at most 3 VMs at a time, and a has no room for two components of 4."""
        cap = {"name": "cap", "consumer": "*", "kind": "no-limit"}
        agreed = [cap | {"name": name, "provider": name, "lending_limit": vms} for name, vms in (("a", 4), ("b", 3))]
        run = played(two_clusters(tmp_path, [self.WIDE], agreement=agreed), tmp_path)
        row = run.coallocations.row(0, named=True)
        assert (row["state"], row["reason"], row["ended_ms"]) == ("held", "horizon-reached", None)
        (told,) = [p.answer for p in what_happened(run, totals(run)) if "co-allocations" in p.question]
        assert told == "0 of 1 started; 0 were refused; 1 had neither started nor been refused."

    def test_a_component_wider_than_every_cluster_stops_the_run(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidField, match="guests job 1: VMs: got 7, expected at most 6"):
            run_scenario(two_clusters(tmp_path, [(0, 10, 13, 10)]), tmp_path / "run")

    def test_the_numbers_of_the_run(self, tmp_path: Path) -> None:
        guests = [self.WIDE, (100, 10, 12, 10)]
        run = played(two_clusters(tmp_path, guests, [(0, 1, 1, 1)], self.PATIENT), tmp_path)
        numbers = coallocation_totals(run)
        assert set(numbers) == set(COALLOCATION_CATALOGUE)
        assert (
            numbers["coallocation_requests"],
            numbers["coallocations_started"],
            numbers["coallocations_refused"],
        ) == (2, 1, 1)
        assert (numbers["coallocation_wait_mean_s"], numbers["coallocation_wait_p95_s"]) == (20, 20)
        assert numbers["claimed_idle_vm_h"] == pytest.approx(40 / 3600)
        assert numbers["claimed_idle_pct"] == pytest.approx(100 * 5 / 15)
        assert run.manifest["jobs"]["coallocation"] == 2
        (told,) = [p.answer for p in what_happened(run, totals(run)) if "co-allocations" in p.question]
        assert told.startswith("1 of 2 started, after 20 s on average; 1 was refused.")
        (table,) = coallocation_tables(run)
        assert [cell.text for cell in table.rows[0]][:3] == ["2", "1", "1"]


class TestWhichAreSplit:
    @staticmethod
    def jobs(count: int = 200) -> list[WorkloadJob]:
        return [
            WorkloadJob(number, 1 + number % 5, 10, 10, site="a" if number % 7 == 0 else None)
            for number in range(count)
        ]

    def chosen(self, **told: Any) -> list[int]:
        split = split_some(iter(self.jobs()), StreamCoAllocations(**told), 1, "guests")
        return [job.submit_ms for job in split if job.together is not None]

    def test_a_share_of_those_from_outside_that_are_wide_enough(self) -> None:
        fit = [job.submit_ms for job in self.jobs() if job.site is None and job.vms >= 2]
        assert self.chosen(share=1) == fit
        assert self.chosen(share=0) == []
        assert 0.3 < len(self.chosen(share=0.5)) / len(fit) < 0.7

    def test_a_larger_share_only_adds(self) -> None:
        assert set(self.chosen(share=0.3)) < set(self.chosen(share=0.6))
        assert set(self.chosen(share=0.3, components=4)) < set(self.chosen(share=0.3))

    @given(st.integers(2, 16), st.integers(0, 100))
    def test_widths_are_alike_and_add_up(self, components: int, more: int) -> None:
        widths = StreamCoAllocations(1, components).widths(components + more)
        assert sum(widths) == components + more
        assert len(widths) == components
        assert len(set(widths[1:])) == 1
        assert 0 <= widths[0] - widths[1] < components

    def test_each_takes_a_number_for_every_lease_that_it_may_have(self) -> None:
        jobs = [WorkloadJob(0, 4, 1, 1, together=StreamCoAllocations(1, 2, tries=5)), WorkloadJob(0, 1, 1, 1)]
        assert [number for number, _ in numbered(iter(jobs))] == [1, 11]

    def test_types_and_deadlines_of_the_stream_do_not_hold_for_them(self) -> None:
        guests = {"name": "guests", **DAS2, "types": {"migratable": 1.0}, "together": {"share": 1}}
        jobs = list(open_streams(busy(stream=[guests]), []))
        assert {(job.lease_type.label, job.deadline_ms) for job in jobs if job.together} == {("non-preemptable", None)}
        assert {job.vms for job in jobs if job.together is None} == {1}


def busy_together(**keys: Any) -> Scenario:
    """The busy scenario, of whose guests some run together."""
    streams: list[dict[str, Any]] = [
        {"name": "a", "site": "a", **DAS2},
        {"name": "guests", **DAS2, "alpha": 90.0, "together": {"share": 0.3, "margin_s": 120, **keys}},
    ]
    return busy(stream=streams, gateway={"policy": "rr", "moments": "told"})


def test_what_is_not_routed_is_not_told() -> None:
    assert told_moments(busy_together()).external is None


def test_the_scenario_of_the_run_folder_is_the_scenario(tmp_path: Path) -> None:
    scenario = busy_together(components=3, files={"b": 100}, claim_part=0.5)
    again = load(run_scenario(scenario, tmp_path / "run").path).manifest["scenario"]
    assert scenario_from_dict(again) == scenario


def test_the_same_seed_gives_the_same_folder(tmp_path: Path) -> None:
    first, second = (run_scenario(busy_together(), tmp_path / name, check=True) for name in ("one", "two"))
    assert validate(load(first.path)) == []
    ours, theirs = tables(first), tables(second)
    assert ours["coallocations"].height > 10
    assert ours.keys() == theirs.keys() >= TABLES.keys() - OPTIONAL_TABLES
    for name, table in ours.items():
        assert table.equals(theirs[name])


def test_local_jobs_are_compared_under_the_same_numbers(tmp_path: Path) -> None:
    found = tables(run_scenario(busy_together(), tmp_path / "run"))
    started = found["leases"].filter(origin="local").drop_nulls("first_start_ms")
    assert set(started["lease_id"]) == set(found["baseline"]["lease_id"])


def test_without_coallocation_requests_nothing_is_said_of_them(tmp_path: Path) -> None:
    run = load(run_scenario(busy(), tmp_path / "run").path)
    assert run.coallocations.is_empty()
    assert coallocation_totals(run) == {}
    assert coallocation_tables(run) == []
    assert not [p for p in what_happened(run, totals(run)) if "coallocation" in p.question]


LINES = st.lists(
    st.tuples(st.integers(0, 60), st.integers(1, 30), st.integers(1, 6), st.integers(1, 40)), max_size=8
).map(sorted)


@settings(max_examples=examples(60), deadline=None)
@given(
    guests=LINES.filter(bool),
    own=LINES,
    together=st.fixed_dictionaries(
        {
            "share": st.sampled_from([0.4, 1.0]),
            "components": st.integers(2, 4),
            "claim": st.sampled_from(["incremental", "reservation"]),
            "place": st.sampled_from(["worst-fit", "close-to-files"]),
            "claim_part": st.sampled_from([0, 0.5, 0.75, 0.999]),
            "margin_s": st.sampled_from([0, 7, 20]),
            "tries": st.integers(1, 3),
            "files": st.sampled_from([{}, {"a": 3}, {"a": 5, "b": 9}]),
        }
    ),
    ends=st.fixed_dictionaries({"drain": st.booleans()}, optional={"horizon_s": st.integers(1, 80)}),
)
def test_the_checker_finds_nothing(
    guests: list[LogLine], own: list[LogLine], together: dict[str, Any], ends: dict[str, Any]
) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        run = played(two_clusters(folder, guests, own, together, too_wide="refuse", **ends), folder)
        assert run.manifest["jobs"]["coallocation"] == run.coallocations.height
