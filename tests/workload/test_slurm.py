"""Slurm accounting is read as it was recorded, in each form that sacct prints; what is wrong is told with its line."""

import gzip
from datetime import UTC
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.workload import accounting
from tests.workload.accounting import Fact

from leasehold.model.errors import InputError
from leasehold.model.tables import LogRecord
from leasehold.simulation.workload import slurm
from leasehold.simulation.workload.log_record import ReadingNotes
from leasehold.simulation.workload.slurm import accounting_records, node_kinds

HEADER = (
    "JobIDRaw|JobID|User|State|Submit|Eligible|Start|End|ElapsedRaw|TimelimitRaw|NNodes|NCPUS|ReqCPUS|ReqTRES|AllocTRES"
)


def read(path: Path, zone: str = "UTC") -> tuple[list[LogRecord], ReadingNotes]:
    notes = ReadingNotes("accounting")
    return list(accounting_records(path, ZoneInfo(zone), notes)), notes


def read_text(folder: Path, text: str, zone: str = "UTC") -> tuple[list[LogRecord], ReadingNotes]:
    path = folder / "accounting.txt"
    path.write_text(text, encoding="utf-8")
    return read(path, zone)


def row(**changes: str) -> str:
    """One job that waited for a minute and ran for ten, with what a case changes."""
    values = {
        "JobIDRaw": "7",
        "JobID": "7",
        "User": "ada",
        "State": "COMPLETED",
        "Submit": "2026-03-02T10:00:00",
        "Eligible": "2026-03-02T10:00:00",
        "Start": "2026-03-02T10:01:00",
        "End": "2026-03-02T10:11:00",
        "ElapsedRaw": "600",
        "TimelimitRaw": "30",
        "NNodes": "2",
        "NCPUS": "8",
        "ReqCPUS": "6",
        "ReqTRES": "billing=6,cpu=6,mem=12G,node=2",
        "AllocTRES": "billing=8,cpu=8,gres/gpu:a100=4,gres/gpu=4,mem=16G,node=2",
    } | changes
    return "|".join(values[name] for name in HEADER.split("|"))


def one(folder: Path, **changes: str) -> LogRecord:
    (record,), _ = read_text(folder, f"{HEADER}\n{row(**changes)}\n")
    return record


def note_of(folder: Path, **changes: str) -> str:
    """Why a job is left out, or what is assumed of it."""
    _, notes = read_text(folder, f"{HEADER}\n{row(**changes)}\n")
    (phrase,) = [*notes.skipped, *notes.assumed]
    return phrase


class TestAJob:
    def test_is_what_it_held_for_as_long_as_it_ran(self, tmp_path: Path) -> None:
        assert one(tmp_path) == LogRecord(
            source_id="7",
            never_began=False,
            submit_ms=1_772_445_600_000,
            run_ms=600_000,
            allocated_vms=8,
            requested_vms=6,
            requested_ms=1_800_000,
            memory_mib=2048,
            wait_ms=60_000,
            user="ada",
            group="-1",
            queue="-1",
            partition="-1",
            site="-1",
            nodes=2,
            gpu_model="a100",
            gpu_milli=4000,
        )

    def test_counts_from_when_it_was_eligible(self, tmp_path: Path) -> None:
        record = one(tmp_path, Submit="2026-03-01T10:00:00")
        assert (record.submit_ms, record.wait_ms) == (1_772_445_600_000, 60_000)
        assert note_of(tmp_path, Submit="2026-03-01T10:00:00") == slurm.LATER

    def test_counts_from_its_start_if_it_was_eligible_anew_after_it(self, tmp_path: Path) -> None:
        assert one(tmp_path, Eligible="2026-03-02T10:05:00").wait_ms == 0

    @pytest.mark.parametrize(
        ("limit", "seconds"),
        [("30", 1800), ("UNLIMITED", -1), ("Partition_Limit", -1), ("", -1)],
    )
    def test_has_the_time_limit_that_was_set(self, tmp_path: Path, limit: str, seconds: int) -> None:
        record = one(tmp_path, TimelimitRaw=limit)
        assert record.requested_ms == (seconds * 1000 if seconds > 0 else -1)

    def test_that_is_running_ran_for_as_long_as_it_had(self, tmp_path: Path) -> None:
        changes = {"State": "RUNNING", "End": "Unknown", "ElapsedRaw": "95"}
        assert one(tmp_path, **changes).run_ms == 95_000
        assert note_of(tmp_path, **changes) == slurm.RUNNING

    def test_that_was_suspended_ran_without_that_time(self, tmp_path: Path) -> None:
        assert one(tmp_path, ElapsedRaw="200").run_ms == 200_000

    def test_that_was_requeued_held_what_it_held(self, tmp_path: Path) -> None:
        assert one(tmp_path, State="NODE_FAIL").run_ms == 600_000
        assert note_of(tmp_path, State="PREEMPTED") == slurm.REQUEUED

    def test_that_was_cancelled_while_it_ran_ran_until_then(self, tmp_path: Path) -> None:
        assert one(tmp_path, State="CANCELLED by 1001").run_ms == 600_000

    def test_that_was_cancelled_before_it_began_says_for_how_long_it_waited(self, tmp_path: Path) -> None:
        # What Slurm 22.05 records of one: the same start and end, CPUs that it never had, and no AllocTRES.
        begun = {"Start": "2026-03-02T10:11:00", "ElapsedRaw": "0", "AllocTRES": ""}
        record = one(tmp_path, State="CANCELLED by 0", **begun)
        assert (record.never_began, record.wait_ms, record.allocated_vms) == (True, 660_000, -1)

    def test_with_gpus_of_no_model_has_any(self, tmp_path: Path) -> None:
        record = one(tmp_path, AllocTRES="cpu=8,gres/gpu=3,mem=16G,node=2")
        assert (record.gpu_model, record.gpu_milli) == ("", 3000)

    def test_of_an_array_and_of_a_heterogeneous_job_is_a_job_of_its_own(self, tmp_path: Path) -> None:
        text = "\n".join([HEADER, row(JobID="5_2"), row(JobIDRaw="8", JobID="5+1"), ""])
        records, notes = read_text(tmp_path, text)
        assert [record.source_id for record in records] == ["7", "8"]
        assert notes.assumed == {slurm.HETEROGENEOUS: 1}


