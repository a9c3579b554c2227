"""Bounds for what machines say: checked before it is parsed, and made fit to be stored and shown.

The user of a machine decides what it writes and answers. A number that is too large to be stored, a text without end or
a control character is that machine's fault, and must harm no other lease: a value that cannot be right is read as None,
and nothing is raised.
"""

import re

LATEST_MS = 2**53
"""No time (Unix ms), size or count that is larger is believed: so far JSON and every store can be trusted."""
MOST_EXIT_STATUS = 255
"""What a process can end with; one that a signal has ended counts as 128 and the signal."""
MOST_DETAIL = 2_000
"""Most characters of a message about a machine that are kept."""

_NUMBER = re.compile(r"[0-9]{1,20}", re.ASCII)


def whole_in(value: object, least: int, most: int) -> int | None:
    """Read a whole number, or a text that is one; None where it is none from ``least`` to ``most``."""
    if isinstance(value, str):
        text = value.strip()[:21]
        value = int(text) if _NUMBER.fullmatch(text) else None
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if least <= value <= most else None


def exit_status_in(value: object) -> int | None:
    """Read what a command ended with; None where nothing can have."""
    return whole_in(value, 0, MOST_EXIT_STATUS)


def time_ms_in(value: object) -> int | None:
    """Read a time in Unix milliseconds; None where it is none."""
    return whole_in(value, 0, LATEST_MS)


def storable(value: str) -> str:
    """Replace what no store can keep: NULs, and halves of characters."""
    return value.replace("\0", "\N{REPLACEMENT CHARACTER}").encode(errors="replace").decode()


def one_line(value: str, most: int = MOST_DETAIL) -> str:
    """Make one line of a text, of so many characters at most, without invisible characters."""
    if not value:
        return value
    cut = value[: 4 * most]
    plain = "".join(letter if letter.isprintable() else " " for letter in cut)  # not so are bidi marks
    line = " ".join(plain.split())
    return line if len(line) <= most and len(value) <= 4 * most else f"{line[: most - 1]}…"
