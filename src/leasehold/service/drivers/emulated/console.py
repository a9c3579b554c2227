"""What would stand on the console of emulated machines? What was done to them, line by line."""

from collections.abc import Iterable
from datetime import UTC, datetime

from leasehold.service.drivers.emulated.audit import Action, AuditLine

_SAYS = {
    Action.BOOT: "boots {detail}",
    Action.SAVE: "saves the memory of {detail}",
    Action.LOAD: "loads the memory of {detail}",
    Action.RECEIVE: "takes over {detail}",
    Action.SEND: "goes {detail}",
    Action.STOP: "is stopped",
    Action.RUN: "runs {detail}",
    Action.SAVED: "has saved its memory",
    Action.END: "has ended",
    Action.FAIL: "has failed: {detail}",
}


def console_text(lines: Iterable[AuditLine]) -> str:
    """Write the lines of one lease's audit out, each with its time; empty where there are none."""
    return "".join(f"{_time(line.at_ms)}  {_sentence(line)}\n" for line in lines)


def _sentence(line: AuditLine) -> str:
    return _SAYS[line.action].format(detail=line.detail or "until it is stopped")


def _time(at_ms: int) -> str:
    moment = datetime.fromtimestamp(at_ms // 1000, UTC).replace(microsecond=at_ms % 1000 * 1000)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
