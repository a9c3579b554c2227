"""The manifest of a run folder: what was run, with what, and what came of it in numbers."""

import json
import platform
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

from leasehold import __version__
from leasehold.model.tables import MANIFEST, SCHEMA_VERSION
from leasehold.simulation.recorder import Recorder
from leasehold.simulation.scenario.spec import Scenario
from leasehold.simulation.workload.notes import ReadingNotes


@dataclass(slots=True)
class Stopwatch:
    """When a run began, by the calendar, the clock and the processor."""

    started_at: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    _wall_s: float = field(default_factory=perf_counter)
    _cpu_s: float = field(default_factory=process_time)

    def readings(self) -> dict[str, object]:
        """Give the time that has passed since."""
        return {
            "started_at": self.started_at,
            "wall_s": round(perf_counter() - self._wall_s, 3),
            "cpu_s": round(process_time() - self._cpu_s, 3),
        }


def write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    """Write ``manifest.json`` so that it is either the old one or the whole new one."""
    draft = folder / f"{MANIFEST}.new"
    draft.write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    draft.replace(folder / MANIFEST)


def make_manifest(
    scenario: Scenario,
    command: str,
    status: str,
    end_ms: int,
    recorder: Recorder,
    notes: Sequence[ReadingNotes],
) -> dict[str, Any]:
    """Put together what a run was and what came of it."""
    read = recorder.read
    return {
        "schema_version": SCHEMA_VERSION,
        "leasehold": __version__,
        "python": platform.python_version(),
        "status": status,
        "seed": scenario.seed,
        "command": command,
        "scenario": scenario.to_dict(),
        "horizon_ms": scenario.horizon_ms,
        "end_ms": end_ms,
        "jobs": {
            "read": read["local"] + read["external"],
            "local": read["local"],
            "external": read["external"],
            "coallocation": recorder.coallocations.count,
            "skipped": sum(note.skipped.total() for note in notes),
            "by_state": dict(sorted(recorder.by_state.items())),
        },
        "notes": [sentence for note in notes for sentence in note.sentences()],
    }
