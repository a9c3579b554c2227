"""The scenarios that come with Leasehold."""

from importlib.resources import files
from pathlib import Path

from leasehold.model.errors import UnknownName


def packaged_names() -> list[str]:
    """List their names."""
    return sorted(path.stem for path in _folder().glob("*.toml"))


def packaged_path(name: str) -> Path:
    """Find the file of one; raises UnknownName."""
    if name not in packaged_names():
        raise UnknownName("scenario", name, packaged_names())
    return _folder() / f"{name}.toml"


def _folder() -> Path:
    return Path(str(files("leasehold"))) / "scenarios"
