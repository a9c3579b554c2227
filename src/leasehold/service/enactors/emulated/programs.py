"""What does a command do on emulated machines?

===========================  ==============================================================
``sleep N``                  N seconds of work on a machine of the reference speed, then it ends
``true``, ``exit 0``         ends at once
``false``, ``exit N``        ends at once, and says with which exit status
nothing                      just the machines: they run until they are stopped
anything else                is not carried out, and taken to run until it is stopped
===========================  ==============================================================

How long somebody's own program would take, nobody can know here. Taking it to run until its lease is over
is what the planner counts on, too.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

_SECONDS = re.compile(r"[0-9]{1,12}(\.[0-9]{1,9})?")
_WORKING_MS_PER_S = 1000


@dataclass(frozen=True, slots=True)
class Ending:
    """How a command ends by itself: after this much work (in work units), and what there is to say of it."""

    work: int
    detail: str = ""


def ending(command: Sequence[str], reference_mips: int) -> Ending | None:
    """Say how a command ends; None: only when it is stopped."""
    match list(command):
        case ["sleep", seconds]:
            return _slept(seconds, reference_mips)
        case ["true"] | ["exit", "0"]:
            return Ending(0)
        case ["false"]:
            return _failed("exit status 1")
        case ["exit", status]:
            return _failed(f"exit status {status}")
        case _:
            return None


def _slept(seconds: str, reference_mips: int) -> Ending:
    if not _SECONDS.fullmatch(seconds):
        return _failed(f"sleep takes a number of seconds, not {seconds!r}")
    return Ending(ceil(Fraction(seconds) * _WORKING_MS_PER_S * reference_mips))


def _failed(detail: str) -> Ending:
    return Ending(0, detail)
