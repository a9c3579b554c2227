"""Where a gateway on this machine keeps its things, so that the command line beside it finds them.

The one rule for both: the gateway writes there, and the client reads.
"""

import fcntl
import os
from collections.abc import Mapping
from pathlib import Path

ADMIN_TOKEN = "admin.token"  # noqa: S105 - the name of a file
"""The file with the first administrator's token, readable by its owner alone."""

URL = "url"
"""The file with the address at which the gateway of this folder listens, locked by it while it lives."""


def data_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Give the folder where a gateway of this user keeps its data, whether it exists yet or not.

    ``LEASEHOLD_DATA`` names it; without that it is ``leasehold`` among this user's data, which lies where
    ``XDG_DATA_HOME`` says (an absolute path, or it does not count), or else in ``~/.local/share``.
    """
    if named := environment.get("LEASEHOLD_DATA"):
        return Path(named).expanduser()
    shared = Path(environment.get("XDG_DATA_HOME", ""))
    return (shared if shared.is_absolute() else Path.home() / ".local" / "share") / "leasehold"


def is_at_work(folder: Path) -> bool:
    """Whether the gateway of this folder is running: then no other process can listen at its recorded address."""
    try:
        with (folder / URL).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
