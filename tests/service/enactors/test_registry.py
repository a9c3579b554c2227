"""Finding enactors by kind: Leasehold's own, and other people's."""

from collections.abc import Mapping
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any

import pytest
from tests.service.enactors.sites import Clock, setup

from leasehold.model.errors import InputError, InvalidField, UnknownName
from leasehold.service.config_file import load_config
from leasehold.service.enactors import registry
from leasehold.service.enactors.emulated.enactor import EmulatedEnactor
from leasehold.service.enactors.registry import enactor, enactor_factory, enactor_kinds
from leasehold.service.enactors.setup import EnactorSetup

NOT_AN_ENACTOR = 7


class Theirs(EmulatedEnactor):
    """What somebody else's package might have."""

    @staticmethod
    def check_options(options: Mapping[str, Any]) -> None:
        if "colour" in options:
            raise InvalidField("colour", options["colour"], "no colour")


def test_machines_are_made_by_kind(tmp_path: Path) -> None:
    assert enactor_factory("emulated") is EmulatedEnactor
    with pytest.raises(InvalidField, match="boot_s"):
        enactor("emulated", setup(tmp_path, Clock(), boot_s=-1))


def test_an_unknown_kind_is_answered_with_the_nearest_one(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="did you mean 'emulated'"):
        enactor("emulate", setup(tmp_path, Clock()))


@pytest.fixture
def others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have other people's packages installed."""
    here = [
        EntryPoint("theirs", f"{__name__}:Theirs", registry.ENTRY_POINT_GROUP),
        EntryPoint("emulated", f"{__name__}:Theirs", registry.ENTRY_POINT_GROUP),
        EntryPoint("broken", f"{__name__}:NOT_AN_ENACTOR", registry.ENTRY_POINT_GROUP),
    ]
    monkeypatch.setattr(registry, "entry_points", lambda **wanted: EntryPoints(here).select(**wanted))


@pytest.mark.usefixtures("others")
def test_other_peoples_enactors_are_found_by_entry_point() -> None:
    assert enactor_kinds() == [*registry.ENACTORS, "broken", "theirs"]
    assert enactor_factory("theirs") is Theirs
    assert enactor_factory("emulated") is EmulatedEnactor
    with pytest.raises(InvalidField, match="a callable that takes an EnactorSetup"):
        enactor_factory("broken")


@pytest.mark.usefixtures("others")
def test_other_peoples_enactors_may_check_their_options_before_any_is_made(tmp_path: Path) -> None:
    file = tmp_path / "leasehold.toml"
    site = '[[cluster]]\nname = "a"\nslots = 4\nenactor = "theirs"\n[cluster.theirs]\n'
    file.write_text(f'{site}colour = "red"\n')
    with pytest.raises(InputError, match=r"toml:6: cluster\[0\]\.theirs\.colour: got 'red', expected no"):
        load_config(file)
    file.write_text(f"{site}size = 3\n")
    assert load_config(file).clusters[0].options == {"size": 3}


def test_a_setup_has_no_options_unless_it_is_told(tmp_path: Path) -> None:
    told = setup(tmp_path, Clock())
    plain = EnactorSetup(
        told.site, told.slots, told.speed_mips, told.reference_mips, told.overhead, tmp_path, told.clock
    )
    assert plain.options == {}
