r"""Plays a page of the documentation in a folder of its own, from top to bottom.

A fenced block whose language is followed by a file name is written to that file. A ``console`` block is
typed: what follows ``$`` runs in a shell, and the lines below it must be what it prints, where ``...`` stands
for anything. A ``sh &`` block is a gateway: it is started, the page goes on when it answers, and it is ended
with the page. Any other block is only shown.
"""

import doctest
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import httpx2
from tests.waiting import PATIENCE_S

BACKGROUND = "&"
DATA = ".local/share/leasehold"
"""Where a gateway keeps its data that is told nothing, below the home of its user: the folder of the page."""

_BLOCK = re.compile(r"^```(?P<language>\w+)(?: (?P<file>\S+))?\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"^\$ (?P<command>.*)\n(?P<output>(?:(?!\$ ).*\n)*)", re.MULTILINE)
_LENIENT = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
_OURS = ("LEASEHOLD_", "BEARER_TOKEN", "XDG_")


@dataclass
class Block:
    """One fenced block of a page; ``file`` is what follows its language."""

    language: str
    file: str | None
    text: str


def blocks(page: str) -> list[Block]:
    """Find the fenced blocks of a page."""
    return [Block(found["language"], found["file"], found["text"]) for found in _BLOCK.finditer(page)]


def play(page: str, folder: Path) -> None:
    """Play a page, and leave nothing running."""
    with ExitStack() as running:
        for block in blocks(page):
            if block.file == BACKGROUND:
                running.enter_context(_gateway(block.text, folder))
            else:
                play_block(block, folder)


def play_block(block: Block, folder: Path) -> None:
    """Play a block that starts nothing."""
    if block.file is not None and block.file != BACKGROUND:
        (folder / block.file).write_text(block.text, encoding="utf-8")
    elif block.language == "console":
        for typed in _COMMAND.finditer(block.text):
            _compare(typed["command"], typed["output"], _run(typed["command"], folder))


def _run(command: str, folder: Path) -> str:
    options = _shell(folder) | {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    done = subprocess.run(["bash", "-c", command], text=True, check=False, **options)
    return str(done.stdout)


def _shell(folder: Path) -> dict[str, Any]:
    """Where and how the commands of a page run: as a user types them who has set nothing, and begins anew."""
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(_OURS)}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    said = {"PATH": path, "COLUMNS": "110", "NO_COLOR": "1", "TERM": "dumb", "HOME": str(folder)}
    return {"cwd": folder, "env": inherited | said, "stdin": subprocess.DEVNULL}


def _compare(command: str, expected: str, printed: str) -> None:
    same = doctest.OutputChecker().check_output(expected, printed, _LENIENT)
    assert same, f"$ {command}\n--- the page says\n{expected}--- it prints\n{printed}"


@contextmanager
def _gateway(command: str, folder: Path) -> Iterator[None]:
    """Start a command, wait until one gateway more than before answers, and end all of it afterwards."""
    expected = _answering(folder) + 1
    with TemporaryFile("w+", encoding="utf-8") as told:
        options = _shell(folder) | {"stdout": told, "stderr": subprocess.STDOUT}
        with subprocess.Popen(["bash", "-c", command], start_new_session=True, **options) as process:
            try:
                came = _wait_for(expected, folder, process)
                told.seek(0)
                assert came, f"no gateway came of\n{command}--- it says\n{told.read()}"
                yield
            finally:
                _end(process)


def _wait_for(gateways: int, folder: Path, process: subprocess.Popen[bytes]) -> bool:
    until_s = time.monotonic() + PATIENCE_S
    while process.poll() is None and time.monotonic() < until_s:
        if _answering(folder) >= gateways:
            return True
        time.sleep(0.05)
    return False


def _answering(folder: Path) -> int:
    """Count the gateways of a page that answer; each has written its address into its data folder."""
    return sum(
        _answers(path.read_text(encoding="utf-8").strip())
        for path in [*folder.glob("*/url"), *folder.glob(f"{DATA}/url")]
    )


def _answers(url: str) -> bool:
    try:
        return httpx2.get(f"{url}/healthz").is_success
    except (httpx2.HTTPError, httpx2.InvalidURL):
        return False


def _end(process: subprocess.Popen[bytes]) -> None:
    """End it with all that it started: kindly, and then for certain."""
    with suppress(ProcessLookupError, subprocess.TimeoutExpired):
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(PATIENCE_S)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
