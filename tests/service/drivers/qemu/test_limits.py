"""Control groups of either version: found, filled with what bounds a machine, and removed with it."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.service.drivers.qemu.limits import OVERHEAD_MIB, CgroupLimits, find_hierarchy
from leasehold.service.drivers.qemu.machine import VmHardware

UNIT = "system.slice/leasehold.service"
HARDWARE = VmHardware(image="debian", memory_mib=256, cpus=2, accelerator="tcg", machine_type="pc", has_output=True)
BYTES = (256 + OVERHEAD_MIB) * 2**20


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """What the kernel says of where we are."""
    path = tmp_path / "own"
    path.write_text(f"0::/{UNIT}\n")
    return path


def group(path: Path, **files: str) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (path / name.replace("_", ".", 1)).write_text(text)
    return path


def version_2(root: Path, controllers: str = "cpuset cpu io memory pids") -> Path:
    group(root, cgroup_controllers=controllers)
    return group(root / UNIT, cgroup_controllers=controllers, cgroup_procs="", cgroup_subtree_control="")


def test_in_version_2_a_machine_is_bounded_in_the_group_that_is_given_to_us(tmp_path: Path, own: Path) -> None:
    base = version_2(tmp_path / "cgroup")
    hierarchy = find_hierarchy(tmp_path / "cgroup", own)
    assert (hierarchy.version, hierarchy.parents, hierarchy.why_not) == (2, (base,), "")
    CgroupLimits(tmp_path / "site", hierarchy).apply("7.1.0", 4711, HARDWARE)
    (ours,) = base.glob("leasehold-*")
    written = {path.name: path.read_text() for path in (ours / "7.1.0").iterdir()}
    assert written == {"memory.max": str(BYTES), "cpu.max": "200000 100000", "cgroup.procs": "4711"}
    assert (base / "cgroup.subtree_control").read_text() == "+cpu +memory"
    assert (ours / "cgroup.subtree_control").read_text() == "+cpu +memory"


def test_in_version_1_it_is_bounded_in_the_tree_of_each_controller(tmp_path: Path) -> None:
    root = tmp_path / "cgroup"
    for controller in ("memory", "cpu"):
        group(root / controller, cgroup_procs="")
    hierarchy = find_hierarchy(root)
    assert (hierarchy.version, hierarchy.why_not) == (1, "")
    CgroupLimits(tmp_path / "site", hierarchy).apply("7.1.0", 4711, HARDWARE)
    (memory,), (cpu,) = root.glob("memory/leasehold-*/7.1.0"), root.glob("cpu/leasehold-*/7.1.0")
    assert (memory / "memory.limit_in_bytes").read_text() == str(BYTES)
    assert (cpu / "cpu.cfs_quota_us").read_text() == "200000"
    assert (memory / "cgroup.procs").read_text() == (cpu / "cgroup.procs").read_text() == "4711"


def test_whoever_lives_in_the_group_moves_into_a_part_of_it_first(
    tmp_path: Path, own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel lets no group share controllers out that has processes of its own."""
    base = version_2(tmp_path / "cgroup")
    (base / "cgroup.procs").write_text("12\n")
    write = Path.write_text

    def as_the_kernel_does(path: Path, text: str, **how: str) -> int:
        has_moved = (base / "supervisor" / "cgroup.procs").exists()
        if path == base / "cgroup.subtree_control" and not has_moved:
            raise OSError(16, "Device or resource busy")
        return write(path, text, **how)

    monkeypatch.setattr(Path, "write_text", as_the_kernel_does)
    CgroupLimits(tmp_path / "site", find_hierarchy(tmp_path / "cgroup", own)).apply("7.1.0", 4711, HARDWARE)
    assert (base / "supervisor" / "cgroup.procs").read_text() == "12"
    assert len(list(base.glob("leasehold-*/7.1.0/memory.max"))) == 1
    own.write_text(f"0::/{UNIT}/supervisor\n")  # where we are from now on
    assert find_hierarchy(tmp_path / "cgroup", own).parents == (base,)


def test_so_does_whoever_is_alone_in_a_container_whose_group_looks_like_the_root(tmp_path: Path, own: Path) -> None:
    root = tmp_path / "cgroup"
    group(root, cgroup_controllers="cpu memory", cgroup_procs="", cgroup_subtree_control="")
    for where in ("/", "/supervisor"):  # before, and from then on
        own.write_text(f"0::{where}\n")
        assert find_hierarchy(root, own).parents == (root,)


@pytest.mark.parametrize(("controllers", "why"), [("cpu io pids", "lacks memory"), ("hugetlb", "lacks cpu, memory")])
def test_what_is_missing_is_named(tmp_path: Path, own: Path, controllers: str, why: str) -> None:
    version_2(tmp_path / "cgroup", controllers)
    hierarchy = find_hierarchy(tmp_path / "cgroup", own)
    assert why in hierarchy.why_not
    CgroupLimits(tmp_path / "site", hierarchy).apply("7.1.0", 4711, HARDWARE)
    assert not list((tmp_path / "cgroup").rglob("leasehold-*"))


def test_where_there_is_nothing_that_is_said(tmp_path: Path) -> None:
    assert "there are no control groups at" in find_hierarchy(tmp_path / "nowhere").why_not


@given(st.text())
def test_whatever_the_kernel_says_of_us_is_read(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    own = tmp_path_factory.getbasetemp() / "own"
    own.write_text(text.encode(errors="replace").decode())
    version_2(own.parent / "cgroup")
    assert find_hierarchy(own.parent / "cgroup", own).version == 2


@pytest.mark.skipif(bool(find_hierarchy().why_not), reason="no control groups can be made here")
def test_on_this_machine_a_group_is_made_and_removed_again(tmp_path: Path) -> None:
    hierarchy = find_hierarchy()
    sleeper = subprocess.Popen(["sleep", "600"])
    limits = CgroupLimits(tmp_path, hierarchy)
    try:
        limits.apply("7.1.0", sleeper.pid, HARDWARE)
        made = [path for parent in hierarchy.parents for path in parent.glob("leasehold-*/7.1.0")]
        within = [path for path in made if str(sleeper.pid) in (path / "cgroup.procs").read_text().split()]
        assert len(within) == len(hierarchy.parents)
    finally:
        sleeper.kill()
        sleeper.wait()
        limits.release("7.1")
    assert not any(path.exists() for path in within)
