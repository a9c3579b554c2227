"""Finding enactors by kind: Leasehold's own, and other people's."""

from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest
from tests.service.enactors.sites import Clock, setup

from leasehold.model.errors import InvalidField, UnknownName
from leasehold.service.enactors import registry
from leasehold.service.enactors.emulated.enactor import EmulatedEnactor
from leasehold.service.enactors.registry import enactor, enactor_factory, enactor_kinds
from leasehold.service.enactors.setup import EnactorSetup

NOT_AN_ENACTOR = 7


class Theirs(EmulatedEnactor):
    """What somebody else's package might have."""


def test_machines_are_made_by_kind(tmp_path: Path) -> None:
    assert enactor_factory("emulated") is EmulatedEnactor
    with pytest.raises(InvalidField, match="boot_s"):
        enactor("emulated", setup(tmp_path, Clock(), boot_s=-1))


def test_an_unknown_kind_is_answered_with_the_nearest_one(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="did you mean 'emulated'"):
        enactor("emulate", setup(tmp_path, Clock()))


def test_other_peoples_enactors_are_found_by_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    here = [
        EntryPoint("theirs", f"{__name__}:Theirs", registry.ENTRY_POINT_GROUP),
        EntryPoint("emulated", f"{__name__}:Theirs", registry.ENTRY_POINT_GROUP),
        EntryPoint("broken", f"{__name__}:NOT_AN_ENACTOR", registry.ENTRY_POINT_GROUP),
    ]
    monkeypatch.setattr(registry, "entry_points", lambda **wanted: EntryPoints(here).select(**wanted))
    assert enactor_kinds() == ["emulated", "broken", "theirs"]
    assert enactor_factory("theirs") is Theirs
    assert enactor_factory("emulated") is EmulatedEnactor
    with pytest.raises(InvalidField, match="a callable that takes an EnactorSetup"):
        enactor_factory("broken")


def test_a_setup_has_no_options_unless_it_is_told(tmp_path: Path) -> None:
    told = setup(tmp_path, Clock())
    plain = EnactorSetup(
        told.site, told.slots, told.speed_mips, told.reference_mips, told.overhead, tmp_path, told.clock
    )
    assert plain.options == {}
