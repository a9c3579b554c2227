"""Garbage is looked for after many records were made, not meanwhile; and through few of them at a time."""

import gc

import pytest
from tests.service.engine.job_worlds import Shop, facts, nodes

from leasehold.service.commands import JobNodesSeen
from leasehold.service.engine.engine import collecting_no_garbage
from leasehold.service.store.store import Store


@pytest.mark.parametrize("before", [True, False])
def test_it_is_collected_afterwards_as_before(*, before: bool) -> None:
    was_enabled = gc.isenabled()
    try:
        (gc.enable if before else gc.disable)()
        with collecting_no_garbage():
            assert not gc.isenabled()
        assert gc.isenabled() is before
    finally:
        (gc.enable if was_enabled else gc.disable)()


def test_nodes_that_are_told_of_again_are_never_many_that_nobody_has_looked_through(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By itself Python would not look: there are not more of them than before."""
    most, part = 20, 10
    monkeypatch.setattr("leasehold.service.engine.engine.MAX_UNSEEN_RECORDS", most)
    shop = Shop(store)
    there = [facts(f"n{number}") for number in range(100)]
    names = frozenset(one.name for one in there)
    shop.do(nodes(*there))
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        gc.collect()
        unseen = []
        for first in range(0, len(there), part):
            shop.do(JobNodesSeen("a", tuple(there[first : first + part]), shop.now_ms + 1, names))
            unseen.append(sum(len(gc.get_objects(generation=young)) for young in (0, 1)))
    finally:
        (gc.enable if was_enabled else gc.disable)()
    assert max(unseen) <= 20 * most  # each is some 16 objects
