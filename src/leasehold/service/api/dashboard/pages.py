"""How pages are rendered: templates, the words and units in them, what a browser may do with them, and static files."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache, lru_cache
from hashlib import sha256
from importlib.resources import files
from typing import Any

import jinja2
from markupsafe import Markup
from starlette.responses import HTMLResponse, Response

from leasehold.model.lease import LeaseState
from leasehold.protocol.fields import LATEST_MS, moment_at, unix_ms
from leasehold.protocol.problems import Kind

Time = datetime | int
"""A moment: as responses of the API have it, or Unix milliseconds."""

_MINUTE_MS, _DAY_MS = 60_000, 86_400_000

STATIC_FILES = {
    "dashboard.css": "text/css; charset=utf-8",
    "uPlot.min.css": "text/css; charset=utf-8",
    "dashboard.js": "text/javascript; charset=utf-8",
    "jobs.js": "text/javascript; charset=utf-8",
    "htmx.min.js": "text/javascript; charset=utf-8",
    "sse.min.js": "text/javascript; charset=utf-8",
    "uPlot.iife.min.js": "text/javascript; charset=utf-8",
    "LICENSES.txt": "text/plain; charset=utf-8",
}
"""The files that come with the pages, and their types; nothing comes from elsewhere."""

_FOR_A_YEAR = "max-age=31536000, immutable"

_POLICY = (
    "default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self' data:", "connect-src 'self'",
    "form-action 'self'", "base-uri 'none'", "frame-ancestors 'none'",
)  # fmt: skip
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": "; ".join(_POLICY),
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
"""What a browser may do with a page: run and show what this gateway sent, and send forms to it alone."""


def static(name: str) -> Response | None:
    """Return one of the static files; None where there is none of that name."""
    if name not in STATIC_FILES:
        return None
    headers = {"Cache-Control": _FOR_A_YEAR, "X-Content-Type-Options": "nosniff"}
    return Response(_content(name), media_type=STATIC_FILES[name], headers=headers)


@cache
def _content(name: str) -> bytes:
    return (files(__package__) / "static" / name).read_bytes()


@cache
def build() -> str:
    """Return what the addresses of static files change with: their content."""
    digest = sha256()
    for name in sorted(STATIC_FILES):
        digest.update(_content(name))
    return digest.hexdigest()[:12]


def render(template: str, prefix: str, **values: object) -> str:
    """Render a page; whatever comes from outside is escaped."""
    return _environment().get_template(template).render(prefix=prefix, build=build(), **values)


def page(template: str, prefix: str, status: int = 200, **values: object) -> HTMLResponse:
    """Answer with a page."""
    return HTMLResponse(render(template, prefix, **values), status, headers=dict(HEADERS))


def problem_page(version: str, prefix: str, body: bytes) -> bytes:
    """Show a problem (RFC 9457) to a person."""
    problem: Mapping[str, Any] = json.loads(body)
    return render(
        "problem.html",
        prefix,
        version=version,
        here="",
        caller=None,
        is_no_page=problem["type"] == Kind.NOT_FOUND.urn,
        title=problem["title"],
        detail=problem["detail"],
        status=problem["status"],
    ).encode()


# --- words and units -----------------------------------------------------------------------------------------


def duration(ms: int | None) -> str:
    """Write a time span in two units at most: ``340 ms``, ``4.2 s``, ``12 min 30 s``, ``3 h 5 min``, ``2 d 4 h``."""
    if ms is None:
        return ""
    if ms < 0:
        return f"-{duration(-ms)}"
    if ms < _MINUTE_MS:
        return f"{ms} ms" if ms < 1000 else f"{ms / 1000:.1f}".removesuffix(".0") + " s"  # noqa: PLR2004 - a second
    units = ((24 * 60 * _MINUTE_MS, "d", "h"), (60 * _MINUTE_MS, "h", "min"), (_MINUTE_MS, "min", "s"))
    size_ms, unit, below = next(one for one in units if ms >= one[0])
    many, rest_ms = divmod(ms, size_ms)
    rest = rest_ms // {"h": 60 * _MINUTE_MS, "min": _MINUTE_MS, "s": 1000}[below]
    return f"{many} {unit}" + (f" {rest} {below}" if rest else "")


def seconds(value_s: float | None) -> str:
    """Write a number of seconds as a time span."""
    return "" if value_s is None else duration(round(value_s * 1000))


def ms_of(moment: Time) -> int:
    """Return a moment in Unix milliseconds."""
    return moment if isinstance(moment, int) else unix_ms(moment)


def clock(moment: Time | None) -> str:
    """Write the time of day, in UTC."""
    if moment is None:
        return ""
    minutes, second = divmod(min(ms_of(moment), LATEST_MS) // 1000 % 86_400, 60)
    return f"{minutes // 60:02}:{minutes % 60:02}:{second:02}"


def day(moment: Time | None) -> str:
    """Write the date, in UTC."""
    return "" if moment is None else _date(min(ms_of(moment), LATEST_MS) // _DAY_MS)


@lru_cache(maxsize=1_000)
def _date(days: int) -> str:
    return f"{moment_at(days * _DAY_MS):%Y-%m-%d}"


def iso(moment: Time) -> str:
    """Write a moment for machines."""
    ms = min(ms_of(moment), LATEST_MS)
    return f"{day(ms)}T{clock(ms)}.{ms % 1000:03}Z"


def at(moment: Time) -> Markup:
    """Write the time of day as an element that has all of the moment."""
    return _time(moment, clock(moment))


def when(moment: Time, now_ms: Time) -> Markup:
    """Write a moment as an element: its time of day, and its date where that is not today."""
    date = day(moment)
    return _time(moment, clock(moment) if date == day(now_ms) else f"{date} {clock(moment)}")


def _time(moment: Time, text: str) -> Markup:
    whole = iso(moment)
    return Markup(f'<time datetime="{whole}" title="{whole}">{text}</time>')  # noqa: S704 - digits alone


def number(value: float) -> str:
    """Write a number with its thousands apart; a fraction of a small one is kept to a digit."""
    return f"{value:,.0f}" if value == int(value) or abs(value) >= 100 else f"{value:,.1f}"  # noqa: PLR2004


def percent(part: float, whole: float) -> str:
    """Write a part of a whole in percent."""
    if not whole:
        return "0 %"
    share = 100 * part / whole
    return f"{share:.1f} %" if 0 < share < 10 else f"{share:.0f} %"  # noqa: PLR2004 - one digit less


def plural(count: int, one: str, many: str = "") -> str:
    """Write a number with its noun."""
    return f"{number(count)} {one if count == 1 else many or one + 's'}"


def vms(count: int) -> str:
    """Write a number of VMs."""
    return plural(count, "VM")


STATE_WORDS: Mapping[str, str] = {
    LeaseState.SUBMITTED: "pending",
    LeaseState.HELD: "held",
    LeaseState.WAITING: "pending",
}
"""Words of other schedulers for states, where theirs are better known; the others stay as they are."""

_STATE_KINDS: Mapping[str, str] = {
    **dict.fromkeys(("submitted", "held", "waiting", "proposed"), "wait"),
    **dict.fromkeys(("starting", "resuming", "migrating"), "start"),
    **dict.fromkeys(("running", "signed", "up"), "run"),
    **dict.fromkeys(("suspending", "suspended", "drained"), "pause"),
    **dict.fromkeys(("completed", "killed", "cancelled", "expired", "succeeded"), "done"),
    **dict.fromkeys(("terminated", "failed", "refused", "unreachable", "revoked"), "bad"),
}


def state_kind(state: str) -> str:
    """Return the class of colour of a state; its word is always beside it."""
    return _STATE_KINDS.get(state, "wait")


_ACTIONS: Mapping[str, str] = {
    "submitted": "was submitted",
    "started": "has its machines: it runs",
    "suspending": "is suspended: its memory is being saved",
    "saved": "has saved its memory, and holds no machines",
    "resuming": "is resumed: its memory is being loaded",
    "migrating": "moves to another site with its memory",
    "continues": "continues where it stopped",
    "recalled": "was called back from its site",
    "extension-asked": "its site was asked to let it run longer",
    "punished": "broke a rule of its agreement, and its consumer was charged for it",
    "extend": "may run longer than first requested",
    "dispatch": "was sent to this site",
    "preempt": "was preempted",
}


def sentence_of(what: str, explanation: str) -> str:
    """Say what a line of the journal means, as the rest of a sentence that begins with the lease."""
    return explanation or _ACTIONS.get(what, what)


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("leasehold.service.api.dashboard", "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    filters: Sequence[Any] = (duration, seconds, clock, day, iso, ms_of, number, vms, state_kind)
    environment.filters |= {function.__name__: function for function in filters}
    environment.filters |= {"json_of": lambda value: json.dumps(value, separators=(",", ":"))}
    environment.globals |= {
        "at": at,
        "percent": percent,
        "plural": plural,
        "sentence_of": sentence_of,
        "state_words": STATE_WORDS,
        "when": when,
    }
    return environment
