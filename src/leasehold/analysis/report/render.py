"""How all charts look, one colour for each party everywhere; and from a chart to SVG, PNG or JSON.

Without a network and without a browser.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import altair as alt
import vl_convert

from leasehold.analysis.facts import PARTIES

AnyChart = alt.Chart | alt.LayerChart

_STILL_WIDTH = 1000
_PICTURE_SCALE = 2.0

IDLE = "idle"
PARTY_COLOURS: dict[str, str] = {
    "local": "#2c4a7c",
    "cancelable": "#e9b44c",
    "suspendable": "#3aa294",
    "migratable": "#9a78c9",
    "non-preemptable": "#d9593f",
}
"""Told apart by lightness too, so that a grey print or colour-blind eyes can follow."""

_IDLE_COLOUR = "#e8eaee"
_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"


@dataclass(frozen=True, slots=True)
class Style:
    """Where colours come from: fixed ones for a picture file, the page's variables for the report.

    ``names`` labels the parties when a chart has to carry its own legend.
    """

    parties: dict[str, str]
    idle: str
    ink: str
    faint: str
    grid: str
    mark: str
    paper: str
    carries_legend: bool

    def colours_of(self, names: tuple[str, ...]) -> list[str]:
        """Return the colours of some parties (and ``idle``), in that order."""
        return [self.idle if name == IDLE else self.parties[name] for name in names]


FILE_STYLE = Style(
    parties=PARTY_COLOURS,
    idle=_IDLE_COLOUR,
    ink="#1d2433",
    faint="#667085",
    grid="#e4e7ec",
    mark="#e0218a",
    paper="#ffffff",
    carries_legend=True,
)
PAGE_STYLE = Style(
    parties={party: f"var(--{party})" for party in PARTIES},
    idle="var(--idle)",
    ink="var(--ink)",
    faint="var(--faint)",
    grid="var(--grid)",
    mark="var(--mark)",
    paper="transparent",
    carries_legend=False,
)


def vega_config(style: Style) -> dict[str, Any]:
    """Return the Vega-Lite configuration of a style: quiet axes, no frame, one font."""
    text = {"labelColor": style.faint, "titleColor": style.faint, "labelFont": _FONT, "titleFont": _FONT}
    axis = {
        "domain": False,
        "ticks": False,
        "gridColor": style.grid,
        "labelPadding": 6,
        "labelFontSize": 11,
        "titleFontSize": 11,
        "titleFontWeight": "normal",
        "titlePadding": 8,
    }
    return {
        "aria": False,
        "background": style.paper,
        "font": _FONT,
        "view": {"stroke": None},
        "axis": axis | text,
        "legend": text | {"orient": "top", "title": None, "symbolType": "square", "labelFontSize": 11},
        "title": {"anchor": "start", "color": style.ink, "font": _FONT, "fontSize": 13, "offset": 8},
    }


def live_spec(chart: AnyChart, style: Style) -> dict[str, Any]:
    """Return the chart as a specification that fits whatever width it is given."""
    spec: dict[str, Any] = chart.to_dict()
    spec["config"] = vega_config(style)
    spec["autosize"] = {"type": "fit-x", "contains": "padding"}
    return spec


def still_spec(chart: AnyChart, style: Style, width: int = _STILL_WIDTH) -> dict[str, Any]:
    """Return the chart as a specification of a fixed width."""
    return live_spec(chart, style) | {"width": width}


def to_svg(chart: AnyChart, style: Style, width: int = _STILL_WIDTH) -> str:
    """Draw the chart as SVG text."""
    svg: str = vl_convert.vegalite_to_svg(still_spec(chart, style, width))
    return svg


def write_svg(chart: AnyChart, style: Style, path: Path) -> Path:
    """Draw the chart into an SVG file and return its path."""
    path.write_text(to_svg(chart, style), encoding="utf-8")
    return path


def write_png(chart: AnyChart, style: Style, path: Path) -> Path:
    """Draw the chart into a PNG file, twice as fine as the screen, and return its path."""
    path.write_bytes(vl_convert.vegalite_to_png(still_spec(chart, style), scale=_PICTURE_SCALE))
    return path


def as_script_data(value: object) -> str:
    """Write a value as JSON that is safe inside a script element."""
    return json.dumps(value, separators=(",", ":")).replace("</", "<\\/")


def vega_bundle() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script that sets ``vegaEmbed``."""
    # Its types demand a script of one's own to bundle; without one the three are bundled as they are.
    whole = cast("Callable[[], str]", vl_convert.javascript_bundle)
    return whole().replace("</script", "<\\/script")
