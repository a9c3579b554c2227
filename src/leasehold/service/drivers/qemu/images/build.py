"""How images are built: the default one, and those with packages that a job needs.

Each is made in a hidden folder beside its place, and renamed when it is complete; one process at a time builds
there. The default image's packages are only unpacked, which is quick. Images with more packages are built on a
small but complete Debian, the *base root*, so that the packages' own scripts are run: many are useless without
(numpy finds no libblas). The base root is kept as a tar until the default image is rebuilt.
"""

import asyncio
import fcntl
import gzip
import json
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from hashlib import file_digest, sha256
from importlib.resources import files
from pathlib import Path

from leasehold.model.errors import InputError
from leasehold.service.drivers.facts import Buildable, ImageFacts
from leasehold.service.drivers.images import built_name
from leasehold.service.drivers.qemu.images.image import (
    DESCRIPTION,
    Catalogue,
    Description,
    Image,
    open_image,
    write_description,
)
from leasehold.service.drivers.qemu.images.repository import (
    NO_LISTS,
    SUITE,
    Repository,
    Stamp,
    bootstrap,
    find_repository,
    versions,
)
from leasehold.service.drivers.qemu.images.toolchain import (
    CannotBuild,
    Toolchain,
    diagnosis,
    missing_packages,
    require_all_tools,
)

LEAST_MEMORY_MIB = 128
"""With 96 it boots, too, but leaves little for Python."""

LOGS = "logs"
"""The folder beside the images with what was printed while they were built."""

BASE_PACKAGES = ("python3", "qemu-guest-agent", "busybox-static", "dropbear-bin")
ROOM_MIB = 4096
"""For what commands write; it takes no space until they do."""

_DRIVERS = (
    "virtio_ring",
    "virtio",
    "virtio_pci_legacy_dev",
    "virtio_pci_modern_dev",
    "virtio_pci",
    "virtio_blk",
    "failover",
    "net_failover",
    "virtio_net",
    "pvpanic",
    "pvpanic-pci",
)
"""Modules of the kernel for the disk and the network, each after those that it uses."""

_KERNEL = "linux-image-cloud-amd64"
"""Depends on the latest; that one's name has the version in it."""

_LATEST_KERNEL = re.compile(r"Depends: (linux-image-\S+-cloud-amd64)\b")
_GUEST_FILES = {
    "root-init": "sbin/leasehold-init",
    "run-once": "sbin/leasehold-run-once",
    "set-up": "sbin/leasehold-set-up",
}
_PARTIAL = ".making-"
_BASE_ROOTS = "grounds"
_DIGITS = 12
_MIB = 1 << 20

_MARK_AS_INSTALLED = """
for deb in "$1"/var/cache/apt/archives/*.deb; do
    dpkg-deb --field "$deb"; printf 'Status: install ok installed\\n\\n'
done > "$1"/var/lib/dpkg/status
"""
"""Packages that were only unpacked are recorded as installed all the same."""

_FOR_READERS = ("doc", "doc-base", "groff", "info", "lintian", "linda", "locale", "man", "bug")
_WITHOUT_DOCS = tuple(f"--dpkgopt=path-exclude=/usr/share/{folder}/*" for folder in _FOR_READERS)
_WITHOUT_SOURCES = 'rm -rf "$1"/etc/apt/sources.list "$1"/etc/apt/sources.list.d/*'

_RECIPE = 1
"""Counted up whenever images of the same packages become different ones."""

_NAME = re.compile(r"[a-z0-9][a-z0-9.+-]+")
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+:~-]*")

Packages = frozenset[tuple[str, str]]
"""Names with versions; an empty version is the one that would be installed now."""

Say = Callable[[str], None]
OpenToolchain = Callable[[Path, Path], Toolchain]
"""Makes what runs programs, of the folder that they work in and their log."""


# Where images are made


