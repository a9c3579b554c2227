"""From where do packages come, and in which versions? From where apt has its lists from, as these stand.

Images are of one release of Debian. Of the repositories that apt knows those are used that are of it, and
nothing is fetched to know what they have.
"""

import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

SUITE = "bookworm"
_FIELDS = ("ORIGIN", "CODENAME", "ARCHITECTURE", "REPO_URI", "RELEASE", "COMPONENT", "FILENAME")
_RELEASES = {SUITE, f"{SUITE}-updates", f"{SUITE}-security"}
_ASK_S = 60

Stamp = tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, slots=True)
class Repository:
    """What apt knows of one release.

    ``sources``  as apt's own sources list has them, one a line
    ``lists``    apt's files with what is in them
    """

    sources: tuple[str, ...]
    lists: tuple[Path, ...]

    @property
    def stamp(self) -> Stamp:
        """Tell whether the lists are as they were."""
        states = [(path, path.stat()) for path in self.lists]
        return tuple((str(path), state.st_mtime_ns, state.st_size) for path, state in states)

    def files(self) -> Iterator[Path]:
        """Give the lists, and what proves that they are genuine."""
        yield from self.lists
        for start in sorted({_start_of(path) for path in self.lists}):
            yield from sorted(start.parent.glob(f"{start.name}*Release*"))

    def candidates(self) -> dict[str, str]:
        """Say which packages there are, each in the version that would be installed."""
        with tempfile.TemporaryDirectory(prefix="leasehold-apt-") as folder:
            sources = Path(folder) / "sources.list"
            sources.write_text("\n".join(self.sources) + "\n", encoding="utf-8")
            said = _ask(
                *("apt-cache", "dumpavail"),
                *("-o", f"Dir::Etc::SourceList={sources}", "-o", "Dir::Etc::SourceParts=/dev/null"),
                *("-o", "Dir::Etc::Preferences=/dev/null", "-o", "Dir::Etc::PreferencesParts=/dev/null"),
                *("-o", f"Dir::Cache={folder}", "-o", "Dir::State::status=/dev/null"),
            )
        return dict(versions(said))


def _start_of(lists: Path) -> Path:
    """Give what the names of all files of one release begin with."""
    host, _, rest = lists.name.partition("_dists_")
    return lists.with_name(f"{host}_dists_{rest.partition('_')[0]}_")


def find_repository() -> Repository | None:
    """Find what apt knows of our release of Debian; None where that is nothing."""
    if shutil.which("apt-get") is None:
        return None
    wanted = "|".join(f"$({field})" for field in _FIELDS)
    told = _ask("apt-get", "indextargets", "--format", wanted, "Created-By: Packages")
    targets = [line.split("|") for line in told.splitlines()]
    ours = [target for target in targets if _is_ours(dict(zip(_FIELDS, target, strict=False)))]
    if not ours:
        return None
    sources = [f"deb {uri} {release} {component}" for _, _, _, uri, release, component, _ in ours]
    return Repository(tuple(dict.fromkeys(sources)), tuple(Path(target[-1]) for target in ours))


def _is_ours(target: Mapping[str, str]) -> bool:
    is_right = (target["ORIGIN"], target["ARCHITECTURE"]) == ("Debian", "amd64")
    return is_right and target["CODENAME"] in _RELEASES and Path(target["FILENAME"]).is_file()


def versions(paragraphs: str) -> Iterator[tuple[str, str]]:
    """Read names and versions from what dpkg or apt keeps; what is not installed there is left out."""
    name, is_there = "", True
    for line in paragraphs.splitlines():
        if line.startswith("Package: "):
            name, is_there = line[9:], True
        elif line.startswith("Status: "):
            is_there = line.endswith(" installed")
        elif line.startswith("Version: ") and is_there:
            yield name, line[9:]


def _ask(*command: str) -> str:
    """Ask apt; what it does not answer is empty."""
    try:
        done = subprocess.run(  # noqa: S603 - our own words
            command, capture_output=True, text=True, errors="replace", timeout=_ASK_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""
