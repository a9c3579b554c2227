"""Tasks that run concurrently and end together, and those that a cancellation does not interrupt."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
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


async def uninterrupted(work: Callable[..., Result], *arguments: object) -> Result:
    """Run a function in a thread, and wait for its end even when cancelled: it never runs unobserved."""
    return await shielded(asyncio.ensure_future(asyncio.to_thread(work, *arguments)))


async def shielded(task: "asyncio.Future[Result]") -> Result:
    """Wait for the end of a task; a cancellation is raised only after it."""
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            try:
                await asyncio.wait([task])
            except asyncio.CancelledError:
                continue
        raise
