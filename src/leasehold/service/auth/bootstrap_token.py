"""The first administrator's token: a file that only its owner can read, created before the service listens.

A user who can read the data folder has full control anyway, since the store is in it. So the command line on the
same machine finds its token there, and no password has to be chosen.

When the file is there, and no administrator's token is live in the store, the token of the file is taken in:
its making was interrupted, or the store is new. When the file is not there, it is made only if no
administrator's token is live: a file that was taken away on purpose does not come back. A token of the file
that was revoked or has expired stays so; `renew_admin_token` is the way out where everything is lost
but the data folder.
"""

import os
import stat
from pathlib import Path
from tempfile import mkstemp

from leasehold.model.errors import InputError
from leasehold.service.auth.principal import Principal, Role
from leasehold.service.auth.tokens import TokenStore, hash_of, id_of, is_live, new_text, roles_of, token_row

FILE_NAME = "admin.token"
CONSUMER = "operator"
NOTE = "the first administrator's, made by the service itself"
_MOST_BYTES = 4_096
_ADMINISTRATOR = Principal(CONSUMER, frozenset({Role.FEDERATION_ADMIN}))


def bootstrap_admin_token(store: TokenStore, data_folder: Path, now_ms: int) -> Path | None:
    """Give the file with a live administrator's token, made where it has to be; None: there is no such file.

    Only one process at a time may do this: the one that claimed the store. Raises InputError for a file that
    others can read, or that holds no token.
    """
    path = data_folder / FILE_NAME
    text = read_token_file(path) if os.path.lexists(path) else None
    if not _has_administrator(store, now_ms):
        text = text or _write(path)
        if store.token_by_hash(hash_of(text)) is None:
            store.add_token(token_row(text, _ADMINISTRATOR, now_ms, note=NOTE))
    return path if text and _is_administrators(store, text, now_ms) else None


def renew_admin_token(store: TokenStore, data_folder: Path, now_ms: int) -> Path:
    """Revoke all bootstrap tokens, and create another one, whatever else is in the store."""
    for row in store.tokens():
        if row.note == NOTE:
            store.revoke_token(row.id, now_ms)
    text = _write(data_folder / FILE_NAME)
    store.add_token(token_row(text, _ADMINISTRATOR, now_ms, note=NOTE))
    return data_folder / FILE_NAME


def read_token_file(path: Path) -> str:
    """Read a token from a file that only its owner can read.

    Raises InputError: it cannot be read, is not a regular file, is open to others, or holds no token.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise InputError(path, None, f"cannot be read: {error.strerror}") from None
    try:
        _check_mode(path, os.fstat(descriptor).st_mode)
        text = os.read(descriptor, _MOST_BYTES).decode(errors="replace").strip()
    finally:
        os.close(descriptor)
    if id_of(text) is None:
        raise InputError(path, None, "does not hold a token; remove it, and a new one is created at the next start")
    return text


def _check_mode(path: Path, mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise InputError(path, None, "is not a regular file")
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise InputError(path, None, f"can be read by others; if no one has read it, run: chmod 600 {path}")


def _write(path: Path) -> str:
    """Write a new token atomically: a file created exclusively, with mode 0600, is renamed."""
    text = new_text()
    descriptor, temporary = mkstemp(dir=path.parent, prefix=f".{FILE_NAME}.")
    with os.fdopen(descriptor, "w") as file:
        file.write(f"{text}\n")
        file.flush()
        os.fsync(descriptor)
    os.replace(temporary, path)  # noqa: PTH105 - mkstemp gives a name, not a Path
    _sync_folder(path.parent)
    return text


def _sync_folder(folder: Path) -> None:
    """Make the name of the file survive a power failure, as the row in the store does."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _has_administrator(store: TokenStore, now_ms: int) -> bool:
    return any(Role.FEDERATION_ADMIN in roles_of(row) for row in store.tokens() if is_live(row, now_ms))


def _is_administrators(store: TokenStore, text: str, now_ms: int) -> bool:
    row = store.token_by_hash(hash_of(text))
    return row is not None and is_live(row, now_ms) and Role.FEDERATION_ADMIN in roles_of(row)
