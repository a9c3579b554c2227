"""Both clients under one face, so that each test holds for both."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import aclosing, closing
from itertools import islice
from typing import Any

from leasehold.client import AsyncClient, Client, RetryPolicy

Talk = Callable[..., Any]
"""``talk("leases.get", 42)`` asks one thing; of what comes in pieces it takes at most ``most``."""


def waiting(url: str, retry: RetryPolicy) -> Talk:
    def ask(method: str, /, *arguments: Any, most: int = 100, **named: Any) -> Any:
        with Client(url, "secret", retry=retry) as client:
            answer = _method(client, method)(*arguments, **named)
            if not isinstance(answer, Generator):
                return answer
            with closing(answer):
                return list(islice(answer, most))

    return ask


def awaiting(url: str, retry: RetryPolicy) -> Talk:
    async def ask(method: str, /, *arguments: Any, most: int = 100, **named: Any) -> Any:
        async with AsyncClient(url, "secret", retry=retry) as client:
            answer = _method(client, method)(*arguments, **named)
            return await (_first(answer, most) if isinstance(answer, AsyncGenerator) else answer)

    return lambda *arguments, **named: asyncio.run(ask(*arguments, **named))


async def _first(answer: AsyncGenerator[Any, None], most: int) -> list[Any]:
    found: list[Any] = []
    async with aclosing(answer) as items:
        async for item in items:
            found.append(item)
            if len(found) == most:
                break
    return found


def _method(client: Client | AsyncClient, name: str) -> Any:
    found: Any = client
    for part in name.split("."):
        found = getattr(found, part)
    return found
