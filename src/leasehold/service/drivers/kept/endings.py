"""How a command ended, in the words in which machines are told of: written and read in this one place."""

import re

from leasehold.service.drivers.bounds import exit_status_in

_STATUS = re.compile(r"exit status ([0-9]{1,3})")


def in_words(status: int) -> str:
    """Say how a command ended; nothing where all went well."""
    return f"exit status {status}" if status else ""


def status_of(detail: str, command: tuple[str, ...]) -> int | None:
    """Read how a command ended; None where nothing is said of it, or there was none."""
    found = _STATUS.fullmatch(detail)
    if found is not None:
        return exit_status_in(found[1])
    return 0 if command and not detail else None
