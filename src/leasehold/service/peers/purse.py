"""The tokens that we show to peers: one file for each, that only its owner can read."""

import os
from pathlib import Path
from tempfile import mkstemp

from leasehold.model.errors import InputError
from leasehold.service.auth.bootstrap_token import read_token_file

_PRIVATE = 0o700


class Purse:
    """Keeps tokens in a folder of its own, by the names of the peers that gave them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def has(self, name: str) -> bool:
        """Whether there is a token to show to a peer."""
        return self._path(name).exists()

    def read(self, name: str) -> str:
        """Give the token to show to a peer; raises InputError where there is none, or others can read it."""
        return read_token_file(self._path(name))

    def put(self, name: str, token: str) -> None:
        """Keep a token: all of it or nothing, for nobody else to read; raises InputError."""
        try:
            self._folder.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
            descriptor, temporary = mkstemp(dir=self._folder, prefix=f".{name}.")
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(f"{token}\n")
                file.flush()
                os.fsync(descriptor)
            Path(temporary).replace(self._path(name))
        except OSError as error:
            raise InputError(self._path(name), None, f"cannot be written: {error.strerror}") from None

    def drop(self, name: str) -> None:
        """Let go of a token, if there is one."""
        self._path(name).unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.token"
