"""Mapping files say what the columns of other logs mean; those that come with Leasehold read rows as published."""

import gzip
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest

from leasehold.model.errors import InputError, InvalidField, UnknownName
from leasehold.model.tables import LogRecord
from leasehold.simulation.workload import mapping as mappings
from leasehold.simulation.workload.log_record import ReadingNotes
from leasehold.simulation.workload.mapping import load_mapping, mapped_records, packaged_mappings

SMALL = """\
[columns]
job = "id"
user = "who"
submit = { column = "came", unit = "s" }
start = { column = "began", unit = "s" }
run = { column = "ran", unit = "min" }
limit = { column = "limit", unit = "span" }
cpus = "cores"
memory = { column = "mem", unit = "GiB", per = "cpu" }

[constants]
nodes = 1
partition = "all"

[[filter]]
column = "state"
is_not = ["draft"]
"""
HEADER = "id,who,came,began,ran,limit,cores,mem,state\n"


def read(log: Path, mapping: str) -> tuple[list[LogRecord], ReadingNotes]:
    notes = ReadingNotes("log")
    return list(mapped_records(log, load_mapping(mapping), UTC, notes)), notes


def read_csv(folder: Path, rows: str, mapping: str = SMALL) -> tuple[list[LogRecord], ReadingNotes]:
    (folder / "mine.toml").write_text(mapping)
    (folder / "log.csv").write_text(HEADER + rows)
    return read(folder / "log.csv", str(folder / "mine.toml"))


class TestCsv:
    def test_columns_units_and_constants(self, tmp_path: Path) -> None:
        (record,), _ = read_csv(tmp_path, "a7,ada,100,160,2,01:00:00,4,1.5,done\n")
        assert record == LogRecord(
            source_id="a7",
            never_began=False,
            submit_ms=100_000,
            run_ms=120_000,
            allocated_vms=4,
            requested_vms=4,
            requested_ms=3_600_000,
            memory_mib=1536,
            wait_ms=60_000,
            user="ada",
            group="-1",
            queue="-1",
            partition="all",
            site="-1",
            nodes=1,
            gpu_model="",
            gpu_milli=0,
        )

    def test_compressed(self, tmp_path: Path) -> None:
        (tmp_path / "mine.toml").write_text(SMALL)
        (tmp_path / "log.csv.gz").write_bytes(gzip.compress((HEADER + "a,ada,1,2,3,,1,,x\n").encode()))
        assert len(read(tmp_path / "log.csv.gz", str(tmp_path / "mine.toml"))[0]) == 1

    def test_rows_that_do_not_count_are_noted(self, tmp_path: Path) -> None:
        records, notes = read_csv(tmp_path, "a,ada,1,2,3,,1,,draft\nb,ada,,2,3,,1,,done\nc,ada,5,,,,1,,done\n")
        assert [record.source_id for record in records] == ["c"]
        assert notes.skipped == {mappings.FILTERED: 1, mappings.NO_SUBMISSION: 1}
        assert records[0].run_ms == -1  # no run time: left out, and noted, when the log is simulated

    @pytest.mark.parametrize(
        ("rows", "problem"),
        [
            ("a,ada,soon,2,3,,1,,x\n", "log.csv:2: column came: got 'soon', expected a number (s)"),
            (
                "a,ada,1,2,3,never,1,,x\n",
                "log.csv:2: column limit: got 'never', expected a time span such as 1-02:30:00",
            ),
            ("a,ada,1,2,3,,1,,x\na,b\n", "log.csv:3: found 2 columns, expected 9"),
            ("a,ada,1e300,2,3,,1,,x\n", "log.csv:2: column came: got 1e+303, expected at most 1e+14"),
        ],
    )
    def test_what_is_wrong_is_told_with_its_line(self, tmp_path: Path, rows: str, problem: str) -> None:
        with pytest.raises(InputError) as caught:
            read_csv(tmp_path, rows)
        assert problem in str(caught.value)

    def test_a_column_that_is_not_there_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match=r"log.csv:1: has no column cpu, which the mapping names; it has id, who"):
            read_csv(tmp_path, "", SMALL.replace('"cores"', '"cpu"'))


