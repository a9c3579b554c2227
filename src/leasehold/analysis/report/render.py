"""How all charts look, one colour for each party everywhere; and from a chart to SVG, PNG or JSON.

Without a network and without a browser. A chart is a Vega-Lite specification, as plain data. What draws it holds a
JavaScript engine, which never frees its memory: pages are drawn in a process of their own (`stills.py`), and
the script that makes them live, the same for all pages, is kept in the user's cache.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

from leasehold.analysis.facts import PARTIES

Spec = dict[str, Any]
"""A chart in Vega-Lite, without the style."""

_SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
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


def live_spec(chart: Spec, style: Style) -> Spec:
    """Return the chart as a specification that fits whatever width it is given."""
    shape = {"config": vega_config(style), "autosize": {"type": "fit-x", "contains": "padding"}}
    return {"$schema": _SCHEMA, **chart, **shape}


def still_spec(chart: Spec, style: Style, width: int = _STILL_WIDTH) -> Spec:
    """Return the chart as a specification of a fixed width."""
    return live_spec(chart, style) | {"width": width}


def write_svg(chart: Spec, style: Style, path: Path) -> Path:
    """Draw the chart into an SVG file and return its path."""
    import vl_convert  # noqa: PLC0415 - of an extra, and large

    path.write_text(vl_convert.vegalite_to_svg(still_spec(chart, style)), encoding="utf-8")
    return path


def write_png(chart: Spec, style: Style, path: Path) -> Path:
    """Draw the chart into a PNG file, twice as fine as the screen, and return its path."""
    import vl_convert  # noqa: PLC0415 - of an extra, and large

    path.write_bytes(vl_convert.vegalite_to_png(still_spec(chart, style), scale=_PICTURE_SCALE))
    return path


Draw = Callable[[Sequence[Spec]], list[str]]


@contextmanager
def drawing() -> Iterator[Draw]:
    """Start what draws, in a process of its own, so that it is ready when the charts are.

    Gives the function that draws specifications of a fixed width as SVG texts, to be called once.
    """
    with _Apart() as process:

        def draw(stills: Sequence[Spec]) -> list[str]:
            drawn: list[str] = process.answer(json.dumps(list(stills)))
            return drawn

        yield draw


def as_script_data(value: object) -> str:
    """Write a value as JSON that is safe inside a script element."""
    return json.dumps(value, separators=(",", ":")).replace("</", "<\\/")


def vega_bundle() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script that sets ``vegaEmbed``; made once for each version."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    kept = home / "leasehold" / f"vega-{version('vl-convert-python')}.js"
    try:
        return kept.read_text(encoding="utf-8")
    except OSError:
        with _Apart("bundle") as process:
            bundle: str = process.answer().replace("</script", "<\\/script")
        _keep(kept, bundle)
        return bundle


def _keep(file: Path, text: str) -> None:
    """Write a file of the cache, whole or not at all; without a cache it is made again each time."""
    draft = file.with_name(f"{file.name}.{os.getpid()}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(text, encoding="utf-8")
        draft.replace(file)
    except OSError:
        draft.unlink(missing_ok=True)


class _Apart:
    """The program `stills.py`, run as a file, so that it imports nothing of this package; ended if it is not needed."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-P", str(Path(__file__).with_name("stills.py")), *arguments]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # noqa: S603 - ours

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate()

    def answer(self, question: str = "") -> Any:  # noqa: ANN401 - whatever it answers
        """Ask, wait, and read the answer."""
        answered, _ = self._process.communicate(question)
        if self._process.returncode:
            raise subprocess.CalledProcessError(self._process.returncode, self._process.args)
        return json.loads(answered)