class TestLeftOut:
    @pytest.mark.parametrize(
        ("changes", "why"),
        [
            ({"State": "PENDING", "Start": "Unknown", "End": "Unknown", "ElapsedRaw": "0"}, slurm.PENDING),
            ({"State": "CANCELLED by 5", "Start": "None", "Eligible": "Unknown", "ElapsedRaw": "0"}, slurm.PENDING),
            ({"State": "REVOKED"}, slurm.FEDERATED),
            ({"State": "BOOT_FAIL", "Start": "Unknown"}, slurm.NOT_BEGUN),
            ({"ElapsedRaw": "", "End": "2026-03-02T09:11:00"}, slurm.BACKWARDS),
            ({"State": "RUNNING", "End": "Unknown", "ElapsedRaw": ""}, slurm.NO_ELAPSED),
            ({"State": "RUNNING", "End": "Unknown", "ElapsedRaw": "9000000"}, slurm.RUNAWAY),
        ],
    )
    def test_is_noted_with_its_reason(self, tmp_path: Path, changes: dict[str, str], why: str) -> None:
        records, notes = read_text(tmp_path, f"{HEADER}\n{row(**changes)}\n")
        assert (records, notes.read, notes.skipped) == ([], 1, {why: 1})

    def test_steps_are_no_jobs(self, tmp_path: Path) -> None:
        records, notes = read_text(tmp_path, f"{HEADER}\n{row()}\n{row(JobIDRaw='7.batch', JobID='7.batch')}\n")
        assert (len(records), notes.read) == (1, 1)


class TestForms:
    def test_fields_count_by_name_in_any_order_and_case(self, tmp_path: Path) -> None:
        names = HEADER.split("|")
        turned = "|".join(reversed(row().split("|")))
        records, _ = read_text(tmp_path, f"{'|'.join(reversed(names)).upper()}\n\n{turned}\n")
        assert records == [one(tmp_path)]

    def test_parsable_with_a_bar_at_the_end_is_read_too(self, tmp_path: Path) -> None:
        records, _ = read_text(tmp_path, f"{HEADER}|\n{row()}|\n")
        assert records == [one(tmp_path)]

    def test_a_few_fields_suffice(self, tmp_path: Path) -> None:
        text = (
            "JobID|State|Submit|Start|End|Timelimit|AllocCPUS|ReqMem\n"
            "7|COMPLETED|2026-03-02T10:00:00|2026-03-02T10:01:00|2026-03-02T10:11:00|00:30:00|8|2Gc\n"
        )
        (record,), _ = read_text(tmp_path, text)
        assert (record.run_ms, record.requested_ms) == (600_000, 1_800_000)
        assert (record.allocated_vms, record.memory_mib, record.wait_ms) == (8, 2048, 60_000)

    def test_compressed_is_read_too(self, tmp_path: Path) -> None:
        path = tmp_path / "accounting.txt.gz"
        path.write_bytes(gzip.compress(f"{HEADER}\n{row()}\n".encode()))
        assert read(path)[0] == [one(tmp_path)]

    @pytest.mark.parametrize(
        "text", ["2026-03-02T11:00:00", "2026-03-02T10:00:00Z", "2026-03-02T12:00:00+0200", "1772445600"]
    )
    def test_times_are_of_the_zone_unless_they_say_more(self, tmp_path: Path, text: str) -> None:
        record = one_in_zone(tmp_path, "Europe/Amsterdam", Submit=text, Eligible=text, Start="1772445660")
        assert record.submit_ms == 1_772_445_600_000

    def test_the_change_of_the_clock_lengthens_no_job(self, tmp_path: Path) -> None:
        changes = {"Start": "2026-03-29T01:30:00", "End": "2026-03-29T03:30:00", "ElapsedRaw": ""}
        submit = {"Submit": "2026-03-29T01:00:00", "Eligible": "2026-03-29T01:00:00"}
        assert one_in_zone(tmp_path, "Europe/Amsterdam", **submit, **changes).run_ms == 3_600_000


