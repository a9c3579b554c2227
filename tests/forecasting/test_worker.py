"""The process that simulates futures."""

import os
import subprocess
import sys

from tests.waiting import PATIENCE_S

from leasehold.forecasting.worker import LENGTH

COMMAND = [sys.executable, "-m", "leasehold.forecasting.worker"]
QUESTION = b"{}\n"
STARTS_ONE = f"""
import os, signal, subprocess
subprocess.Popen([*{COMMAND!r}, str(os.getpid())])
print("started", flush=True)
signal.pause()
"""


def test_it_ends_without_a_word_where_nobody_wants_the_answer_any_more() -> None:
    command = [*COMMAND, str(os.getpid())]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        process.stdin.write(len(QUESTION).to_bytes(LENGTH, "big") + QUESTION)
        process.stdin.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


def test_it_ends_with_whoever_started_it_and_was_killed() -> None:
    """Its input stays open, as if it was still being asked."""
    source, ours = os.pipe()
    with subprocess.Popen([sys.executable, "-c", STARTS_ONE], stdin=source, stdout=subprocess.PIPE) as starter:
        assert starter.stdout is not None
        assert starter.stdout.readline() == b"started\n"
        starter.kill()
        rest, _ = starter.communicate(timeout=PATIENCE_S)
    assert rest == b"", "the output ends when the worker does, too"
    os.close(source)
    os.close(ours)
