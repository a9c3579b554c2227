"""Files of commands, as the service brings them to a site and gets them back."""

import hashlib
import random
from dataclasses import replace
from pathlib import Path

from leasehold.service.drivers.protocol import Driver, Order, Verb
from leasehold.service.drivers.staging import JobFiles, StagedFile, TakesFiles, content_path
from leasehold.testing.driver_rig import order


def staged(driver: Driver, content: bytes, name: str = "in.dat") -> StagedFile:
    """Bring a file to a site, as the service does before it orders the start."""
    assert isinstance(driver, TakesFiles)
    sha256 = hashlib.sha256(content).hexdigest()
    place = content_path(driver.input_folder, sha256)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(content)
    return StagedFile(name, sha256, len(content))


def start_with(files: JobFiles, command: tuple[str, ...], vms: int = 1) -> Order:
    """Order the machines of lease 1, whose command has files."""
    return replace(order(Verb.START, vms=vms, command=command), files=files)


async def left_by(driver: Driver) -> dict[str, bytes | str]:
    """What is kept of lease 1: the contents of files, or why there is none."""
    assert isinstance(driver, TakesFiles)
    found = await driver.output_files(1)
    return {name: one.read_bytes() if isinstance(one, Path) else one for name, one in found.items()}


def random_bytes(size: int) -> bytes:
    """Give so many bytes, always the same."""
    return random.Random(size).randbytes(size)