def one_in_zone(folder: Path, zone: str, **changes: str) -> LogRecord:
    (record,), _ = read_text(folder, f"{HEADER}\n{row(**changes)}\n", zone)
    return record


WRONG = [
    ("nothing of the kind\n", ":1: is not Slurm accounting, expected what `sacct"),
    ("", ": is not Slurm accounting, expected what `sacct"),
    ("a|b\n1|2\n", ":1: is not Slurm accounting with its header, expected what `sacct"),
    ("JobID|State|Submit|Start|NCPUS\n", ":1: field End: missing in the header, expected what `sacct"),
    ("JobID|State|Submit|Start|End\n", ":1: field NCPUS or AllocCPUS or ReqCPUS or AllocTRES or ReqTRES: missing"),
    (f"{HEADER}\n{row()}|x\n", ":2: found 16 fields, expected the 15 of the header; a | in a name of a job: leave out"),
    (
        f"{HEADER}\n{row(Submit='Ystday 18:00')}\n",
        ":2: Submit: got 'Ystday 18:00', expected a time such as 2026-01-31T12:00",
    ),
    (f"{HEADER}\n\n{row(Start='2026-13-01T00:00:00')}\n", ":3: Start: got '2026-13-01T00:00:00', expected a time"),
    (f"{HEADER}\n{row(Submit='Unknown')}\n", ":2: Submit: got 'Unknown', expected a time"),
    (f"{HEADER}\n{row(State='5')}\n", ":2: State: got '5', expected a state such as COMPLETED"),
    (f"{HEADER}\n{row(TimelimitRaw='soon')}\n", ":2: TimelimitRaw: got 'soon', expected minutes, UNLIMITED or"),
    (
        f"{HEADER}\n{row(AllocTRES='cpu=8,mem=many')}\n",
        ":2: AllocTRES: got memory 'many', expected an amount such as 16G",
    ),
    ('{"jobs": [\n{"job_id": 1}]}', ":2: time.submission: missing, expected seconds since 1970"),
    ('{"jobs": [\n', ":2: is cut off: the JSON document does not end"),
    ('{"jobs": [\n{"job_id": "x"', ":2: is not valid JSON: "),
    ('{"other": [1, 2]}', ": has no list 'jobs'"),
    ('{"jobs": 3}', ":1: is not valid JSON: found '3', expected the list 'jobs'"),
    ('{"jobs": [\n\n 5]}', ":3: an entry of 'jobs' is not an object"),
]


