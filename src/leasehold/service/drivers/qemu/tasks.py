"""Tasks that run concurrently, and end together."""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, NoReturn, TypeVar

Result = TypeVar("Result")


async def gathered(works: Iterable[Coroutine[Any, Any, Result]]) -> list[Result]:
    """Do all of these concurrently; when one fails the others are cancelled, and its error is raised."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        await cancelled(tasks)


async def cancelled(tasks: "Iterable[asyncio.Future[Any]]") -> None:
    """Cancel these, and wait until they have ended."""
    tasks = list(tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def unless(failure: Coroutine[Any, Any, NoReturn], work: Coroutine[Any, Any, Result]) -> Result:
    """Do the work to its end, unless the other raises before."""
    tasks = (asyncio.ensure_future(work), asyncio.ensure_future(failure))
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if tasks[1] in done:
            tasks[1].result()
        return await tasks[0]
    finally:
        await cancelled(tasks)
