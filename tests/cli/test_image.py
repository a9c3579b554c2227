"""``leasehold image``: an image is built once, and found afterwards. The machines' tests build a real one."""

import json
from pathlib import Path

import pytest
from tests.cli.saying import Cli
from tests.service.drivers.qemu.building import Toolbox, base_in, with_tools

from leasehold.service.drivers.qemu.images import toolchain
from leasehold.service.drivers.qemu.images.image import Description, write_description


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """Something that looks like an image."""
    folder = tmp_path / "an-image"
    folder.mkdir()
    for part in ("vmlinuz", "initrd.gz", "root.qcow2"):
        (folder / part).touch()
    parts = ("vmlinuz", "initrd.gz", "root.qcow2")
    write_description(folder, Description(*parts, 128, has_agent=True, contents="Debian of some day"))
    return folder


def test_one_that_is_there_is_not_built_again(cli: Cli, image: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in image.iterdir()}
    told = json.loads(cli("image", "build", "--out", str(image), "--json").out)
    assert (told["folder"], told["contents"]) == (str(image), "Debian of some day")
    assert told["least_memory_mib"] == 128
    assert {path: path.stat().st_mtime_ns for path in image.iterdir()} == before


def test_what_is_no_link_of_ours_is_not_replaced(cli: Cli, image: Path) -> None:
    said = cli("image", "build", "--out", str(image), "--anew")
    assert (said.code, "remove it" in said.err) == (2, True)


def test_it_is_looked_for_in_the_data_folder(cli: Cli, image: Path, tmp_path: Path) -> None:
    (tmp_path / "data/images").mkdir(parents=True)
    (tmp_path / "data/images/debian").symlink_to(image)
    out = cli("image", "show", "--data", str(tmp_path / "data")).out
    assert out.splitlines()[1:] == ["Debian of some day", "Machines need 128 MiB at least."]


def test_one_that_is_not_there_comes_with_its_cure(cli: Cli, tmp_path: Path) -> None:
    said = cli("image", "show", "--out", str(tmp_path / "none"))
    assert (said.code, "leasehold image build" in said.err) == (2, True)


def test_one_that_lacks_a_part_says_so(cli: Cli, image: Path) -> None:
    (image / "vmlinuz").unlink()
    said = cli("image", "show", "--out", str(image))
    assert (said.code, "vmlinuz: is missing from the image" in said.err) == (2, True)


def test_one_with_packages_is_built_beside_it_and_listed(cli: Cli, tmp_path: Path) -> None:
    base_in(tmp_path / "data/images/debian-1")
    (tmp_path / "data/images/debian").symlink_to("debian-1")
    (tmp_path / "h_dists_b_Packages").touch()
    box, data = Toolbox(tmp_path / "bin"), ("--data", str(tmp_path / "data"))
    with with_tools(box.folder, tmp_path / "h_dists_b_Packages"):
        told = json.loads(cli("image", "build", *data, "--with", "bc=1.07", "--with", "jq=1.6", "--json").out)
    assert told["software"] == {"bc": "1.07", "jq": "1.6"}
    assert told["folder"] == str(tmp_path / "data/images" / told["name"])
    listed = json.loads(cli("image", "list", *data, "--json").out)["images"]
    assert [one["name"] for one in listed] == [told["name"], "debian-1"]
    assert cli("image", "list", *data).out.splitlines()[1] == "debian-1  0 MiB  Debian"


def test_on_one_of_an_earlier_leasehold_none_can_be_built(cli: Cli, image: Path, tmp_path: Path) -> None:
    with with_tools(Toolbox(tmp_path / "bin").folder, tmp_path / "lists"):
        said = cli("image", "build", "--out", str(image), "--with", "bc=1.07")
    assert (said.code, "on the image an-image: leasehold image build --anew" in said.err) == (2, True)


def test_programs_that_are_missing_are_named(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchain, "find_tool", lambda _: None)
    said = cli("image", "build", "--out", str(tmp_path / "new"))
    assert said.code == 2
    assert "run `apt-get install -y --no-install-recommends" in said.err
    assert not (tmp_path / "new").exists()
