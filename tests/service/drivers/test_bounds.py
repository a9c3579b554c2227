"""Whatever a machine says is read without an error, and nothing of it is believed that no store can keep."""

import json
from contextlib import suppress
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from leasehold.jobs.job import Fault
from leasehold.model.errors import InvalidField
from leasehold.service.drivers.bounds import (
    LATEST_MS,
    exit_status_in,
    one_line,
    storable,
    time_ms_in,
    whole_in,
)
from leasehold.service.drivers.ec2.driver import INCARNATION, LEASE, read_instance
from leasehold.service.drivers.ec2.driver import exit_status as ec2_exit_status
from leasehold.service.drivers.facts import MOST_OUTPUT, NodeFacts, Output
from leasehold.service.drivers.opennebula.api import MOST_MESSAGE
from leasehold.service.drivers.opennebula.driver import EXIT_STATUS, MARK, read_machine
from leasehold.service.drivers.protocol import Observation, Phase
from leasehold.service.drivers.slurm.cluster import BadReply, read_jobs, read_nodes
from leasehold.service.drivers.slurm.probes import BEGINS, ENDS, BadReport, read_report

HUGE = 10**30
LIES: list[object] = [
    HUGE,
    -1,
    256,
    "9" * 5_000,
    "",
    "garbage",
    "1e3",
    "\N{ARABIC-INDIC DIGIT FIVE}",
    "0x1",
    None,
    True,
    3.0,
    [],
    {},
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize("lie", LIES)
def test_no_exit_status_is_made_of_a_lie(lie: object) -> None:
    assert exit_status_in(lie) is None


@given(st.integers(), st.integers(0, 10**6), st.integers(0, 10**6))
@example(HUGE, 0, 255)
def test_a_number_is_believed_in_its_bounds_alone_however_it_is_written(number: int, least: int, most: int) -> None:
    expected = number if least <= number <= most else None
    assert whole_in(number, least, most) == expected
    assert whole_in(f" {number}\n", least, most) == expected


@given(st.text() | JSON)
def test_whatever_is_said_is_read_without_an_error(said: object) -> None:
    assert time_ms_in(said) is None or 0 <= time_ms_in(said) <= LATEST_MS  # type: ignore[operator]
    assert exit_status_in(said) is None or exit_status_in(said) in range(256)


@given(st.text(), st.integers(1, 50))
def test_a_line_is_short_and_has_nothing_that_a_terminal_obeys(said: str, most: int) -> None:
    line = one_line(said, most)
    assert len(line) <= most
    assert line.isprintable()
    assert one_line(line, most) == line


def test_escapes_and_marks_that_turn_text_around_are_taken_out() -> None:
    assert one_line("a\x1b]0;owned\x07b\x1b[2Jc\u202ed\r\ne\x9bf\ud800") == "a ]0;owned b [2Jc d e f"


@given(st.text(st.characters()))
def test_what_is_stored_is_storable_and_plain_text_stays(said: str) -> None:
    kept = storable(said)
    assert "\0" not in kept
    kept.encode()
    if "\0" not in said:
        with suppress(UnicodeEncodeError):
            assert kept == said.encode().decode()


class TestObservation:
    @pytest.mark.parametrize(
        "field", [{"lease_id": HUGE}, {"incarnation": HUGE}, {"since_ms": HUGE}, {"exit_status": HUGE}]
    )
    def test_one_that_cannot_be_stored_cannot_be_made(self, field: dict[str, int]) -> None:
        usual = {"lease_id": 1, "incarnation": 1, "since_ms": 1}
        with pytest.raises(InvalidField, match=next(iter(field))):
            Observation(phase=Phase.ENDED, **(usual | field))  # type: ignore[arg-type]

    def test_a_fault_is_one_that_there_is(self) -> None:
        with pytest.raises(InvalidField, match="fault"):
            Observation(1, 1, Phase.FAILED, 1, fault="bad luck")
        assert Observation(1, 1, Phase.FAILED, 1, fault=Fault.NODE_DIED.value).fault == "node-died"

    @given(st.text())
    def test_what_is_said_of_machines_is_one_line(self, said: str) -> None:
        seen = Observation(1, 1, Phase.FAILED, 1, said)
        assert seen.detail.isprintable()
        assert len(seen.detail) <= 2_000


@given(st.text())
def test_what_a_command_wrote_can_be_stored(said: str) -> None:
    assert "\0" not in Output(said).text


def test_of_an_endless_output_the_end_is_kept_and_that_is_said() -> None:
    kept = Output("x" * MOST_OUTPUT + "end")
    assert (len(kept.text), kept.text[-3:], kept.is_whole) == (MOST_OUTPUT, "end", False)


def test_a_node_of_sizes_that_cannot_be_is_not_made() -> None:
    sizes: dict[str, Any] = dict.fromkeys(
        ("cores", "memory_mib", "disk_mib", "free_cores", "free_memory_mib", "free_disk_mib"), 1
    )
    assert NodeFacts(name="n1", problem="\x1b[2J", **sizes).problem == "[2J"
    with pytest.raises(InvalidField, match="memory_mib"):
        NodeFacts(name="n1", **(sizes | {"memory_mib": HUGE}))


class TestParsers:
    """Each reader of what machines, or users of a cluster, may have written."""

    @given(st.text())
    @example("leasehold: exit status " + "9" * 5_000)
    @example(f"leasehold: exit status {HUGE}\n")
    def test_consoles_of_ec2(self, console: str) -> None:
        status = ec2_exit_status(console)
        assert status is None or status in range(256)

    def test_a_console_that_says_it_is_believed(self) -> None:
        assert ec2_exit_status("boots\nleasehold: exit status 3\r\n") == 3

    @given(*[st.text()] * 4)
    @example("9" * 16, "1", "2", "9" * 5_000)
    @example("1", "2", "99999999999999999999", "256")
    def test_machines_of_opennebula(self, lease: str, number: str, state: str, status: str) -> None:
        described, texts = ET.Element("VM"), {"ID": number, "STATE": state, "LCM_STATE": state}
        for name, text in texts.items():
            ET.SubElement(described, name).text = text
        context = ET.SubElement(ET.SubElement(described, "TEMPLATE"), "CONTEXT")
        ET.SubElement(context, MARK).text = f"a {lease} 1 {number}"
        user = ET.SubElement(described, "USER_TEMPLATE")
        ET.SubElement(user, EXIT_STATUS.rpartition("/")[2]).text = ET.SubElement(user, "ERROR").text = status
        found = read_machine(described, "a")
        if found is not None:
            assert found.exit_status is None or found.exit_status in range(256)
            assert max(*found.key, found.number, found.id, found.state, found.lcm_state) <= LATEST_MS
            assert len(found.why) <= MOST_MESSAGE
            assert found.why.isprintable()

    @given(st.text(), st.text())
    @example("9" * 4_000, "1")
    def test_tags_of_ec2(self, lease: str, generation: str) -> None:
        tags = [{"Key": LEASE, "Value": lease}, {"Key": INCARNATION, "Value": generation}]
        found = read_instance({"Tags": tags, "InstanceId": "i-1", "State": {"Name": "running"}})
        assert found is None or max(found.key) <= LATEST_MS

    @given(
        st.text()
        | st.lists(
            st.sampled_from(["module x", "mhz 9" + "9" * 5_000, "disk \N{ARABIC-INDIC DIGIT FIVE} 1", "package a 1"])
        ).map("\n".join)
    )
    def test_reports_of_nodes(self, text: str) -> None:
        with suppress(BadReport):
            report = read_report(f"{BEGINS}\n{text}\n{ENDS}")
            assert max(report.cpu_mhz, report.disk_mib) <= LATEST_MS

    @given(
        st.text()
        | JSON.map(json.dumps)
        | st.lists(JSON, max_size=3).map(lambda jobs: json.dumps({"errors": [], "jobs": jobs}))
    )
    @example('{"errors": [], "jobs": [{"job_state": "RUNNING", "job_id": ' + "9" * 5_000 + "}]}")
    @example('{"errors": [], "jobs": [{"job_state": "RUNNING", "job_id": 1, "cpus": -Infinity}]}')
    @example("[" * 100_000)
    def test_answers_of_squeue(self, text: str) -> None:
        with suppress(BadReply):
            read_jobs(text)

    @given(st.text() | st.text().map(lambda value: f"NodeName=n1 CPUTot={value} RealMemory={value} BootTime={value}"))
    def test_answers_of_scontrol(self, text: str) -> None:
        with suppress(BadReply):
            read_nodes(text)
