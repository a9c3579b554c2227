"""What Slurm says of nodes: how much is free, why nothing runs there, and what their features mean."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.jobs.job import Fault
from leasehold.service.drivers.slurm.cluster import BadReply, Node, read_nodes
from leasehold.service.drivers.slurm.driver import problem_of, software_of

REPLIES = Path(__file__).with_name("replies")
NAMES = st.from_regex(r"[a-z][a-z0-9-]{0,12}", fullmatch=True)
WORDS = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=30)


def recorded() -> dict[str, Node]:
    return read_nodes((REPLIES / "troubled-nodes-22.05.txt").read_text(encoding="utf-8"))


def node(*words: str, reason: str = "") -> Node:
    return Node("n1", 4, 2000, flags=words, reason=reason)


class TestARecordedReply:
    def test_has_features_and_what_is_free(self) -> None:
        one = recorded()["alpha1"]
        assert one.features == ("gcc-12.2", "python3=3.11", "avx2")
        assert (one.cpus, one.free_cpus, one.memory_mib, one.allocated_memory_mib) == (4, 1, 2000, 1500)
        assert one.disk_mib == 10_240

    def test_has_the_words_of_a_state_and_its_reason(self) -> None:
        assert recorded()["alpha2"].flags == ("DOWN", "NOT_RESPONDING")
        assert recorded()["alpha2"].reason == "Not responding"

    def test_a_reason_may_look_like_anything(self) -> None:
        one = recorded()["alpha3"]
        assert one.flags == ("IDLE", "DRAIN")
        assert one.reason == "bad disk State=IDLE CPUTot=99"
        assert (one.cpus, one.takes_jobs) == (4, False)

    def test_so_may_a_comment(self) -> None:
        assert recorded()["alpha4"].flags == ("IDLE",)
        assert recorded()["alpha4"].cpus == 4


@given(
    st.dictionaries(NAMES, st.tuples(st.integers(1, 256), st.integers(0, 256), st.integers(1, 10**6)), min_size=1),
    WORDS,
)
def test_whatever_a_reason_says_the_rest_is_read_as_it_was_written(
    written: dict[str, tuple[int, int, int]], reason: str
) -> None:
    text = "\n".join(
        f"NodeName={name} CPUAlloc={taken} CPUEfctv={cpus} CPUTot={cpus} RealMemory={mib} State=IDLE"
        f" Partitions=main Reason={reason} [root@2026-11-21T15:29:00]"
        for name, (cpus, taken, mib) in written.items()
    )
    read = read_nodes(text)
    assert {name: (one.cpus, one.free_cpus, one.memory_mib, one.flags) for name, one in read.items()} == {
        name: (cpus, max(0, cpus - taken), mib, ("IDLE",)) for name, (cpus, taken, mib) in written.items()
    }


@pytest.mark.parametrize("text", ["slurm_load_node error", "NodeName=n1 CPUTot=4", "NodeName=n1 CPUTot=x RealMemory=1"])
def test_what_cannot_be_read_is_no_list_of_nodes(text: str) -> None:
    with pytest.raises(BadReply, match="scontrol answered something"):
        read_nodes(text)


class TestTrouble:
    @pytest.mark.parametrize("words", [("IDLE",), ("MIXED", "COMPLETING"), ("ALLOCATED",), ("IDLE", "PLANNED")])
    def test_a_node_that_works_has_none(self, words: tuple[str, ...]) -> None:
        assert problem_of(node(*words)) is None

    @pytest.mark.parametrize(
        ("words", "refuses", "fault"),
        [
            (("ALLOCATED", "NOT_RESPONDING"), False, Fault.NETWORK_FAILED),
            (("ALLOCATED", "NOT_RESPONDING"), True, Fault.SERVICE_STOPPED),
            (("DOWN", "NOT_RESPONDING"), False, Fault.NODE_DIED),
            (("DOWN", "NOT_RESPONDING"), True, Fault.SERVICE_STOPPED),
            (("DOWN",), False, Fault.SERVICE_STOPPED),
        ],
    )
    def test_silence_is_the_network_the_node_or_its_slurmd(
        self, words: tuple[str, ...], fault: Fault, *, refuses: bool
    ) -> None:
        found = problem_of(node(*words), refuses=refuses)
        assert found is not None
        assert found.fault is fault

    def test_a_node_that_was_restarted_had_died(self) -> None:
        found = problem_of(node("DOWN", reason="Node unexpectedly rebooted"))
        assert found is not None
        assert (found.fault, found.text) == (
            Fault.NODE_DIED,
            "Slurm: the node is down: Node unexpectedly rebooted",
        )

    @pytest.mark.parametrize(
        ("words", "text"),
        [
            (("MIXED", "DRAIN"), "Slurm: the node is drained: new disks"),
            (("IDLE", "MAINTENANCE", "RESERVED"), "Slurm: the node is under maintenance: new disks"),
            (("IDLE", "POWERED_DOWN"), "Slurm: the node is powered down: new disks"),
        ],
    )
    def test_what_only_keeps_others_out_harms_nobody_there(self, words: tuple[str, ...], text: str) -> None:
        found = problem_of(node(*words, reason="new disks"))
        assert found is not None
        assert (found.text, found.fault) == (text, None)


@pytest.mark.parametrize(
    ("feature", "software"),
    [
        ("gcc-12.2", ("gcc", "12.2")),
        ("python3=3.11", ("python3", "3.11")),
        ("cuda/12.1", ("cuda", "12.1")),
        ("Matlab=v9.13", ("matlab", "9.13")),
        ("python3-numpy-1.24", ("python3-numpy", "1.24")),
        ("openssl=1:3.0.7-24", ("openssl", "1:3.0.7-24")),
        ("avx2", ("avx2", "")),
        ("x86-64-v3", ("x86-64-v3", "")),
    ],
)
def test_a_feature_is_a_name_and_perhaps_a_version(feature: str, software: tuple[str, str]) -> None:
    assert software_of([feature]) == {software}


@given(NAMES.filter(lambda name: not name.endswith("-")), st.from_regex(r"[0-9]+(\.[0-9]+){0,2}", fullmatch=True))
def test_every_way_to_write_a_version_is_the_same(name: str, version: str) -> None:
    assert software_of(f"{name}{sign}{version}" for sign in "=/-") == {(name, version)}
