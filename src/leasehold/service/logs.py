"""What the service says while it works: lines for people on a terminal, JSON lines for machines elsewhere.

Everything goes one way: Leasehold's own words, those of the web server and of every library. Nothing secret
gets out: each line passes `leasehold.service.auth.redaction` right before it is written.
"""

import logging
from typing import TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from leasehold.service.auth.redaction import without_secrets
from leasehold.service.config import LogSpec
from leasehold.service.request_log import REQUEST_LOGGER

_CLOCK = structlog.processors.TimeStamper(fmt="%H:%M:%S", utc=False)
_INSTANT = structlog.processors.TimeStamper(fmt="iso", utc=True)
_FIRST = ("timestamp", "level", "event")


def is_for_people(spec: LogSpec, stream: TextIO) -> bool:
    """Whether what is said there is said to people."""
    return spec.format == "console" or (spec.format == "auto" and stream.isatty())


def set_up_logs(spec: LogSpec, stream: TextIO) -> None:
    """Let everything that this process says from now on go to this stream, in the format asked for."""
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
    """Say first when it was, how grave, and what; and milliseconds to the tenth: nobody reads the rest."""
    if isinstance(event.get("ms"), float):
        event["ms"] = round(event["ms"], 1)
    return {**{key: event[key] for key in _FIRST if key in event}, **event}
