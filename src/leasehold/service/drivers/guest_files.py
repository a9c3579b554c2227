"""The files of a command in a guest: inputs that it finds in its working folder, and outputs that are kept.

Both go through the guest agent, and continue where they were interrupted.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from leasehold.service.drivers.guest_agent import GuestAgent, Refused
from leasehold.service.drivers.reconciler.provider import MachineFailed
from leasehold.service.drivers.staging import MOST_OUTPUT_BYTES, StagedFile, TransferRate, content_path

WORK = "/work"
"""The working folder in a guest."""

PART = ".part"
"""Ends the name of an output of which the rest is still to be read."""


async def bring_inputs(
    agent: GuestAgent, inputs: Iterable[StagedFile], folder: Path, rate: TransferRate, brought: set[str]
) -> None:
    """Write inputs, which are below this folder, into the working folder of a guest, and measure how fast that goes.

    ``brought`` has the names of those that are there with their hash, and gets the others. Raises MachineFailed.
    """
    try:
        await agent.make_folder(WORK)
        for file in inputs:
            if file.name not in brought:
                await _bring_input(agent, file, content_path(folder, file.sha256), rate)
                brought.add(file.name)
    except Refused as error:
        raise MachineFailed(f"its inputs could not be written: {error}") from error
    except OSError as error:
        raise MachineFailed(f"its inputs are not at the site any more: {error.strerror}") from error


async def _bring_input(agent: GuestAgent, file: StagedFile, content: Path, rate: TransferRate) -> None:
    """Write what is missing of a file in the guest; where what was there does not fit, all of it."""
    path = f"{WORK}/{file.name}"
    for is_last in (False, True):
        began_s = time.monotonic()
        with content.open("rb") as stream:
            written_bytes = await agent.continue_file(path, stream)
        found = await agent.sha256(path)
        if found == file.sha256:
            rate.measure(written_bytes, time.monotonic() - began_s)
            return
        if is_last:
            what = f"in the guest it has SHA-256 {found}, expected {file.sha256}"
            raise MachineFailed(f"input {file.name!r} changed under way: {what}")
        await agent.remove_file(path)


async def fetch_outputs(agent: GuestAgent, names: Sequence[str], path_of: Callable[[int], Path]) -> dict[str, str]:
    """Copy the files that a command has left out of its guest, each to where its place among the names says.

    Returns by name why one could not be had, "" for those that could.
    """
    problems: dict[str, str] = {}
    for number, name in enumerate(names):
        path = path_of(number)
        problems[name] = ""
        if path.exists():
            continue
        part = path.with_name(path.name + PART)
        try:
            with part.open("ab") as out:
                async for piece in agent.read_file(f"{WORK}/{name}", out.tell(), MOST_OUTPUT_BYTES):
                    out.write(piece)
            part.replace(path)
        except Refused as error:
            part.unlink(missing_ok=True)
            problems[name] = f"the command left no such file, or it cannot be read: {error}"
    return problems
