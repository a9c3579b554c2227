"""Images for jobs: the same packages are the same image, and half of one is none."""

import asyncio
import errno
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.service.drivers.qemu.building import (
    IN_THE_BASE,
    Toolbox,
    base_in,
    build_and_be_killed,
    with_tools,
)
from tests.service.drivers.qemu.machines import until

from leasehold.model.errors import InputError, UnknownName
from leasehold.service.drivers.qemu.images import build, toolchain
from leasehold.service.drivers.qemu.images.build import (
    ImageBuilder,
    Packages,
    image_with,
    name_of,
    read_packages,
    why_not,
)
from leasehold.service.drivers.qemu.images.image import Catalogue, Description, Image
from leasehold.service.drivers.qemu.images.repository import Repository, versions
from leasehold.service.drivers.qemu.images.toolchain import CannotBuild, diagnosis
from leasehold.testing.killable import Killable

BC: Packages = frozenset({("bc", "1.07")})
PACKAGES = st.dictionaries(
    st.from_regex(r"[a-z][a-z0-9+.-]{1,20}", fullmatch=True), st.sampled_from(["1", "2:3-4"]), min_size=1
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where images are."""
    return tmp_path / "images"


@pytest.fixture
def base(folder: Path) -> Image:
    """What they are built on."""
    return base_in(folder / "debian")


@pytest.fixture
def toolbox(tmp_path: Path) -> Iterator[Toolbox]:
    """Programs that build, as far as can be seen."""
    (tmp_path / "h_dists_b_Packages").touch()
    box = Toolbox(tmp_path / "bin")
    with with_tools(box.folder, tmp_path / "h_dists_b_Packages"):
        yield box


def left(folder: Path) -> set[str]:
    """Whatever is there of images that are not complete."""
    return {path.name for path in folder.glob(".making-*")}


class TestBuilding:
    def test_the_same_packages_are_the_same_image_and_found_at_once(
        self, folder: Path, base: Image, toolbox: Toolbox
    ) -> None:
        image = image_with(base, BC, folder)
        assert dict(image.description.software) == {"bc": "1.07"}
        assert (image.kernel.read_bytes(), image.description.has_output) == (b"vmlinuz", True)
        assert toolbox.calls == ["--variant=essential", "--variant=custom"]
        toolbox.fails("it should not have been asked")
        assert image_with(base, frozenset([*BC]), folder) == image
        assert left(folder) == set()

    def test_another_one_is_built_on_the_same_ground(self, folder: Path, base: Image, toolbox: Toolbox) -> None:
        names = {image_with(base, one, folder).name for one in (BC, BC | {("jq", "1.6")})}
        assert len(names) == 2
        assert toolbox.calls.count("--variant=essential") == 1

    def test_what_the_base_has_already_needs_nothing(self, folder: Path, base: Image) -> None:
        assert image_with(base, frozenset(IN_THE_BASE), folder) == base

    def test_it_knows_nothing_of_the_computer_that_it_was_built_on(
        self, folder: Path, base: Image, toolbox: Toolbox, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        roots: list[set[str]] = []
        monkeypatch.setattr(
            "leasehold.service.drivers.qemu.images.build.shutil.rmtree",
            lambda root: roots.append({path.name for path in (root / "etc").iterdir()}),
        )
        image_with(base, BC, folder)
        assert roots == [{"group", "hosts", "hostname", "passwd", "shells"}]
        assert toolbox.calls

    def test_two_who_want_the_same_at_once_build_it_once(self, folder: Path, base: Image, toolbox: Toolbox) -> None:
        found: list[Image] = []
        threads = [threading.Thread(target=lambda: found.append(image_with(base, BC, folder))) for _ in "12"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found[0] == found[1]
        assert toolbox.calls.count("--variant=custom") == 1

    @pytest.mark.storm
    def test_whoever_is_killed_leaves_no_image_and_no_program(
        self, folder: Path, base: Image, toolbox: Toolbox, tmp_path: Path
    ) -> None:
        pid = toolbox.waits()
        lists = tmp_path / "h_dists_b_Packages"
        with Killable(build_and_be_killed, toolbox.folder, lists, base.folder, folder):
            wait_until_there(pid)
            number = int(pid.read_text())
            assert Catalogue(folder, base.folder).images() == [base], "half an image is no image"
        assert left(folder)
        asyncio.run(until(lambda: not is_running(number)))
        toolbox.works()
        assert image_with(base, BC, folder).name.startswith("bc-")
        assert left(folder) == set()

    def test_whoever_stops_waiting_has_called_it_off(self, folder: Path, base: Image, toolbox: Toolbox) -> None:
        pid = toolbox.waits()

        async def play() -> None:
            building = asyncio.create_task(ImageBuilder(Catalogue(folder, base.folder)).build(BC))
            await until(lambda: pid.exists() and pid.read_text())
            building.cancel()
            with pytest.raises(asyncio.CancelledError):
                await building
            assert not is_running(int(pid.read_text()))
            assert left(folder) == set()

        asyncio.run(play())


def wait_until_there(file: Path) -> None:
    asyncio.run(until(lambda: file.exists() and file.read_text()))


def is_running(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:  # it may end between being found and being read
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


class TestProblems:
    @pytest.mark.parametrize(
        ("said", "told"),
        [
            ("E: Unable to locate package numpyy", "there is no package numpyy"),
            (
                "E: Version '9' for 'bc' was not found",
                "version 9 of bc is no longer available; run `apt-get",
            ),
            ("dpkg: error: write: No space left on device\nE: the end", "the disk is full"),
            (
                "Err:1 http://d x\n  Temporary failure resolving 'd.org'",
                "the repository d.org cannot be reached",
            ),
            (
                "E: Failed to fetch http://d/x.deb  404  Not Found [IP: 192.0.2.1 80]",
                "the repository has changed",
            ),
            (
                " a : Depends: b (>= 2) but 1 is to be installed",
                "a cannot be installed beside the others: b (>=",
            ),
            ("E: unable to pick chroot mode automatically", "only root can build an image here"),
            ("one\n\ntwo\nthree\nfour\n", "mmdebstrap failed: two / three / four"),
            ("", "mmdebstrap failed: it did not say why"),
        ],
    )
    def test_a_program_that_fails_is_understood(
        self, said: str, told: str, folder: Path, base: Image, toolbox: Toolbox
    ) -> None:
        assert diagnosis("mmdebstrap", said).startswith(told)
        toolbox.fails(said or "\n")
        with pytest.raises(CannotBuild) as problem:
            image_with(base, BC, folder)
        text = str(problem.value)
        assert (text.startswith(told), "\n" in text) == (True, False)
        log = Path(text.rpartition("; the log: ")[2])
        assert said in log.read_text()
        assert left(folder) == set()
        assert Catalogue(folder, base.folder).images() == [base]

    def test_a_full_disk_is_said_also_where_we_write_ourselves(
        self, folder: Path, base: Image, toolbox: Toolbox, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(*_: object) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "image.json")

        monkeypatch.setattr(build, "write_description", full)
        with pytest.raises(CannotBuild, match="the disk is full"):
            image_with(base, BC, folder)
        assert (left(folder), len(toolbox.calls)) == (set(), 2)

    def test_what_comes_without_a_version_must_be_known(
        self, folder: Path, base: Image, toolbox: Toolbox, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(Repository, "candidates", lambda _: {"bc": "1.07"})
        assert image_with(base, read_packages(["bc"]), folder) == image_with(base, BC, folder)
        with pytest.raises(CannotBuild, match="there is no package numpyy in Debian bookworm"):
            image_with(base, read_packages(["numpyy"]), folder)
        assert toolbox.calls.count("--variant=custom") == 1

    @pytest.mark.parametrize("package", [("bc --yes", "1"), ("-o", "1"), ("bc", "1; rm"), ("", "")])
    def test_what_is_no_package_is_told_to_no_program(
        self, package: tuple[str, str], folder: Path, base: Image, toolbox: Toolbox
    ) -> None:
        with pytest.raises(CannotBuild, match="is not a valid name of a package"):
            image_with(base, frozenset({package}), folder)
        assert toolbox.calls == []

    def test_programs_that_are_missing_are_named(
        self, folder: Path, base: Image, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(toolchain, "find_tool", lambda _: None)
        with pytest.raises(CannotBuild, match=r"apt-get install .*mmdebstrap"):
            image_with(base, BC, folder)

    def test_without_lists_of_packages_nothing_can_be_built(
        self, folder: Path, base: Image, toolbox: Toolbox, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(build, "find_repository", lambda: None)
        with pytest.raises(CannotBuild, match=r"apt has no lists .*apt-get update"):
            image_with(base, BC, folder)
        assert why_not(base, None).startswith("apt has no lists")
        assert toolbox.calls == []

    def test_an_image_of_an_earlier_leasehold_has_to_be_built_anew(self, folder: Path, toolbox: Toolbox) -> None:
        old = base_in(folder / "old", has_output=False)
        with pytest.raises(CannotBuild, match=r"on the image old: leasehold image build --anew"):
            image_with(old, BC, folder)
        assert toolbox.calls == []


class TestNames:
    @given(PACKAGES, PACKAGES)
    def test_they_differ_where_packages_do(self, one: dict[str, str], other: dict[str, str]) -> None:
        base = Image(Path("/images/debian"), Description(*("k", "i", "d"), 128, has_agent=True, contents=""))
        name = name_of(base, one)
        assert (name == name_of(base, other)) == (one == other)
        assert name == name_of(base, dict(reversed(one.items())))
        assert "/" not in name
        assert len(name) <= 64

    def test_they_differ_where_what_they_are_built_on_does(self, folder: Path) -> None:
        bases = [base_in(folder / name) for name in ("old", "new")]
        assert len({name_of(base, {"bc": "1"}) for base in bases}) == 2


class TestCatalogue:
    def test_it_has_what_is_complete(self, folder: Path, base: Image) -> None:
        base_in(folder / "bc-1")
        base_in(folder / ".making-2")
        (base_in(folder / "broken").folder / "vmlinuz").unlink()
        images = Catalogue(folder, base.folder)
        assert [one.name for one in images.images()] == ["bc-1", "debian"]
        assert images.find("") == base
        assert images.find("bc-1").name == "bc-1"
        with pytest.raises(UnknownName, match="bc-1, debian"):
            images.find("bc-2")

    def test_the_default_may_be_elsewhere(self, folder: Path, tmp_path: Path) -> None:
        default = base_in(tmp_path / "elsewhere/mine")
        assert Catalogue(folder, default.folder).images() == [default]

    def test_without_any_it_says_how_to_get_one(self, folder: Path) -> None:
        images = Catalogue(folder, folder / "debian")
        assert images.images() == []
        with pytest.raises(InputError, match="leasehold image build"):
            images.find("")

    def test_what_is_known_of_each(self, base: Image) -> None:
        facts = base.facts
        assert (facts.name, facts.software) == ("debian", frozenset(IN_THE_BASE))
        assert facts.size_bytes == sum(len(part) for part in ("vmlinuz", "initrd.gz", "root.qcow2"))


def test_what_dpkg_has_installed_is_read() -> None:
    status = (
        "Package: a\nStatus: install ok installed\nVersion: 1:2\nDescription: b\n Package: c\n\n"
        "Package: d\nStatus: deinstall ok config-files\nVersion: 3\n\n"
        "Package: e\nVersion: 4\n"
    )
    assert dict(versions(status)) == {"a": "1:2", "e": "4"}


def test_the_packages_that_could_be_had_are_read_once(
    folder: Path, base: Image, toolbox: Toolbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As long as apt's lists are the same; reading them takes seconds."""
    asked: list[int] = []

    def candidates(_: object) -> dict[str, str]:
        asked.append(time.monotonic_ns())
        return {"bc": "1.07"}

    monkeypatch.setattr(Repository, "candidates", candidates)
    repository = Repository(("deb http://a b c",), (tmp_path / "h_dists_b_Packages",))
    monkeypatch.setattr("leasehold.service.drivers.qemu.images.build.find_repository", lambda: repository)
    builder = ImageBuilder(Catalogue(folder, base.folder))
    for _ in range(2):
        buildable = asyncio.run(builder.buildable())
        assert buildable is not None
        assert (buildable.base, buildable.packages) == ("debian", BC)
    assert len(asked) == 1
    (tmp_path / "h_dists_b_Packages").write_text("other")
    asyncio.run(builder.buildable())
    assert len(asked) == 2
    assert asyncio.run(ImageBuilder(Catalogue(folder, folder / "none")).buildable()) is None
    assert toolbox.calls == []
