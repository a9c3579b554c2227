"""The charts of a run as picture files, for papers and slides."""

from collections.abc import Callable
from pathlib import Path

from leasehold.analysis.report.gantt import draw_window
from leasehold.analysis.report.preemption import preemption_chart
from leasehold.analysis.report.render import AnyChart, write_png, write_svg
from leasehold.analysis.report.style import FILE_STYLE
from leasehold.analysis.report.utilisation import utilisation_chart
from leasehold.analysis.report.waiting import waiting_chart
from leasehold.analysis.report.window import most_contended
from leasehold.analysis.run import Run

_WRITERS: tuple[tuple[str, Callable[..., Path]], ...] = (("svg", write_svg), ("png", write_png))


def write_pictures(run: Run, folder: Path) -> list[Path]:
    """Write each chart of the run as SVG and PNG into ``folder`` and return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    return [
        write(chart, FILE_STYLE, folder / f"{name}.{suffix}")
        for name, chart in pictures(run).items()
        for suffix, write in _WRITERS
    ]


def pictures(run: Run) -> dict[str, AnyChart]:
    """Return the charts of a run by name; the Gantt chart only where something ran."""
    charts: dict[str, AnyChart] = {
        "utilisation": utilisation_chart(run, FILE_STYLE),
        "waiting": waiting_chart(run, FILE_STYLE),
        "preemption": preemption_chart(run, FILE_STYLE),
    }
    window = most_contended(run)
    return charts | ({"gantt": draw_window(run, window, FILE_STYLE)} if window else {})
