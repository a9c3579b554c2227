"""A gateway that is killed while it writes leaves whole transactions, and every one that it had committed."""

from collections.abc import Callable
from typing import Any

import pytest

from leasehold.service.store.store import Store, open_store

STAGES = ("claimed", "leases", "journal", "all", "kept")


def transactions_in(store: Store) -> int:
    """How many transactions are in a store; all of each, or it fails."""
    number = int(store.snapshots().get("last", 0))
    assert len(store.live_leases()) == len(store.open_orders()) == number * 10
    assert [line.seq for line in store.journal(0, 10_000)] == list(range(1, number * 30 + 1))
    return number


def hear(gateway: Any, stage: str) -> None:
    while not (words := gateway.hear()).endswith(stage):
        assert words, f"it ended before it said {stage!r}"


@pytest.mark.storm
@pytest.mark.parametrize("killed_at", STAGES)
def test_only_whole_transactions_are_left(
    store_url: str, another_gateway: Callable[[str], Any], killed_at: str
) -> None:
    kept = 0
    for _ in range(2):
        gateway = another_gateway(store_url)
        hear(gateway, "claimed")
        for _ in range(2):
            gateway.go_on()
            hear(gateway, "kept")
            kept += 1
        gateway.go_on()
        if killed_at != "claimed":
            hear(gateway, killed_at)
        said = "kept" if killed_at == "kept" else " ".join(gateway.kill())
        gateway.kill()
        with open_store(store_url) as store:
            found = transactions_in(store)
        assert kept + ("kept" in said) <= found <= kept + 1
        kept = found
