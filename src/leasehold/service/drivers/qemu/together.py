"""Things that go on beside each other, and end together."""

import asyncio
from collections.abc import Awaitable, Coroutine, Iterable
from typing import Any, TypeVar

Result = TypeVar("Result")


async def side_by_side(works: Iterable[Coroutine[Any, Any, Result]]) -> list[Result]:
    """Do all of these at once; when one fails the others are called off, and its error is raised."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        await call_off(tasks)


async def call_off(tasks: "Iterable[asyncio.Future[Any]]") -> None:
    """Cancel these, and wait until they are over."""
    tasks = list(tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def until(work: Coroutine[Any, Any, Result], alarm: Awaitable[None]) -> Result:
    """Do this to its end, unless the alarm raises before."""
    tasks = (asyncio.ensure_future(work), asyncio.ensure_future(alarm))
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if tasks[1] in done:
            tasks[1].result()
        return await tasks[0]
    finally:
        await call_off(tasks)
