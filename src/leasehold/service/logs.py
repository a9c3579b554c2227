"""What the service logs: lines for people on a terminal, JSON lines for machines elsewhere.

Everything goes one way: Leasehold's own lines, those of the web server and of every library. What looks like a
token or a password is replaced right before a line is written: rather too much than too little, as a log with a
hole can still be read, and a secret in a log cannot be taken back. Tokens of Leasehold keep their id, which is not
secret and says which one it was.

Each request has one line and an ID, which is in the answer and in every line that is logged meanwhile; it is the
caller's own where it sends one.
"""

import logging
import re
from collections.abc import Mapping
from random import getrandbits
from time import perf_counter
from typing import TextIO

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from structlog.typing import EventDict, Processor, WrappedLogger

from leasehold.service.config import LogSpec

_CLOCK = structlog.processors.TimeStamper(fmt="%H:%M:%S", utc=False)
_INSTANT = structlog.processors.TimeStamper(fmt="iso", utc=True)
_FIRST = ("timestamp", "level", "event")


def is_for_people(spec: LogSpec, stream: TextIO) -> bool:
    """Whether the log is read by people."""
    return spec.format == "console" or (spec.format == "auto" and stream.isatty())


def set_up_logs(spec: LogSpec, stream: TextIO) -> None:
    """Send all log output of this process to this stream, in the configured format."""
    people = is_for_people(spec, stream)
    shared = _what_every_line_has(_CLOCK if people else _INSTANT)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,  # so that a second set-up, as in tests, counts everywhere
    )
    render = _for_people(stream) if people else structlog.processors.JSONRenderer()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(_formatter(render, shared))
    logging.getLogger().handlers[:] = [handler]
    set_levels(spec)


def set_levels(spec: LogSpec) -> None:
    """Say from now on what this level asks for; libraries chat only where everything is wanted."""
    logging.getLogger().setLevel(logging.INFO if spec.level == "debug" else logging.WARNING)
    logging.getLogger("leasehold").setLevel(spec.level.upper())
    logging.getLogger(REQUEST_LOGGER).setLevel(logging.NOTSET if spec.requests else logging.WARNING)


def _what_every_line_has(stamp: Processor) -> list[Processor]:
    return [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(allow=()),
        stamp,
    ]


def _formatter(render: Processor, shared: list[Processor]) -> logging.Formatter:
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.format_exc_info,
            _in_order,
            without_secrets,
            render,
        ],
    )


def _for_people(stream: TextIO) -> Processor:
    return structlog.dev.ConsoleRenderer(colors=stream.isatty(), exception_formatter=structlog.dev.plain_traceback)


def _in_order(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Say first when it was, how grave, and what; and milliseconds to the tenth."""
    if isinstance(event.get("ms"), float):
        event["ms"] = round(event["ms"], 1)
    return {**{key: event[key] for key in _FIRST if key in event}, **event}


HIDDEN = "[hidden]"

_SECRET_KEYS = re.compile(
    r"(?i)authorization|cookie|password|passwd|passphrase|secret|credential|^(access_|refresh_|id_)?token$|api_?key"
)

_RULES: tuple[tuple[re.Pattern[str], str], ...] = (
    # JWTs, before anything takes a piece out of one: the first part is base64url of {" or of { and a blank
    (re.compile(r"e(?:y[A-DI-L]|w[k-r0-3])[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]*)*"), HIDDEN),
    # lh_<id>_<secret>
    (re.compile(r"(lh_[0-9A-Za-z]+_)[A-Za-z0-9_-]+"), rf"\1{HIDDEN}"),
    # Authorization: ..., in headers, dictionaries and curl commands: to the end of the line or the quote
    (re.compile(r"""(?i)(authorization["']?\s*[:=,]\s*b?["']?)[^"'\r\n]+"""), rf"\1{HIDDEN}"),
    # Bearer ..., Basic ... elsewhere; a word of ordinary length may just be prose
    (re.compile(r"(?i)\b(bearer|basic)(\s+)[A-Za-z0-9\-._~+/]{16,}=*"), rf"\1\2{HIDDEN}"),
    # scheme://user:password@host; a password may have whatever its writer forgot to escape
    (re.compile(r"(://[^\s:/@]*:)\S*@"), rf"\1{HIDDEN}@"),
    # ?access_token=..., password=...
    (re.compile(r"(?i)((?:token|password|passwd|secret|api_?key)=)[^\s&;,\"']+"), rf"\1{HIDDEN}"),
)

_MOST_DEPTH = 8


def redacted(text: str) -> str:
    """Give a text with every secret in it hidden; a text without any as it is."""
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return text


def without_secrets(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Hide the secrets of a line of log, however deep: a processor for structlog, right before the renderer.

    A value with the name of a secret (``authorization``, ``password``) is hidden as a whole.
    Tracebacks have to be text by then (`structlog.processors.format_exc_info`).
    """
    return {key: clean(key, value) for key, value in event.items()}


def clean(key: str, value: object, depth: int = 0) -> object:
    """Hide the secrets of one value with this name."""
    if _SECRET_KEYS.search(key) and value is not None:
        return HIDDEN
    if isinstance(value, str):
        return redacted(value)
    if isinstance(value, bool | int | float | None):
        return value
    return _clean_nested(value, depth)


def _clean_nested(value: object, depth: int) -> object:
    if isinstance(value, Mapping) and depth < _MOST_DEPTH:
        return {redacted(str(key)): clean(str(key), one, depth + 1) for key, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset) and depth < _MOST_DEPTH:
        return [clean("", one, depth + 1) for one in value]
    shown = repr(value)
    return value if redacted(shown) == shown else redacted(shown)


REQUEST_LOGGER = "leasehold.request"
ID_HEADER = "X-Request-ID"
_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_UNREMARKABLE = ("/healthz", "/readyz", "/metrics")
"""Asked for by machines every few seconds; logged only at level debug."""


class RequestLog:
    """Wraps an application, and logs each request: consumer, route, status and duration."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._log = structlog.get_logger(REQUEST_LOGGER)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began_s, request_id, status = perf_counter(), _id_of(scope), 0

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)[ID_HEADER] = request_id
            await send(message)

        with structlog.contextvars.bound_contextvars(id=request_id):
            try:
                await self._app(scope, receive, noting)
            finally:
                self._say(scope, status, (perf_counter() - began_s) * 1000)

    def _say(self, scope: Scope, status: int, ms: float) -> None:
        """Log a request; a ``status`` of 0 means that no response began, because the client had gone."""
        route = getattr(scope.get("route"), "path_format", "")
        say = self._log.debug if route in _UNREMARKABLE else self._log.info
        say("request", consumer=_consumer(scope), method=scope["method"], route=route, status=status, ms=ms)


def _id_of(scope: Scope) -> str:
    given = Headers(scope=scope).get(ID_HEADER, "")
    return given if _ID.fullmatch(given) else f"{getrandbits(64):016x}"


def _consumer(scope: Scope) -> str:
    call = scope.get("leasehold.call")
    return "" if call is None else str(call.principal.consumer)