class TestMappingFile:
    @pytest.mark.parametrize(
        ("old", "new", "problem"),
        [
            ('"s" }\nstart', '"fortnight" }\nstart', ":4: columns.submit.unit: got 'fortnight', expected one of"),
            ("submit = ", "submitted = ", "columns.submitted: got 'submitted', expected one of"),
            (
                'submit = { column = "came", unit = "s" }',
                "",
                "columns.submit: missing, expected the column with the time",
            ),
            ('unit = "min"', 'units = "min"', ":6: "),
            ('is_not = ["draft"]', "", "filter[0].is: missing, expected either is or is_not"),
            ("nodes = 1", "nodes = -1", "constants.nodes: got -1, expected a number from 0"),
            ("nodes = 1", "submit = 1", "constants.submit: got 'submit', expected one of"),
            ('per = "cpu"', 'per = "rack"', "columns.memory.per: got 'rack', expected one of"),
            ('{ column = "ran", unit = "min" }', '"ran"', "columns.run.unit: missing, expected one of"),
            ('who"', 'who"\nformat = "xml"', "columns.format"),
        ],
    )
    def test_what_is_wrong_is_told(self, tmp_path: Path, old: str, new: str, problem: str) -> None:
        assert old in SMALL
        (tmp_path / "mine.toml").write_text(SMALL.replace(old, new, 1))
        with pytest.raises((InputError, InvalidField)) as caught:
            load_mapping(str(tmp_path / "mine.toml"))
        assert problem in str(caught.value)

    def test_a_name_that_is_none_has_a_nearest(self) -> None:
        with pytest.raises(UnknownName, match=r"--mapping: got 'openbb', .*did you mean 'openb'"):
            load_mapping("openbb")


# Those that come with Leasehold, on rows that were made with the published columns


def of_frame(folder: Path, mapping: str, columns: dict[str, list[object]]) -> LogRecord:
    pl.DataFrame(columns).write_parquet(folder / "log.parquet")
    (record,), _ = read(folder / "log.parquet", mapping)
    return record


def of_csv(folder: Path, mapping: str, text: str) -> list[LogRecord]:
    (folder / "log.csv").write_text(text)
    return read(folder / "log.csv", mapping)[0]


NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)


