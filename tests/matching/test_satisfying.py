"""A node satisfies needs, or not now, or never, with the first reason."""

from typing import Any

import pytest
from tests.matching.making import make_job, make_node

from leasehold.matching.needs import Amounts, InputFile
from leasehold.matching.nodes import EvaluationTime, Link, Network, judge
from leasehold.matching.verdict import FITS, Feasibility, Verdict, Why, never, sentence, wait
from leasehold.model.errors import InvalidField

HALF = Amounts(2, 500, 500)
TWO_HALVES = Amounts(4, 1_000, 1_000, (500, 500))
WHOLE_T4: dict[str, Any] = {"gpu_model": "t4", "gpu_shares": 0}
STORED = InputFile("sky.fits", 10, "", sha256="ab" * 32)
ELSEWHERE = InputFile("sky.fits", 10, "store")
"""It is read from where it lies: nobody brings it."""


@pytest.mark.parametrize(
    ("job", "node", "verdict"),
    [
        ({}, {}, FITS),
        ({"needs": "gcc"}, {}, never(Why.SOFTWARE_NOT_THERE, "gcc")),
        ({"needs": "gcc >= 12"}, {"has": {"gcc": "9"}}, never(Why.SOFTWARE_OTHER_VERSION, "gcc >= 12")),
        ({"outputs": ("out",)}, {"takes_files": False}, never(Why.TAKES_NO_FILES)),
        ({"inputs": (STORED,)}, {"takes_files": False}, never(Why.TAKES_NO_FILES)),
        ({"inputs": (ELSEWHERE,)}, {"takes_files": False}, FITS),
        ({"inputs": (STORED,), "outputs": ("out",)}, {}, FITS),
        ({"cores": 5, "outputs": ("out",)}, {"takes_files": False}, never(Why.TAKES_NO_FILES)),
        ({"cores": 5}, {}, never(Why.TOO_FEW_CORES)),
        ({"memory_mib": 1_001}, {}, never(Why.TOO_LITTLE_MEMORY)),
        ({"cpu_mhz": 2_001}, {}, never(Why.CPU_TOO_SLOW)),
        ({"disk_mib": 1_001}, {}, never(Why.TOO_LITTLE_DISK)),
        ({"gpu_milli": 1_000}, {}, never(Why.TOO_FEW_GPUS)),
        ({"gpu_milli": 500}, {}, never(Why.TOO_FEW_GPUS)),
        ({"gpu_milli": 3_000, "gpu_model": "a100"}, {"gpus": 2, "gpu_model": "t4"}, never(Why.TOO_FEW_GPUS)),
        ({"gpu_milli": 1_000, "gpu_model": "a100"}, {"gpus": 2, "gpu_model": "t4"}, never(Why.OTHER_GPU_MODEL)),
        ({"gpu_milli": 500, "gpu_model": "a100"}, {"gpus": 2, **WHOLE_T4}, never(Why.OTHER_GPU_MODEL)),
        ({"gpu_milli": 500}, {"gpus": 2, **WHOLE_T4}, never(Why.GPUS_LENT_WHOLE)),
        ({"gpu_milli": 1_000}, {"gpus": 2, **WHOLE_T4}, FITS),
        ({"gpu_milli": 500}, {"gpus": 1, "gpu_model": "t4"}, FITS),
        ({"gpu_milli": 1_000}, {"gpus": 2, "gpu_model": "t4", "free": HALF}, wait(Why.GPUS_IN_USE)),
        ({"gpu_milli": 1_000}, {"gpus": 2, "gpu_shares": 2, "free": TWO_HALVES}, wait(Why.GPUS_IN_USE)),
        ({"gpu_milli": 600}, {"gpus": 2, "gpu_shares": 2, "free": TWO_HALVES}, wait(Why.GPUS_IN_USE)),
        ({"gpu_milli": 500}, {"gpus": 2, "gpu_shares": 2, "free": TWO_HALVES}, FITS),
        ({"gpu_milli": 2_000}, {"gpus": 2, "gpu_model": "t4"}, FITS),
        ({"gpu_milli": 2_000, "gpu_model": "t4"}, {"gpus": 2, "gpu_model": "t4"}, FITS),
        ({"cores": 3}, {"free": HALF}, wait(Why.CORES_IN_USE)),
        ({"memory_mib": 501}, {"free": HALF}, wait(Why.MEMORY_IN_USE)),
        ({"disk_mib": 501}, {"free": HALF}, wait(Why.DISK_IN_USE)),
        ({"cores": 2, "memory_mib": 500, "disk_mib": 500}, {"free": HALF}, FITS),
        ({"deadline_ms": 1_151}, {}, FITS),
        ({"deadline_ms": 1_150}, {}, never(Why.DEADLINE_TOO_TIGHT)),
        ({"deadline_ms": 1_151}, {"waiting_ms": 1}, wait(Why.DEADLINE_BEHIND_QUEUE)),
        ({}, {"seen_ms": -901}, wait(Why.FACTS_TOO_OLD)),
        ({"cores": 5, "deadline_ms": 2}, {"seen_ms": -901}, never(Why.TOO_FEW_CORES)),
    ],
)
def test_the_first_thing_that_is_lacking_is_told(job: dict[str, Any], node: dict[str, Any], verdict: Verdict) -> None:
    """Now is 100 ms after submission, files take 50 ms, the job 1,000 ms, and facts are good for a second."""
    moment = EvaluationTime(now_ms=100, fresh_for_ms=1_000)
    assert judge(make_job(**job), make_node(**node), 50, moment) == verdict


def test_answers_are_ordered() -> None:
    assert Feasibility.NEVER < Feasibility.WAIT < Feasibility.FIT


def test_every_reason_has_a_sentence() -> None:
    assert len({sentence(why) for why in Why}) == len(Why)


class TestTransfer:
    network = Network(Link(10, 1_000_000), {("far", "here"): Link(200, 500_000)})

    def test_is_delay_and_size_over_bandwidth_for_each_place(self) -> None:
        """From afar 200 ms and 3 MB at 0.5 MB/s; from elsewhere 10 ms and 2 MB at 1 MB/s; here, nothing."""
        files = (
            InputFile("a", 1_000_000, "far"),
            InputFile("b", 2_000_000, "far"),
            InputFile("c", 2_000_000, "elsewhere"),
            InputFile("d", 9_000_000, "here"),
        )
        assert self.network.transfer_ms(files, "here", 10_000_000) == 6_200 + 2_010

    def test_is_no_faster_than_the_interface_of_the_node(self) -> None:
        assert self.network.transfer_ms((InputFile("a", 1_000_001, "far"),), "here", 100_000) == 10_201

    def test_of_nothing_takes_no_time(self) -> None:
        assert self.network.transfer_ms((), "here", 1) == 0


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(InvalidField, match="free of n1"):
        make_node(free=Amounts(5, 0, 0))
    with pytest.raises(InvalidField, match="deadline_ms"):
        make_job(submitted_ms=5, deadline_ms=5)
    with pytest.raises(InvalidField, match="nodes: got 0"):
        make_job(nodes=0)
    with pytest.raises(InvalidField, match="memory_mib"):
        Amounts(memory_mib=-1)
    with pytest.raises(InvalidField, match="size_bytes of a"):
        InputFile("a", -1, "here")
    with pytest.raises(InvalidField, match="way"):
        Link(0, 0)
