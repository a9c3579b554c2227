"""Where the results of an evaluation go, and whether what it needs is installed."""

from importlib.util import find_spec
from pathlib import Path

WHERE = Path("runs")


def need_extra() -> None:
    """Say what to install where the extra is missing; raises NotInstalled."""
    from leasehold.client.errors import NotInstalled

    if any(find_spec(name) is None for name in ("scipy", "joblib")):
        raise NotInstalled("An evaluation with its intervals", "experiments")


def folder_for(name: str, wanted: Path | None) -> Path:
    """Give the folder: a new one, or that of an earlier evaluation, whose results are not measured again."""
    from leasehold.experiments.kept import FOLDER
    from leasehold.model.errors import InvalidField

    found = wanted or WHERE / name
    if found.exists() and not found.is_dir():
        raise InvalidField("--out", str(found), "a folder, not a file")
    if found.is_dir() and any(found.iterdir()) and not (found / FOLDER).is_dir():
        raise InvalidField("--out", str(found), "a new or empty folder, or that of an earlier evaluation")
    return found
