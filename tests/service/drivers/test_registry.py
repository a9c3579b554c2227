"""Finding drivers by kind: Leasehold's own, and other people's."""

from collections.abc import Mapping
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any

import pytest
from tests.service.drivers.sites import Clock, setup

from leasehold.model.errors import InputError, InvalidField, UnknownName
from leasehold.service.config_file import load_config
from leasehold.service.drivers import registry
from leasehold.service.drivers.emulated.driver import EmulatedDriver, emulated_driver
from leasehold.service.drivers.protocol import DriverSetup
from leasehold.service.drivers.registry import driver, driver_factory, driver_kinds

NOT_AN_DRIVER = 7


class Theirs(EmulatedDriver):
    """What somebody else's package might have."""

    @staticmethod
    def check_options(options: Mapping[str, Any]) -> None:
        if "colour" in options:
            raise InvalidField("colour", options["colour"], "no colour")


def test_machines_are_made_by_kind(tmp_path: Path) -> None:
    assert driver_factory("emulated") is emulated_driver
    with pytest.raises(InvalidField, match="boot_s"):
        driver("emulated", setup(tmp_path, Clock(), boot_s=-1))


def test_an_unknown_kind_is_answered_with_the_nearest_one(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="did you mean 'emulated'"):
        driver("emulate", setup(tmp_path, Clock()))


@pytest.fixture
def others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have other people's packages installed."""
    here = [
        EntryPoint("theirs", f"{__name__}:Theirs", registry.ENTRY_POINT_GROUP),
        EntryPoint("emulated", f"{__name__}:Theirs", registry.ENTRY_POINT_GROUP),
        EntryPoint("broken", f"{__name__}:NOT_AN_DRIVER", registry.ENTRY_POINT_GROUP),
    ]
    monkeypatch.setattr(registry, "entry_points", lambda **wanted: EntryPoints(here).select(**wanted))


@pytest.mark.usefixtures("others")
def test_other_peoples_drivers_are_found_by_entry_point() -> None:
    assert driver_kinds() == [*registry.DRIVERS, "broken", "theirs"]
    assert driver_factory("theirs") is Theirs
    assert driver_factory("emulated") is emulated_driver
    with pytest.raises(InvalidField, match="a callable that takes a DriverSetup"):
        driver_factory("broken")


@pytest.mark.usefixtures("others")
def test_other_peoples_drivers_may_check_their_options_before_any_is_made(tmp_path: Path) -> None:
    file = tmp_path / "leasehold.toml"
    site = '[[cluster]]\nname = "a"\nslots = 4\ndriver = "theirs"\n[cluster.theirs]\n'
    file.write_text(f'{site}colour = "red"\n')
    with pytest.raises(InputError, match=r"toml:6: cluster\[0\]\.theirs\.colour: got 'red', expected no"):
        load_config(file)
    file.write_text(f"{site}size = 3\n")
    assert load_config(file).clusters[0].options == {"size": 3}


def test_a_setup_has_no_options_unless_it_is_told(tmp_path: Path) -> None:
    told = setup(tmp_path, Clock())
    plain = DriverSetup(
        told.site, told.slots, told.speed_mips, told.reference_mips, told.overhead, tmp_path, told.clock
    )
    assert plain.options == {}
