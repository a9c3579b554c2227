"""Where a gateway is, written down in its data folder for as long as it lives and no longer.

Whoever reads it there may send the administrator's token to that address. Once the gateway is dead, however
it died, anybody on the machine may listen there. So the gateway holds the file locked while it lives, which
only a living process can; `leasehold.client.place.is_at_work` looks at that lock.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkstemp


@contextmanager
def announced(path: Path, url: str) -> Iterator[None]:
    """Have the file at ``path`` say ``url`` while the block lasts; it is locked before it can be seen."""
    descriptor, temporary = mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(f"{url}\n")
        file.flush()
        Path(temporary).replace(path)
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
