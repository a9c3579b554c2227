"""Asking a driver, which may fail in any way or say nothing; and telling the engine, which may be busy."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog

from leasehold.service.commands import Command
from leasehold.service.errors import Unavailable

ANSWER_WITHIN_S = 60.0
PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0

Do = Callable[[Command], Awaitable[object]]
T = TypeVar("T")


class Asking:
    """Asks about one site; ``problem`` is what went wrong last, empty while all is well."""

    def __init__(self, site: str, do: Do) -> None:
        self.site = site
        self.problem = ""
        self._do = do

    async def ask(self, answer: Awaitable[T], within_s: float | None = ANSWER_WITHIN_S) -> T | None:
        """Wait for a driver's answer, but not for ever; None where there is none."""
        try:
            async with asyncio.timeout(within_s):
                value = await answer
        except TimeoutError:
            self.problem = f"no answer within {within_s:g} s" if within_s else "no answer in time"
            return None
        except Exception as error:  # noqa: BLE001 - a driver may fail in any way, and the others go on
            self.problem = f"{type(error).__name__}: {error}"
            return None
        self.problem = ""
        return value

    async def tell(self, command: Command) -> bool:
        """Tell the engine; whether it has taken it in. What it cannot take in now may be told again."""
        try:
            await self._do(command)
        except Exception as error:
            if not isinstance(error, Unavailable):
                log = structlog.get_logger("leasehold.finding")
                log.exception("news for jobs were not taken in", site=self.site)
            return False
        return True

    async def tell_until_heard(self, command: Command, otherwise: Command) -> None:
        """Tell the engine, again while it cannot be asked; what it can never take in, ``otherwise`` instead.

        If it cannot take that in either, nothing more is said: it would fail in the same way for ever.
        """
        pause_s = PAUSE_S
        for said in (command, otherwise):
            while True:
                try:
                    await self._do(said)
                except Unavailable:
                    await asyncio.sleep(pause_s)
                    pause_s = longer(pause_s)
                except Exception:
                    log = structlog.get_logger("leasehold.finding")
                    log.exception("news for jobs were not taken in", site=self.site)
                    break
                else:
                    return


def longer(pause_s: float) -> float:
    """Wait twice as long the next time, but not for ever."""
    return min(2 * pause_s, LONGEST_PAUSE_S)
