"""Emulated machines that are written down, forgotten and read again are as if nothing had been between."""

from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.service.drivers.programs import Program, programs
from tests.service.drivers.sites import machines, told

from leasehold.service.drivers.emulated.fault_injection import Faults
from leasehold.service.drivers.emulated.record import (
    FILE,
    Action,
    AuditLine,
    EmulatedStore,
    brought_up_twice,
    read_audit,
)
from leasehold.service.drivers.protocol import Observation, Problem, Verb
from leasehold.service.drivers.reconciler import instances, store
from leasehold.testing.driver_rig import order

FAULTY = Faults(fail_orders=0.2, refuse_orders=0.1, lose_memory=0.2, crash_per_hour=50_000, slow_factor=1.5)

Life = list[tuple[dict[str, Problem], list[Observation]]]
"""The problems and the news of each batch."""


def uninterrupted(program: Program) -> tuple[Life, list[AuditLine]]:
    """Live a program through in one go."""
    site, now_ms, life = machines(faults=FAULTY), 0, Life()
    for gap_ms, batch in program:
        now_ms += gap_ms
        life.append((site.carry_out(batch, now_ms), site.pass_time(now_ms)))
    return life, site.take_unwritten().audit


def interrupted(program: Program, after: set[int], folder: Path) -> tuple[Life, list[AuditLine]]:
    """Live it through in a file, forgetting everything else after some of the batches."""
    record, now_ms, life = EmulatedStore(folder, audit_lines=9_999), 0, Life()
    site = machines(faults=FAULTY, saved=record.load())
    for number, (gap_ms, batch) in enumerate(program):
        now_ms += gap_ms
        life.append((site.carry_out(batch, now_ms), site.pass_time(now_ms)))
        record.save(site.take_unwritten())
        if number in after:
            record.close()
            record = EmulatedStore(folder, audit_lines=9_999)
            site = machines(faults=FAULTY, saved=record.load())
    record.close()
    return life, read_audit(folder / FILE)


@given(programs(), st.sets(st.integers(0, 20), max_size=4))
def test_who_was_killed_and_read_again_lives_the_same_life(program: Program, after: set[int]) -> None:
    with TemporaryDirectory() as folder:
        assert interrupted(program, after, Path(folder)) == uninterrupted(program)


def test_what_was_due_meanwhile_happens_at_its_time(tmp_path: Path) -> None:
    with closing(EmulatedStore(tmp_path, 99)) as record:
        site = machines()
        told(site, 0, order(Verb.START, command=("sleep", "0.1")))
        record.save(site.take_unwritten())
        reopened = machines(saved=record.load())
        assert [one.since_ms for one in reopened.pass_time(5_000)] == [100]


def test_old_lines_of_the_audit_go_and_their_numbers_are_not_used_again(tmp_path: Path) -> None:
    with closing(EmulatedStore(tmp_path, audit_lines=5)) as record:
        site = machines(slots=99)
        for lease_id in range(1, 9):
            told(site, lease_id, order(Verb.START, lease_id))
            record.save(site.take_unwritten())
        assert [line.lease_id for line in read_audit(tmp_path / FILE)] == [6, 7, 7, 8, 8]
        assert [line.action for line in record.audit_of(6, most=9)] == [Action.RUN]
        assert [line.action for line in record.audit_of(8, most=1)] == [Action.RUN]


def test_who_went_long_ago_is_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instances, "MAX_TOMBSTONES", 3)
    monkeypatch.setattr(store, "MAX_TOMBSTONES", 3)
    with closing(EmulatedStore(tmp_path, 99)) as record:
        site = machines()
        for incarnation, lease_id in enumerate((1, 2, 3, 1, 4), 1):
            told(site, 0, order(Verb.STOP, lease_id, incarnation))
            record.save(site.take_unwritten())
        for here in (site, machines(saved=record.load())):
            assert [here.tombstone(lease_id) for lease_id in (1, 2, 3, 4)] == [4, -1, 3, 5]


def test_the_audit_tells_who_came_up_twice() -> None:
    lines = [
        AuditLine(0, 1, 1, Action.BOOT),
        AuditLine(0, 1, 1, Action.RUN),
        AuditLine(1, 1, 2, Action.LOAD),
        AuditLine(2, 2, 1, Action.BOOT),
        AuditLine(3, 2, 1, Action.RECEIVE),
    ]
    assert brought_up_twice(lines) == [(2, 1)]
