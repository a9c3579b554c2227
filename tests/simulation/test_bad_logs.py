"""Bad input leaves nothing: no folder, no half of a table, one clear line."""

import gzip
from pathlib import Path

import pytest
from tests.simulation.worlds import LogLine, busy, replaying, swf, write_log

from leasehold.model.errors import InputError, InvariantBroken, LeaseholdError
from leasehold.model.tables import MANIFEST
from leasehold.routing.policies.rr import RoundRobin
from leasehold.routing.policy import Dispatch, RoutingPolicy
from leasehold.routing.registry import ROUTING_POLICIES
from leasehold.simulation import run as running
from leasehold.simulation import table_writer as tables
from leasehold.simulation.kernel import SimulatedWorld
from leasehold.simulation.run import run_scenario
from leasehold.simulation.scenario.spec import Scenario

MANY: list[LogLine] = [(10 * n, 9, 1 + n % 4, 20) for n in range(500)]


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let tables be written in many parts, so that much is on disk when things go wrong."""
    monkeypatch.setattr(tables, "ROWS_PER_BLOCK", 50)


def refused(scenario: Scenario, out: Path) -> str:
    """Run into a folder, see that it is refused in one line and that nothing is left; the line."""
    with pytest.raises(LeaseholdError) as caught:
        run_scenario(scenario, out)
    assert not out.exists()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_log_that_is_cut_off(tmp_path: Path) -> None:
    log = write_log(tmp_path / "own.swf.gz", MANY)
    log.write_bytes(log.read_bytes()[:-200])
    assert "own.swf.gz:" in refused(replaying(log), tmp_path / "run")


def test_a_log_that_is_damaged(tmp_path: Path) -> None:
    log = tmp_path / "own.swf.gz"
    packed = bytearray(gzip.compress(swf(MANY).encode(), mtime=0))
    packed[-6] ^= 0xFF  # of the checksum, which is read after everything else
    log.write_bytes(bytes(packed))
    assert "own.swf.gz:" in refused(replaying(log), tmp_path / "run")


def test_a_log_out_of_order(tmp_path: Path) -> None:
    log = write_log(tmp_path / "own.swf", [*MANY, (4_000, 9, 1, 20)])
    assert "own.swf:502: " in refused(replaying(log), tmp_path / "run")


@pytest.mark.parametrize("field", [0, 11], ids=["job number", "user"])
def test_a_log_with_bytes_that_are_no_text(tmp_path: Path, field: int) -> None:
    words = [
        "501",
        "6000",
        "-1",
        "9",
        "1",
        "-1",
        "-1",
        "1",
        "20",
        "-1",
        "1",
        "1",
        "1",
        "-1",
        "1",
        "1",
        "-1",
        "-1",
    ]
    words[field] = "5\xca1"
    log = tmp_path / "own.swf"
    log.write_bytes(swf(MANY).encode() + " ".join(words).encode("latin-1") + b"\n")
    assert "own.swf:502: " in refused(replaying(log), tmp_path / "run")


@pytest.mark.parametrize("bad", ["nan", "1e400", "x", "-5"])
def test_a_line_that_is_no_job(tmp_path: Path, bad: str) -> None:
    log = tmp_path / "own.swf"
    log.write_text(swf(MANY) + f"501 {bad} -1 9 1 -1 -1 1 20 -1 1 1 1 -1 1 1 -1 -1\n")
    assert "own.swf:502: " in refused(replaying(log), tmp_path / "run")


def test_also_where_the_second_of_two_logs_is_bad(tmp_path: Path) -> None:
    good = write_log(tmp_path / "good.swf", MANY)
    bad = write_log(tmp_path / "bad.swf", [*MANY, (1, 9, 1, 20)])
    stream = {"name": "bad", "log": str(bad), "external": True, "types": {"suspendable": 1.0}}
    values = replaying(good).to_dict()
    values["stream"].append(stream)
    assert "bad.swf:502" in refused(busy(**{k: values[k] for k in ("cluster", "stream")}), tmp_path / "run")


def test_a_policy_that_names_a_site_that_does_not_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Lost(RoundRobin):
        name = "lost"

        def route(self, *_: object) -> Dispatch:
            return Dispatch("c")

    policies: dict[str, type[RoutingPolicy]] = ROUTING_POLICIES
    monkeypatch.setitem(policies, "lost", Lost)
    assert "routing policy lost: site" in refused(busy(gateway={"policy": "lost"}), tmp_path / "run")


def test_a_log_that_is_missing(tmp_path: Path) -> None:
    assert "cannot be read" in refused(replaying(tmp_path / "none.swf"), tmp_path / "run")


def test_the_input_error_says_file_and_line(tmp_path: Path) -> None:
    log = write_log(tmp_path / "own.swf", [*MANY, (4_000, 9, 1, 20)])
    with pytest.raises(InputError) as caught:
        run_scenario(replaying(log), tmp_path / "run")
    assert (caught.value.path, caught.value.line) == (str(log), 502)


def test_a_broken_invariant_is_no_bad_input_and_keeps_what_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> None:
        """Lose every alarm, so that whoever waits is forgotten."""

    monkeypatch.setattr(SimulatedWorld, "_at", never)
    monkeypatch.setattr(running, "runs_alone", never)
    log = write_log(tmp_path / "own.swf", MANY[:3])
    with pytest.raises(InvariantBroken, match="forgotten"):
        run_scenario(replaying(log), tmp_path / "run")
    assert (tmp_path / "run" / MANIFEST).is_file()