class TestPackaged:
    def test_every_one_is_valid_and_tested_here(self) -> None:
        assert list(packaged_mappings()) == ["f-data", "in2p3", "kueue", "openb", "pm100", "spot-gpu"]
        for name in packaged_mappings():
            assert load_mapping(name).title

    def test_openb(self, tmp_path: Path) -> None:
        one, other = of_csv(
            tmp_path,
            "openb",
            "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
            "pod-1,3152,16384,1,460,V100M16|V100M32,BE,Succeeded,100,700,130\n"
            "pod-2,12000,32768,2,1000,A10,LS,Running,200,900,200\n",
        )
        assert (one.allocated_vms, one.gpu_milli, one.gpu_model, one.queue) == (4, 460, "", "BE")
        assert (one.submit_ms, one.wait_ms, one.run_ms, one.memory_mib) == (100_000, 30_000, 570_000, 4096)
        assert (other.allocated_vms, other.gpu_milli, other.gpu_model, other.nodes) == (12, 2000, "A10", 1)
        assert load_mapping("openb").external == {"queue": ("BE",)}

    def test_spot_gpu(self, tmp_path: Path) -> None:
        (record,) = of_csv(
            tmp_path,
            "spot-gpu",
            "job_name,organization,gpu_model,cpu_request,gpu_request,worker_num,submit_time,duration,job_type\n"
            "j1,org7,A100,12,2,4,60,3600,Spot\n",
        )
        assert (record.allocated_vms, record.gpu_milli, record.nodes, record.gpu_model) == (48, 8000, 4, "A100")
        assert (record.user, record.queue, record.run_ms) == ("org7", "Spot", 3_600_000)
        assert load_mapping("spot-gpu").external == {"queue": ("Spot",)}

    def test_pm100(self, tmp_path: Path) -> None:
        record = of_frame(
            tmp_path,
            "pm100",
            {
                "job_id": [5],
                "user_id": [12],
                "group_id": [3],
                "partition": [1],
                "qos": [2],
                "submit_time": [NOON],
                "eligible_time": [NOON + timedelta(seconds=5)],
                "start_time": [NOON + timedelta(seconds=65)],
                "end_time": [NOON + timedelta(hours=1, seconds=65)],
                "time_limit": [120],
                "num_nodes_alloc": [2],
                "num_cores_alloc": [256],
                "num_cores_req": [64],
                "num_gpus_alloc": [8],
                "mem_alloc": [200.0],
            },
        )
        assert (record.submit_ms, record.wait_ms) == (int(NOON.timestamp() * 1000) + 5000, 60_000)
        assert (record.run_ms, record.requested_ms) == (3_600_000, 7_200_000)
        assert (record.allocated_vms, record.requested_vms, record.gpu_milli) == (256, 64, 8000)
        assert (record.source_id, record.gpu_model, record.memory_mib) == ("5", "v100", 746)

    def test_f_data(self, tmp_path: Path) -> None:
        record = of_frame(
            tmp_path,
            "f-data",
            {
                "jid": ["j9"],
                "usr": ["u1"],
                "adt": [NOON],
                "sdt": [NOON + timedelta(minutes=1)],
                "edt": [NOON + timedelta(minutes=11)],
                "duration": [600.0],
                "elpl": [3600.0],
                "nnuma": [3],
                "cnumat": [144],
                "cnumr": [144],
                "mszl": [3 * 2.0**30],
            },
        )
        assert (record.allocated_vms, record.nodes, record.memory_mib) == (144, 3, 64)
        assert (record.wait_ms, record.run_ms, record.requested_ms) == (60_000, 600_000, 3_600_000)

    def test_in2p3(self, tmp_path: Path) -> None:
        (record,) = of_csv(
            tmp_path,
            "in2p3",
            "JobID,User,Account,Partition,Submit,Start,End,Timelimit,AllocCPUS,ReqCPUS,AllocNodes\n"
            "77,u,a,htc,2024-01-01T00:00:00,2024-01-01T00:01:00,2024-01-01T00:11:00,1-00:00:00,4,4,1\n",
        )
        assert (record.wait_ms, record.run_ms, record.requested_ms) == (60_000, 600_000, 86_400_000)

    def test_kueue(self, tmp_path: Path) -> None:
        usage = {"cpu": "500m", "memory": "1Gi", "nvidia.com/gpu": "2"}
        workload = {
            "metadata": {"name": "w1", "namespace": "team-a", "creationTimestamp": "2026-03-02T12:00:00Z"},
            "spec": {"queueName": "batch"},
            "status": {
                "admission": {
                    "clusterQueue": "gpus",
                    "podSetAssignments": [
                        {"count": 1, "resourceUsage": {"cpu": "2"}},
                        {"count": 3, "resourceUsage": usage},
                    ],
                },
                "conditions": [
                    {"type": "Admitted", "status": "True", "lastTransitionTime": "2026-03-02T12:00:30Z"},
                    {"type": "Finished", "status": "True", "lastTransitionTime": "2026-03-02T12:10:30Z"},
                ],
            },
        }
        waiting = {"metadata": workload["metadata"], "spec": {}, "status": {}}
        path = tmp_path / "workloads.json"
        path.write_text(json.dumps({"apiVersion": "v1", "items": [workload, waiting]}, indent=2))
        (record, never), _ = read(path, "kueue")
        assert (record.group, record.queue, record.partition) == ("team-a", "batch", "gpus")
        assert (record.allocated_vms, record.nodes, record.gpu_milli, record.memory_mib) == (3, 4, 2000, 342)
        assert (record.wait_ms, record.run_ms) == (30_000, 600_000)
        assert (never.run_ms, never.allocated_vms) == (-1, -1)