@pytest.mark.parametrize(("text", "problem"), [pytest.param(*case, id=str(n)) for n, case in enumerate(WRONG)])
def test_what_is_wrong_is_told_with_its_line(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "accounting.txt"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read(path)
    assert f"{path}{problem}" in str(caught.value)


# Every job, in every form

moments = st.integers(1_700_000_000, 1_800_000_000)
names = st.text(st.characters(codec="utf-8", exclude_characters='|\n\r"', exclude_categories=["C", "Z"]), min_size=1)


@st.composite
def facts(draw: st.DrawFn) -> list[Fact]:
    made = []
    for number in range(1, draw(st.integers(1, 6)) + 1):
        submit_s = draw(moments)
        eligible_s = submit_s + draw(st.sampled_from([0, 0, 5, 4000]))
        start_s = eligible_s + draw(st.integers(0, 10_000))
        elapsed_s = draw(st.integers(1, 200_000))
        asked = draw(st.integers(1, 300))
        made.append(
            Fact(
                number,
                submit_s,
                eligible_s,
                start_s,
                start_s + elapsed_s,
                elapsed_s,
                draw(st.sampled_from(["COMPLETED", "FAILED", "TIMEOUT", "OUT_OF_MEMORY", "CANCELLED by 12"])),
                draw(st.none() | st.integers(1, 10_000)),
                draw(st.integers(1, 40)),
                asked + draw(st.integers(0, 9)),
                asked,
                draw(st.integers(1, 10_000_000)),
                draw(st.integers(0, 16)),
                draw(st.sampled_from(["", "a100", "v100-32g"])),
                *(draw(names) for _ in range(5)),
            )
        )
    return made


def expected(fact: Fact) -> LogRecord:
    """What a job that ran to some end is, said once more."""
    assert fact.eligible_s is not None
    assert fact.start_s is not None
    return LogRecord(
        source_id=str(fact.number),
        never_began=False,
        submit_ms=fact.eligible_s * 1000,
        run_ms=fact.elapsed_s * 1000,
        allocated_vms=fact.cpus,
        requested_vms=fact.asked_cpus,
        requested_ms=-1 if fact.limit_min is None else fact.limit_min * 60_000,
        memory_mib=(fact.memory_mib + fact.cpus - 1) // fact.cpus,
        wait_ms=(fact.start_s - fact.eligible_s) * 1000,
        user=fact.user,
        group=fact.account,
        queue=fact.qos,
        partition=fact.partition,
        site=fact.cluster,
        nodes=fact.nodes,
        gpu_model=fact.gpu_model if fact.gpus else "",
        gpu_milli=fact.gpus * 1000,
    )


@given(made=facts(), data=st.data())
def test_jobs_come_back_from_every_form(
    tmp_path_factory: pytest.TempPathFactory, made: list[Fact], data: st.DataObject
) -> None:
    fields = tuple(data.draw(st.permutations(accounting.FIELDS)))
    forms = [
        accounting.text(made, fields, steps=data.draw(st.booleans()), epoch=data.draw(st.booleans())),
        accounting.json_text(made, wrapped=False),
        accounting.json_text(made, wrapped=True),
    ]
    folder = tmp_path_factory.mktemp("accounting")
    for form in forms:
        records, notes = read_text(folder, form)
        assert records == list(map(expected, made))
        assert notes.read == notes.jobs == len(made)


def test_the_sample_is_as_it_is_made() -> None:
    sample = Path(__file__).parents[2] / "examples" / "accounting.txt"
    asked = tuple(name for name in accounting.FIELDS if name not in {"JobID", "Elapsed", "Timelimit"})
    assert sample.read_text(encoding="utf-8") == accounting.text(accounting.busy_days(300), asked)


class TestNodes:
    def test_alike_are_together_and_each_counts_once(self, tmp_path: Path) -> None:
        path = tmp_path / "nodes.txt"
        path.write_text(
            "NODELIST|CPUS|MEMORY|GRES\n"
            "n1|64|256000|(null)\nn2|64|256000|(null)\nn1|64|256000|(null)\n"
            "g1|32|512000|gpu:a100:4(S:0-1)\ng2|32|512000|gpu:2\n"
        )
        assert node_kinds(path) == [
            {"count": 2, "cores": 64, "memory_mib": 256_000},
            {"count": 1, "cores": 32, "memory_mib": 512_000, "gpus": {"model": "a100", "count": 4}},
            {"count": 1, "cores": 32, "memory_mib": 512_000, "gpus": {"model": "gpu", "count": 2}},
        ]

    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            ("n1|64\n", ":1: is not a node, expected what `sinfo --Node --format='%N|%c|%m|%G'` prints"),
            ("\n\nn1|x|5|(null)\n", ":3: is not a node"),
            ("n1|64|5|gpu:a100:2,gpu:v100:2\n", ":1: has GPUs of 2 models, expected one model on each node"),
            ("", ": has no node"),
        ],
    )
    def test_wrong_ones_are_told_with_their_line(self, tmp_path: Path, text: str, problem: str) -> None:
        path = tmp_path / "nodes.txt"
        path.write_text(text)
        with pytest.raises(InputError) as caught:
            node_kinds(path)
        assert f"{path}{problem}" in str(caught.value)


def test_utc_is_a_zone_like_others(tmp_path: Path) -> None:
    path = tmp_path / "accounting.txt"
    path.write_text(f"{HEADER}\n{row()}\n")
    assert list(accounting_records(path, UTC, ReadingNotes(""))) == read(path)[0]
