"""What the doctor says of sites of virtual machines."""

from pathlib import Path

import pytest

from leasehold.service.config import ServiceConfig, SiteSpec
from leasehold.service.doctor import Severity, gateway
from leasehold.service.doctor.gateway import Subject, check_virtual_machines
from leasehold.service.drivers.reconciler.provider import MachineFailed
from leasehold.service.serving import DataFolder


def subject(folder: Path, driver: str = "qemu", **options: object) -> Subject:
    config = ServiceConfig((SiteSpec("das3", 8, driver=driver, options=options),))
    return Subject(config, None, DataFolder(folder, folder))


def test_it_is_silent_where_no_site_has_any(tmp_path: Path) -> None:
    assert check_virtual_machines(subject(tmp_path, "emulated")) == []


@pytest.mark.machines
def test_all_is_well_where_there_is_an_image(tmp_path: Path, image: Path) -> None:
    findings = check_virtual_machines(subject(tmp_path, image=str(image)))
    assert [one.severity for one in findings[:2]] == [Severity.OK, Severity.OK]
    assert all(bool(one.cure) is (one.severity is not Severity.OK) for one in findings)


@pytest.mark.machines
def test_what_images_can_be_built_on_is_looked_at(tmp_path: Path, image: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    about = subject(tmp_path, image=str(image))
    for told, severity, cure in [
        ("", Severity.OK, ""),
        ("nothing can be built on it: build it anew", Severity.NOTE, "build it anew"),
    ]:
        monkeypatch.setattr(gateway, "why_not", lambda *_, told=told: told)
        building = check_virtual_machines(about)[2]
        assert (building.severity, building.cure) == (severity, cure)
    monkeypatch.setattr(gateway, "missing_packages", lambda: ["mmdebstrap"])
    building = check_virtual_machines(about)[2]
    assert building.cure == "apt-get install -y --no-install-recommends mmdebstrap"


@pytest.mark.machines
def test_what_a_guest_could_do_to_others_is_warned_of(
    tmp_path: Path, image: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    told = [
        one for one in check_virtual_machines(subject(tmp_path, image=str(image))) if one.severity is Severity.WARNING
    ]
    as_root, one_disk = told
    assert "its machines run as root" in as_root.text
    assert "in one file system with the store" in one_disk.text
    assert str(tmp_path / "machines") in one_disk.cure
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setattr(gateway, "_file_system", lambda path: path.name)
    told = check_virtual_machines(subject(tmp_path / "x" / "y", image=str(image)))
    assert [one for one in told if one.severity is Severity.WARNING] == []


@pytest.mark.machines
def test_interpreted_machines_are_worth_a_note(tmp_path: Path, image: Path) -> None:
    *_, speed = check_virtual_machines(subject(tmp_path, image=str(image), accelerator="tcg"))
    assert (speed.severity, "interpreted (TCG)" in speed.text) == (Severity.NOTE, True)


def test_what_is_missing_must_be_mended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def there_is_none() -> str:
        raise MachineFailed("there is no qemu-system-x86_64")

    monkeypatch.setattr(gateway, "machine_type", there_is_none)
    qemu, image = check_virtual_machines(subject(tmp_path))
    assert (qemu.severity, image.severity) == (Severity.PROBLEM, Severity.PROBLEM)
    assert "apt-get install" in qemu.cure
    assert image.cure == "leasehold image build"
