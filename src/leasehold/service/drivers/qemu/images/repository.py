"""Debian packages: which versions apt knows here, and how mmdebstrap puts them into a root file system.

Images are of one release of Debian. Of the repositories that apt knows those of that release are used, with
apt's lists as they are: nothing is downloaded to find out what exists.
"""

import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from leasehold.service.drivers.qemu.images.toolchain import Toolchain

SUITE = "bookworm"
NO_LISTS = f"apt has no lists of the packages of Debian {SUITE} here: run `apt-get update` as root"

_FIELDS = ("ORIGIN", "CODENAME", "ARCHITECTURE", "REPO_URI", "RELEASE", "COMPONENT", "FILENAME")
_RELEASES = {SUITE, f"{SUITE}-updates", f"{SUITE}-security"}
_APT_TIMEOUT_S = 60

Stamp = tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, slots=True)
class Repository:
    """What apt knows of one release.

    ``sources``  lines of apt's own sources list
    ``lists``    apt's package lists
    """

    sources: tuple[str, ...]
    lists: tuple[Path, ...]

    @property
    def stamp(self) -> Stamp:
        """Identify the present state of the lists."""
        states = [(path, path.stat()) for path in self.lists]
        return tuple((str(path), state.st_mtime_ns, state.st_size) for path, state in states)

    def files(self) -> Iterator[Path]:
        """Give the lists, and the signed files that prove them genuine."""
        yield from self.lists
        for start in sorted({_release_prefix(path) for path in self.lists}):
            yield from sorted(start.parent.glob(f"{start.name}*Release*"))

    def candidates(self) -> dict[str, str]:
        """Give all packages, each with the version that would be installed."""
        with tempfile.TemporaryDirectory(prefix="leasehold-apt-") as folder:
            sources = Path(folder) / "sources.list"
            sources.write_text("\n".join(self.sources) + "\n", encoding="utf-8")
            dump = _apt_output(
                *("apt-cache", "dumpavail"),
                *("-o", f"Dir::Etc::SourceList={sources}", "-o", "Dir::Etc::SourceParts=/dev/null"),
                *("-o", "Dir::Etc::Preferences=/dev/null", "-o", "Dir::Etc::PreferencesParts=/dev/null"),
                *("-o", f"Dir::Cache={folder}", "-o", "Dir::State::status=/dev/null"),
            )
        return dict(versions(dump))


def _release_prefix(lists: Path) -> Path:
    """Give the common beginning of the names of all files of one release."""
    host, _, rest = lists.name.partition("_dists_")
    return lists.with_name(f"{host}_dists_{rest.partition('_')[0]}_")


def find_repository() -> Repository | None:
    """Find what apt knows of our release of Debian; None where it knows nothing."""
    if shutil.which("apt-get") is None:
        return None
    line_format = "|".join(f"$({field})" for field in _FIELDS)
    output = _apt_output("apt-get", "indextargets", "--format", line_format, "Created-By: Packages")
    targets = [line.split("|") for line in output.splitlines()]
    ours = [target for target in targets if _is_ours(dict(zip(_FIELDS, target, strict=False)))]
    if not ours:
        return None
    sources = [f"deb {uri} {release} {component}" for _, _, _, uri, release, component, _ in ours]
    return Repository(tuple(dict.fromkeys(sources)), tuple(Path(target[-1]) for target in ours))


def _is_ours(target: Mapping[str, str]) -> bool:
    is_right = (target["ORIGIN"], target["ARCHITECTURE"]) == ("Debian", "amd64")
    return is_right and target["CODENAME"] in _RELEASES and Path(target["FILENAME"]).is_file()


def versions(paragraphs: str) -> Iterator[tuple[str, str]]:
    """Read names and versions from the files of dpkg and apt, without what is not installed there."""
    name, is_installed = "", True
    for line in paragraphs.splitlines():
        if line.startswith("Package: "):
            name, is_installed = line[9:], True
        elif line.startswith("Status: "):
            is_installed = line.endswith(" installed")
        elif line.startswith("Version: ") and is_installed:
            yield name, line[9:]


def _apt_output(*command: str) -> str:
    """Run apt and give its output; empty where it fails."""
    try:
        done = subprocess.run(  # noqa: S603 - a fixed program
            command, capture_output=True, text=True, errors="replace", timeout=_APT_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def bootstrap(
    tools: Toolchain,
    repository: Repository | None,
    variant: str,
    packages: Iterable[str],
    tar: Path,
    *more: str,
) -> None:
    """Make a tar of a root file system with these packages, as one of mmdebstrap's variants."""
    tools.run(
        "mmdebstrap",
        f"--variant={variant}",
        f"--include={','.join(packages)}",
        "--dpkgopt=force-unsafe-io",  # the result of a crash is thrown away
        *more,
        *_with_lists_of(repository),
        "--format=tar",
        SUITE,
        tar,
        *(repository.sources if repository else ()),
    )


def _with_lists_of(repository: Repository | None) -> Sequence[str]:
    """Use apt's lists as they are here, so that only packages are downloaded."""
    if repository is None:
        return ()
    lists = shlex.join(str(path) for path in repository.files())
    make_folder = 'mkdir -p "$1"/var/lib/apt/lists'
    return ("--skip=update", "--setup-hook", make_folder, "--setup-hook", f"copy-in {lists} /var/lib/apt/lists")
