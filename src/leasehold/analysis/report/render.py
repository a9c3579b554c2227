"""From a chart to SVG, PNG or JSON, without a network and without a browser."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import altair as alt
import vl_convert

from leasehold.analysis.report.style import Style, vega_config

AnyChart = alt.Chart | alt.LayerChart

_STILL_WIDTH = 1000
_PICTURE_SCALE = 2.0


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
    """Write a value as JSON that may stand inside a script element."""
    return json.dumps(value, separators=(",", ":")).replace("</", "<\\/")


def vega_bundle() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script that sets ``vegaEmbed``."""
    # Its types demand a script of one's own to bundle; without one the three are bundled as they are.
    whole = cast("Callable[[], str]", vl_convert.javascript_bundle)
    return whole().replace("</script", "<\\/script")
