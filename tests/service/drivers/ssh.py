"""OpenSSH's client, by which the user of a lease logs in to its machines."""

import asyncio
import shutil
import subprocess
from pathlib import Path

from tests import needing

from leasehold.service.drivers.facts import Access
from leasehold.testing.debian import find_or_install


def made_key(folder: Path, name: str) -> Path:
    """Make a pair of keys; the public one is beside it, with ``.pub``."""
    with needing.programs():
        find_or_install(lambda: Path(found) if (found := shutil.which("ssh")) else None, "ssh", "openssh-client")
    file = folder / name
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", file], check=True)
    return file


async def ssh(place: Access, key: Path, *command: str) -> tuple[int, str]:
    """Run a command in a machine as its user does; gives ssh's exit status, 255 where it did not get in, and output."""
    options = ("BatchMode=yes", "StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "IdentitiesOnly=yes")
    words = ["-i", str(key), "-p", str(place.port), *(f"-o{one}" for one in options), f"{place.user}@{place.host}"]
    done = await asyncio.create_subprocess_exec(
        "ssh", "-F", "/dev/null", *words, *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    output, _ = await done.communicate()
    return done.returncode or 0, output.decode()