@contextmanager
def _one_at_a_time(folder: Path) -> Iterator[None]:
    """Build images in this folder alone; what a killed build has left is removed."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".making.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for left in folder.glob(f"{_PARTIAL}*"):
            shutil.rmtree(left, ignore_errors=True)
        yield


@contextmanager
def _partial_folder(folder: Path) -> Iterator[Path]:
    """Have a folder of which nothing is left afterwards unless it was published.

    Raises CannotBuild where files cannot be written.
    """
    partial = Path(tempfile.mkdtemp(prefix=_PARTIAL, dir=folder))
    try:
        yield partial
    except OSError as error:
        raise CannotBuild(diagnosis("the file system", str(error))) from error
    finally:
        if partial.exists():
            shutil.rmtree(partial, ignore_errors=True)


def _publish(partial: Path, folder: Path) -> None:
    """Give a complete image its name; an image that has it already is the same, and stays."""
    if folder.exists():
        shutil.rmtree(partial)
    else:
        partial.chmod(0o755)
        partial.rename(folder)


def _new_log(place: Path) -> Path:
    log = place.with_name(LOGS) / f"{place.name}.log"
    log.unlink(missing_ok=True)
    return log


# The default image


def build_image(place: Path, say: Say, *, rebuild: bool = False) -> Image:
    """Give the image at that place, built if it is not there yet, or with ``rebuild`` in any case.

    Another build in the same folder is waited for. Raises CannotBuild; InputError for a place where something
    else is.
    """
    with _one_at_a_time(place.parent):
        if not rebuild and place.exists():
            return open_image(place)
        if place.exists() and not place.is_symlink():
            raise InputError(place, None, "is not a link that `leasehold image build` has made; remove it")
        require_all_tools()
        shutil.rmtree(place.with_name(_BASE_ROOTS), ignore_errors=True)
        with _partial_folder(place.parent) as partial:
            write_description(partial, _fill(Toolchain(partial, _new_log(place)), say))
            folder = place.with_name(f"{place.name}-{_digest(partial)}")
            _publish(partial, folder)
        link = place.with_name(f".{place.name}.link")  # renamed, so that the place never leads nowhere
        link.unlink(missing_ok=True)
        link.symlink_to(folder.name)
        link.replace(place)
        return open_image(place)


def _fill(tools: Toolchain, say: Say) -> Description:
    say("fetches the kernel ...")
    kernel = _fetch_kernel(tools)
    say(f"builds a disk of {', '.join(BASE_PACKAGES)} from Debian {SUITE} ...")
    tar = tools.folder / "root.tar"
    only_unpacked = ("--dpkgopt=path-exclude=/usr/share/*", "--extract-hook", _MARK_AS_INSTALLED)
    bootstrap(tools, find_repository(), "extract", BASE_PACKAGES, tar, *only_unpacked)
    software = _make_disk(tools, tar)
    _make_initramfs(tools)
    return Description(
        *("vmlinuz", "initrd.gz", "root.qcow2", LEAST_MEMORY_MIB),
        has_agent=True,
        contents=f"Debian {SUITE}: {', '.join(BASE_PACKAGES)}; {kernel}",
        software=software,
        has_output=True,
        has_network=True,
    )


def _digest(partial: Path) -> str:
    """Identify a folder by its content: an image that machines have layers over is never replaced."""
    digest = sha256()
    for part in sorted(partial.iterdir()):
        with part.open("rb") as file:
            digest.update(file_digest(file, "sha256").digest())
    return digest.hexdigest()[:_DIGITS]


def _fetch_kernel(tools: Toolchain) -> str:
    """Put ``vmlinuz`` and the drivers into the folder; gives the name of the package that they are from."""
    folder = tools.folder
    found = _LATEST_KERNEL.search(tools.run("apt-cache", "depends", _KERNEL) if shutil.which("apt-cache") else "")
    if found is None:
        raise CannotBuild(f"apt knows no {_KERNEL}: run `apt-get update` as root, on Debian 12 or later")
    tools.run("apt-get", "--quiet", "download", found[1])
    [package] = folder.glob("linux-image-*.deb")
    unpacked = folder / "kernel"
    tools.run("dpkg-deb", "--extract", package, unpacked)
    package.unlink()
    [kernel] = (unpacked / "boot").glob("vmlinuz-*")
    for driver in _DRIVERS:
        module = next(unpacked.rglob(f"{driver}.ko"), None)
        if module is None:
            raise CannotBuild(f"{kernel.name} has no driver {driver}, or packs it in a way that is not known")
        module.rename(folder / f"{driver}.ko")
    kernel.rename(folder / "vmlinuz")
    shutil.rmtree(unpacked)
    return found[1]


def _make_initramfs(tools: Toolchain) -> None:
    """Put ``initrd.gz`` into the folder: busybox and the drivers of the disk, one megabyte in all."""
    folder = tools.folder
    tree = folder / "initramfs"
    for inside in ("bin", "dev", "lib", "proc", "root"):
        (tree / inside).mkdir(parents=True)
    _put_guest_file("initramfs-init", tree / "init")
    shutil.move(folder / "busybox", tree / "bin/busybox")
    for driver in _DRIVERS:
        shutil.move(folder / f"{driver}.ko", tree / "lib" / f"{driver}.ko")
    (tree / "lib/modules.list").write_text("".join(f"{driver}\n" for driver in _DRIVERS), encoding="ascii")
    names = sorted(str(path.relative_to(tree)) for path in tree.rglob("*"))
    archive = folder / "initrd"
    listed = "\n".join([".", *names]).encode()
    tools.run("cpio", "--quiet", "-o", "-H", "newc", "-R", "0:0", "-O", archive, cwd=tree, stdin=listed)
    (folder / "initrd.gz").write_bytes(gzip.compress(archive.read_bytes(), mtime=0))
    archive.unlink()
    shutil.rmtree(tree)


# The disk of an image


def _make_disk(tools: Toolchain, tar: Path) -> tuple[tuple[str, str], ...]:
    """Turn a tar of a root into ``root.qcow2``, and put ``busybox`` beside it; the tar is removed.

    Gives the software that is installed there, as its own dpkg has it.
    """
    folder = tools.folder
    root, raw = folder / "root", folder / "root.raw"
    root.mkdir()
    tools.run("tar", "--extract", f"--file={tar}", "--exclude=./dev/*", f"--directory={root}")
    size = f"{tar.stat().st_size * 5 // 4 // _MIB + ROOM_MIB}M"
    tar.unlink()
    status = (root / "var/lib/dpkg/status").read_text(encoding="utf-8", errors="replace")
    _furnish(tools, root)
    shutil.copy2(root / "bin/busybox", folder / "busybox")
    tools.run("mke2fs", "-q", "-t", "ext4", "-E", "root_owner=0:0", "-d", root, raw, size)
    shutil.rmtree(root)
    tools.run("qemu-img", "convert", "-O", "qcow2", raw, folder / "root.qcow2")
    raw.unlink()
    return tuple(sorted(versions(status)))


def _furnish(tools: Toolchain, root: Path) -> None:
    """Add our own programs, and busybox in place of every common program that is missing."""
    for name, target in _GUEST_FILES.items():
        _put_guest_file(name, root / target)
    for empty in ("dev", "proc", "sys", "run", "tmp", "root"):
        (root / empty).mkdir(exist_ok=True)
    for applet in tools.run(str(root / "bin/busybox"), "--list-full", cwd=root).split():
        link = root / applet
        if not any(os.path.lexists(place) for place in (link, root / "usr/bin" / link.name)):
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to("/bin/busybox")
    (root / "etc/resolv.conf").unlink(missing_ok=True)  # that of the computer that it was built on
    for name, line in (("passwd", "root:x:0:0:root:/root:/bin/sh"), ("group", "root:x:0:"), ("shells", "/bin/sh")):
        if not (root / "etc" / name).exists():  # the packages' own scripts would have made it
            (root / "etc" / name).write_text(f"{line}\n", encoding="ascii")
    (root / "etc/hostname").write_text("leasehold\n", encoding="ascii")
    (root / "etc/hosts").write_text("127.0.0.1 localhost leasehold\n", encoding="ascii")


def _put_guest_file(name: str, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(_guest_file(name))
    target.chmod(0o755)


def _guest_file(name: str) -> bytes:
    return files(__package__).joinpath("guest", name).read_bytes()


# Images with more packages


def image_with(base: Image, packages: Packages, folder: Path, open_toolchain: OpenToolchain = Toolchain) -> Image:
    """Give an image that has these packages besides what its base has, built in that folder if need be.

    The same packages at the same versions are the same image. Another build in the same folder is waited for.
    Raises CannotBuild.
    """
    if packages <= set(base.description.software):
        return base
    wanted = exact_versions(packages)
    image = folder / name_of(base, wanted)
    if not (image / DESCRIPTION).exists():
        with _one_at_a_time(folder):
            if not (image / DESCRIPTION).exists():
                _build(base, wanted, image, open_toolchain)
    return open_image(image)


def read_packages(texts: Iterable[str]) -> Packages:
    """Read packages in the form ``NAME`` or ``NAME=VERSION``."""
    return frozenset((name.lower(), version) for name, _, version in (text.partition("=") for text in texts))


def exact_versions(packages: Packages) -> dict[str, str]:
    """Choose the version of each package; raises CannotBuild for one that does not exist."""
    chosen = dict(sorted(packages))
    for name, version in chosen.items():
        if not _NAME.fullmatch(name) or (version and not _VERSION.fullmatch(version)):
            raise CannotBuild(f"{name!r} {version!r} is not a valid name of a package with its version")
    if all(chosen.values()):
        return chosen
    repository = find_repository()
    if repository is None:
        raise CannotBuild(NO_LISTS)
    known = repository.candidates()
    missing = [name for name, version in chosen.items() if not version and name not in known]
    if missing:
        raise CannotBuild(f"there is no package {missing[0]} in Debian {SUITE}, as apt knows it here")
    return {name: version or known[name] for name, version in chosen.items()}


def name_of(base: Image, packages: Mapping[str, str]) -> str:
    """Name an image by what it is made of."""
    recipe = json.dumps([_RECIPE, base.name, packages], sort_keys=True).encode()
    return built_name("-".join(sorted(packages)), recipe + b"".join(map(_guest_file, _GUEST_FILES)))


def why_not(base: Image, repository: Repository | None) -> str:
    """Say why no image can be built on this base from there; "" where it can."""
    if not base.description.has_output:
        return f"nothing can be built on the image {base.name}: leasehold image build --anew"
    return "" if repository else NO_LISTS


def _build(base: Image, packages: Mapping[str, str], image: Path, open_toolchain: OpenToolchain) -> None:
    require_all_tools()
    repository = find_repository()
    problem = why_not(base, repository)
    if repository is None or problem:
        raise CannotBuild(problem)
    log = _new_log(image)
    with _partial_folder(image.parent) as partial:
        tools = open_toolchain(partial, log)
        tar = partial / "root.tar"
        unpack = f"tar-in {shlex.quote(str(_base_root(tools, repository, image.parent)))} /"
        exact = [f"{name}={version}" for name, version in packages.items()]
        bootstrap(tools, repository, "custom", exact, tar, *_WITHOUT_DOCS, "--setup-hook", unpack)
        software = _make_disk(tools, tar)
        (partial / "busybox").unlink()
        for part in (base.kernel, base.initrd):
            _link_or_copy(part, partial / part.name)
        contents = f"{base.description.contents}; {', '.join(packages)}"
        write_description(partial, replace(base.description, software=software, contents=contents))
        _publish(partial, image)


def _base_root(tools: Toolchain, repository: Repository, images: Path) -> Path:
    """Find the tar of the base root, or make it."""
    content = "\n".join((*repository.sources, *BASE_PACKAGES))
    root = images / _BASE_ROOTS / f"{sha256(content.encode()).hexdigest()[:_DIGITS]}.tar"
    if not root.exists():
        partial = tools.folder / "ground.tar"
        more = (*_WITHOUT_DOCS, "--customize-hook", _WITHOUT_SOURCES)
        bootstrap(tools, repository, "essential", BASE_PACKAGES, partial, *more)
        root.parent.mkdir(exist_ok=True)
        partial.rename(root)
    return root


def _link_or_copy(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # on another disk
        shutil.copy2(source, target)


class ImageBuilder:
    """Builds images for a site while its machines run; cancelling the request ends the build."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._candidates: tuple[Stamp, Packages] = ((), frozenset())

    async def buildable(self) -> Buildable | None:
        """Say what could be built now; None where nothing can be."""
        return await asyncio.to_thread(self._buildable)

    def _buildable(self) -> Buildable | None:
        try:
            base = self._catalogue.default()
        except InputError:
            return None
        repository = find_repository()
        if repository is None or why_not(base, repository) or missing_packages():
            return None
        if repository.stamp != self._candidates[0]:
            self._candidates = repository.stamp, frozenset(repository.candidates().items())
        return Buildable(base.name, self._candidates[1])

    async def build(self, packages: Packages) -> ImageFacts:
        """Build an image with these packages, or find it; raises CannotBuild or InputError."""
        opened: list[Toolchain] = []
        is_cancelled = False

        def open_toolchain(folder: Path, log: Path) -> Toolchain:
            opened.append(tools := Toolchain(folder, log))
            if is_cancelled:
                tools.cancel()
            return tools

        def work() -> ImageFacts:
            return image_with(self._catalogue.default(), packages, self._catalogue.folder, open_toolchain).facts

        task = asyncio.ensure_future(asyncio.to_thread(work))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            is_cancelled = True
            for tools in opened:
                tools.cancel()
            await asyncio.wait([task])
            raise
