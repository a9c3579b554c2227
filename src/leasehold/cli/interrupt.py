"""Ctrl-C during a run takes effect between two instants, never in the middle of a decision.

So what is written of an interrupted run agrees with itself. The second Ctrl-C takes effect at once.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from types import FrameType


class Interruption:
    """Whether the user has asked to stop; `check` is called where stopping is safe."""

    def __init__(self) -> None:
        self.is_wished = False
        self._can_wait = False

    def check(self) -> None:
        """Stop here if that is wished; from the first call on, a wish can wait for the next one."""
        self._can_wait = True
        if self.is_wished:
            raise KeyboardInterrupt

    def wish(self, _signal: int, _frame: FrameType | None) -> None:
        """Handle the signal."""
        if self.is_wished or not self._can_wait:
            raise KeyboardInterrupt
        self.is_wished = True


@contextmanager
def minding_ctrl_c() -> Iterator[Interruption]:
    """Let Ctrl-C inside wait until a `check`; raises KeyboardInterrupt at the end if none came."""
    interruption = Interruption()
    if current_thread() is not main_thread():  # signals are handled elsewhere then
        yield interruption
        return
    before = signal.signal(signal.SIGINT, interruption.wish)
    try:
        yield interruption
    finally:
        signal.signal(signal.SIGINT, before)
    if interruption.is_wished:
        raise KeyboardInterrupt
