"""Whoever looked for garbage before many records were made does so afterwards, and nobody else."""

import gc

import pytest

from leasehold.service.engine.garbage import collecting_no_garbage


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
