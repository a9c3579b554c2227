"""Another gateway, in a process of its own, that can be killed."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("another_gateway.py")


class AnotherGateway:
    """The other end of `another_gateway`."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def hear(self) -> str:
        """What it says next; "" when it is dead and has said all."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def go_on(self) -> None:
        """Let it make one more transaction."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def kill(self) -> list[str]:
        """kill -9; returns what it had said and nobody had heard yet."""
        self._process.kill()
        heard = list(iter(self.hear, ""))
        self._process.wait()
        return heard


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for a claim no longer than it takes to know that somebody else has it."""
    monkeypatch.setattr("leasehold.service.store.writer_lock.LOCK_TIMEOUT", "1ms")


@pytest.fixture
def another_gateway() -> Iterator[Callable[[str], AnotherGateway]]:
    """Start other gateways on the stores at these URLs; none outlives the test."""
    with ExitStack() as gateways:

        def start(url: str) -> AnotherGateway:
            command = [sys.executable, str(PROGRAM), url]
            process = gateways.enter_context(
                subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            )
            gateways.callback(process.kill)
            return AnotherGateway(process)

        yield start
