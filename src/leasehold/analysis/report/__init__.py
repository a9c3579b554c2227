"""The report of a run as one HTML page that needs no network, and its charts as picture files.

Drawing needs the extra ``leasehold[report]``: vl-convert draws, Jinja lays out, Altair is for notebooks. They
are imported when something is drawn, so that the words alone (`contents`) cost nothing.
"""

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from leasehold.analysis.run import Run
from leasehold.model.errors import LeaseholdError

if TYPE_CHECKING:
    import altair as alt

_DRAWN_WITH = ("altair", "vl_convert", "jinja2")


def can_draw() -> bool:
    """Whether the extra that draws charts and pages is installed."""
    return all(find_spec(module) is not None for module in _DRAWN_WITH)


def write_report(run: Run, path: Path) -> Path:
    """Write the page on one run and return its path. Raises LeaseholdError without the extra."""
    _check_can_draw()
    from leasehold.analysis.report import page  # noqa: PLC0415 - jinja2 is an extra

    return page.write_run_page(run, path)


def write_comparison(first: Run, second: Run, path: Path) -> Path:
    """Write one page on two runs and return its path. Raises LeaseholdError without the extra."""
    _check_can_draw()
    from leasehold.analysis.report import page  # noqa: PLC0415 - jinja2 is an extra

    return page.write_comparison_page(first, second, path)


def write_pictures(run: Run, folder: Path) -> list[Path]:
    """Write each chart of a run as SVG and PNG into ``folder`` and return the files.

    Raises LeaseholdError without the extra.
    """
    _check_can_draw()
    from leasehold.analysis.report import charts  # noqa: PLC0415 - large

    return charts.write_pictures(run, folder)


def gantt_chart(
    run: Run, site: str | None = None, from_ms: int | None = None, to_ms: int | None = None
) -> "alt.LayerChart":
    """Draw which parties held which VMs, for a notebook; by default the cluster and the hours with most contention.

    Raises UnknownName for a site that the run has not, and LeaseholdError without the extra.
    """
    _check_can_draw()
    import altair as alt  # noqa: PLC0415 - an extra

    from leasehold.analysis.report import charts, render  # noqa: PLC0415 - large

    window = charts.chosen_window(run, site, from_ms, to_ms)
    spec = charts.draw_window(run, window, render.FILE_STYLE) | {"config": render.vega_config(render.FILE_STYLE)}
    drawn: alt.LayerChart = alt.LayerChart.from_dict(spec | {"width": 900})
    return drawn


def _check_can_draw() -> None:
    if not can_draw():
        raise LeaseholdError("the report needs what draws it: pip install 'leasehold[report]'")


__all__ = ["can_draw", "gantt_chart", "write_comparison", "write_pictures", "write_report"]
