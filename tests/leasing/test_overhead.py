"""What preemption costs: the published figures, how they scale, and who waits for whom."""

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.leasing.overhead import OverheadModel, Storage
from leasehold.model.errors import InvalidField
from leasehold.model.request import LeaseType

GIB = 1024
SUSPEND_MS, RESUME_MS, MIGRATE_MS = 160_000, 126_000, 372_500


def test_the_defaults_give_the_published_figures() -> None:
    model = OverheadModel()
    assert model.suspend_ms(GIB) == SUSPEND_MS
    assert model.resume_ms(GIB) == RESUME_MS
    assert model.migrate_ms(GIB) == MIGRATE_MS
    assert model.terminate_ms == 0


@pytest.mark.parametrize(
    ("lease_type", "held_up_ms"),
    [
        (LeaseType.CANCELABLE, 0),
        (LeaseType.SUSPENDABLE, SUSPEND_MS + RESUME_MS),
        (LeaseType.MIGRATABLE, MIGRATE_MS),
    ],
)
def test_a_preemption_is_charged_for_each_vm(lease_type: LeaseType, held_up_ms: int) -> None:
    model = OverheadModel()
    assert model.preempt_ms(lease_type, GIB, vms=5) == held_up_ms
    assert model.cost_vm_ms(lease_type, GIB, vms=5) == 5 * held_up_ms


def test_a_non_preemptable_lease_has_no_price() -> None:
    with pytest.raises(InvalidField, match="lease_type: got 'non-preemptable'"):
        OverheadModel().cost_vm_ms(LeaseType.NON_PREEMPTABLE, GIB, vms=1)


def test_nodes_with_disks_of_their_own_work_side_by_side() -> None:
    model = OverheadModel(storage=Storage.LOCAL)
    assert model.suspend_ms(GIB, vms=7) == SUSPEND_MS
    assert model.migrate_ms(GIB, vms=7) == MIGRATE_MS


@pytest.mark.parametrize(("vms", "in_turn"), [(1, 1), (3, 3), (4, 4), (5, 4), (8, 4)])
def test_the_vms_of_one_node_wait_for_each_other(vms: int, in_turn: int) -> None:
    model = OverheadModel(vms_per_node=4)
    assert model.suspend_ms(GIB, vms) == in_turn * SUSPEND_MS
    assert model.resume_ms(GIB, vms) == in_turn * RESUME_MS
    assert model.migrate_ms(GIB, vms) == in_turn * MIGRATE_MS


def test_with_shared_storage_all_vms_of_a_lease_wait_for_each_other() -> None:
    model = OverheadModel(storage=Storage.SHARED)
    assert model.suspend_ms(GIB, vms=7) == 7 * SUSPEND_MS
    assert model.cost_vm_ms(LeaseType.SUSPENDABLE, GIB, vms=7) == 7 * 7 * (SUSPEND_MS + RESUME_MS)


def test_memory_and_bandwidth_scale_the_times() -> None:
    assert OverheadModel().suspend_ms(GIB // 2) == SUSPEND_MS // 2
    assert OverheadModel().resume_ms(4 * GIB) == 4 * RESUME_MS
    # 1 GiB is 8,589,934,592 bits: 85.9 s at 100 Mbit/s, 8.59 s at 1 Gbit/s
    assert OverheadModel(network_mbps=1_000).migrate_ms(GIB) == MIGRATE_MS - 85_900 + 8_590


@given(st.integers(1, 10**6), st.integers(0, 10**7), st.integers(1, 10**5))
def test_times_are_the_exact_ones_rounded_up(memory_mib: int, ms_per_gib: int, mbps: int) -> None:
    model = OverheadModel(suspend_ms_per_gib=ms_per_gib, resume_ms_per_gib=0, network_mbps=mbps)
    saving = Fraction(memory_mib * ms_per_gib, 1024)
    sending = Fraction(memory_mib * 2**20 * 8, mbps * 1000)
    assert 0 <= model.suspend_ms(memory_mib) - saving < 1
    assert 0 <= model.migrate_ms(memory_mib) - (saving + sending + 600) < 2


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("suspend_ms_per_gib", -1),
        ("resume_ms_per_gib", 1.5),
        ("network_mbps", 0),
        ("migrate_fixed_ms", float("nan")),
        ("terminate_ms", True),
        ("vms_per_node", 0),
        ("storage", "tape"),
    ],
)
def test_a_wrong_setting_is_named(field: str, value: object) -> None:
    settings: dict[str, Any] = {field: value}
    with pytest.raises(InvalidField) as caught:
        OverheadModel(**settings)
    assert caught.value.field == field
