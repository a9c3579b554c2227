"""What does a command do on emulated machines?

===========================  ==============================================================
``sleep N``                  N seconds of work on a machine of the reference speed, then it ends
``echo TEXT ...``            writes a line, and ends at once
``true``, ``exit 0``         ends at once
``false``, ``exit N``        ends at once, and says with which exit status
``sh -c 'A; B; ...'``        one of these after the other, up to the first ``exit``
nothing                      just the machines: they run until they are stopped
anything else                is not carried out, and taken to run until it is stopped
===========================  ==============================================================

How long any other program would take cannot be known here. Taking it to run until its lease is over is what the planner
counts on, too.
"""

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from leasehold.service.drivers.protocol import NOT_FOUND

_SECONDS = re.compile(r"[0-9]{1,12}(\.[0-9]{1,9})?")
_STATUS = re.compile(r"[0-9]{1,3}")
_MORE_THAN_WORDS = re.compile(r"[$&|<>()`*?\\#~!{}\[\]]")
"""What a shell makes something else of: no script with any of it is carried out, even where it is quoted."""
_WORKING_MS_PER_S = 1000


@dataclass(frozen=True, slots=True)
class Ending:
    """How a command ends by itself: after this much work (in work units), and what there is to say of it."""

    work: int
    detail: str = ""
    exit_status: int = 0
    output: str = ""


def ending(command: Sequence[str], reference_mips: int) -> Ending | None:
    """Say how a command ends; None: only when it is stopped."""
    match list(command):
        case ["sleep", seconds]:
            return _slept(seconds, reference_mips)
        case ["echo", *words]:
            return Ending(0, output=" ".join(words) + "\n")
        case ["true" | "false" as word]:
            return _exited("0" if word == "true" else "1")
        case ["exit", status]:
            return _exited(status)
        case ["sh", "-c", script]:
            return _one_after_the_other(script, reference_mips)
        case _:
            return None


def said_of(command: Sequence[str], reference_mips: int) -> str:
    """Say of a command that it is not carried out; "" of any other."""
    if not command or ending(command, reference_mips) is not None:
        return ""
    return f"emulated machines do not carry out {command[0]}: it is taken to run until it is stopped"


def failing(work: int, exit_status: int) -> Ending:
    """Say how a command ends whose own code goes wrong after so much work."""
    output = "emulated fault: an error in the job's own code\n"
    return Ending(work, f"exit status {exit_status}", exit_status, output)


def not_found(program: str) -> Ending:
    """Say how a command ends that is not there."""
    return Ending(0, f"exit status {NOT_FOUND}", NOT_FOUND, f"sh: 1: {program}: not found\n")


def _slept(seconds: str, reference_mips: int) -> Ending:
    if not _SECONDS.fullmatch(seconds):
        return _failed(1, f"sleep takes a number of seconds, not {seconds!r}")
    return Ending(ceil(Fraction(seconds) * _WORKING_MS_PER_S * reference_mips))


def _exited(status: str) -> Ending:
    if not _STATUS.fullmatch(status):
        return _failed(2, f"exit takes a number, not {status!r}")
    return _failed(int(status) % 256) if int(status) % 256 else Ending(0)


def _failed(status: int, why: str = "") -> Ending:
    return Ending(0, why or f"exit status {status}", status, f"{why}\n" if why else "")


def _one_after_the_other(script: str, reference_mips: int) -> Ending | None:
    """Carry simple commands out as a shell would: the last of them, or an ``exit``, says how it ended."""
    work, output, last = 0, "", Ending(0)
    for words in _commands(script):
        found = ending(words, reference_mips) if words[0] != "sh" else None
        if found is None:
            return None
        work, output, last = work + found.work, output + found.output, found
        if words[0] == "exit":
            break
    return Ending(work, last.detail, last.exit_status, output)


def _commands(script: str) -> list[list[str]]:
    """Part a script at its semicolons and line ends; one that is more than that is not carried out."""
    if _MORE_THAN_WORDS.search(script):
        return [[script]]
    lexer = shlex.shlex(script.replace("\n", ";"), posix=True, punctuation_chars=";")
    lexer.whitespace_split = True
    commands: list[list[str]] = [[]]
    try:
        for word in lexer:
            if set(word) == {";"}:
                commands.append([])
            else:
                commands[-1].append(word)
    except ValueError:
        return [[script]]
    return [words for words in commands if words]
