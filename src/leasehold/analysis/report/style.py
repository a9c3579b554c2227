"""One colour for each party, everywhere, and the look that all charts share."""

from dataclasses import dataclass
from typing import Any

from leasehold.analysis.facts import PARTIES

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

    ``names`` stands beside the parties when a chart has to carry its own legend.
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
