"""The files that are made of a run folder: their names, and those for other tools."""

from collections.abc import Sequence
from pathlib import Path

from leasehold.analysis.export import write_batsim_jobs, write_swf
from leasehold.analysis.run import Run
from leasehold.model.errors import UnknownName

FORMATS = ("swf", "batsim")
_FILES = {"swf": "run.swf", "batsim": "jobs.csv"}
_WRITERS = {"swf": write_swf, "batsim": write_batsim_jobs}


def export(run: Run, folder: Path, formats: Sequence[str] = FORMATS) -> list[Path]:
    """Write a run in the formats of other tools; returns the files. Raises UnknownName for another format."""
    for name in formats:
        if name not in _WRITERS:
            raise UnknownName("--format", name, _WRITERS)
    folder.mkdir(parents=True, exist_ok=True)
    return [_WRITERS[name](run, folder / _FILES[name]) for name in formats]
