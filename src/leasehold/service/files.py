"""The files that consumers store at a gateway: inputs of their jobs, and what jobs leave behind.

A file is known by the SHA-256 of its content, and its content is stored once, whoever stores it. Each consumer has
files of its own, which count towards its quota, and has to send the content of each: to know a hash is not to have the
file.

An upload comes in pieces, each at the offset that was reached; what has arrived stays over a restart. A file is
complete when all of it is here and has the hash that was announced; until then nobody can use it.
"""

import hashlib
import json
import os
import shutil
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from threading import Lock

from leasehold.model.errors import InvalidField
from leasehold.protocol.problems import Kind
from leasehold.service.drivers.staging import content_path, sha256_of
from leasehold.service.errors import ServiceError

_OURS = 0o600
_READ_ONLY = 0o400


class NoSuchFile(ServiceError):
    """The consumer has no file with this hash."""

    kind = Kind.NO_SUCH_FILE

    def __init__(self, sha256: str) -> None:
        super().__init__(f"no file with SHA-256 {sha256}")


class NoSuchPart(ServiceError):
    """A `Range` lies outside the file; ``size`` is what `Content-Range` says of it then."""

    kind = Kind.NO_SUCH_PART

    def __init__(self, said: str, size: str) -> None:
        super().__init__(f"Range: got {said[:200]!r}, expected a part of {size.removeprefix('bytes */')} bytes")
        self.headers = {"Content-Range": size}


class FileQuota(ServiceError):
    """There is no room for a file: in the quota of its consumer, or in that of all together."""

    kind = Kind.FILE_QUOTA

    def __init__(self, name: str, size_bytes: int, used_bytes: int, most_bytes: int, whose: str) -> None:
        super().__init__(
            f"file {name!r} has {size_bytes} bytes, and {whose} {used_bytes} of at most {most_bytes} bytes already: "
            "remove files that are not needed any more"
        )


class FileConflict(ServiceError):
    """A piece does not follow what has arrived, or the content is not what was announced."""

    kind = Kind.FILE_CONFLICT


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file of one consumer.

    ``received_bytes``  so much of it has arrived, and is stored
    """

    consumer: str
    sha256: str
    name: str
    size_bytes: int
    created_ms: int
    received_bytes: int = 0
    is_complete: bool = False


class FileStore:
    """The files of all consumers below one folder. May be used from several threads.

    ``per_consumer_bytes``, ``total_bytes``  quotas; 0: none. A file counts with its whole size from its announcement.
    """

    def __init__(self, folder: Path, per_consumer_bytes: int = 0, total_bytes: int = 0) -> None:
        """Find what is there."""
        self.folder = folder
        self._per_consumer_bytes = per_consumer_bytes
        self._total_bytes = total_bytes
        self._lock = Lock()
        self._files: dict[tuple[str, str], StoredFile] = {}
        self._busy: set[tuple[str, str]] = set()
        for path in folder.glob("owners/*/*.json"):
            self._find(path)

    def _find(self, path: Path) -> None:
        try:
            file = StoredFile(**json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return  # it was being written when the gateway ended: it is announced again
        if not file.is_complete:
            partial = self._partial(file)
            file = replace(file, received_bytes=partial.stat().st_size if partial.exists() else 0)
        self._files[file.consumer, file.sha256] = file

    # Looking

    def get(self, consumer: str, sha256: str) -> StoredFile:
        """Look at one; raises NoSuchFile."""
        try:
            return self._files[consumer, sha256]
        except KeyError:
            raise NoSuchFile(sha256) from None

    def list(self, consumer: str) -> list[StoredFile]:
        """All files of a consumer, by name."""
        mine = (file for file in list(self._files.values()) if file.consumer == consumer)
        return sorted(mine, key=lambda file: (file.name, file.sha256))

    def content(self, consumer: str, sha256: str) -> Path:
        """Give the path of a complete file's content; raises NoSuchFile."""
        if not self.get(consumer, sha256).is_complete:
            raise NoSuchFile(sha256)
        return content_path(self.folder, sha256)

    # Storing

    def announce(self, consumer: str, sha256: str, name: str, size_bytes: int, now_ms: int) -> StoredFile:
        """Begin an upload, or find how far it is. Raises FileQuota, InvalidField."""
        with self._lock:
            known = self._files.get((consumer, sha256))
            if known is not None:
                if known.size_bytes != size_bytes:
                    raise InvalidField("size_bytes", size_bytes, f"{known.size_bytes}, as it was announced before")
                return known
            self._check_quotas(consumer, name, size_bytes)
            file = StoredFile(consumer, sha256, name, size_bytes, now_ms)
            self._put(file)
        return file if size_bytes else self.write(consumer, sha256, 0, b"")

    def _check_quotas(self, consumer: str, name: str, size_bytes: int) -> None:
        own = sum(file.size_bytes for file in self._files.values() if file.consumer == consumer)
        if self._per_consumer_bytes and own + size_bytes > self._per_consumer_bytes:
            raise FileQuota(name, size_bytes, own, self._per_consumer_bytes, f"{consumer} has stored")
        total = sum(file.size_bytes for file in self._files.values())
        if self._total_bytes and total + size_bytes > self._total_bytes:
            raise FileQuota(name, size_bytes, total, self._total_bytes, "all consumers together have stored")

    def write(self, consumer: str, sha256: str, offset: int, piece: bytes) -> StoredFile:
        """Append a piece, and complete the file with the last one.

        Raises NoSuchFile; FileConflict where the piece does not follow what has arrived, or where the content has
        another hash: then all of it is dropped.
        """
        file = self.get(consumer, sha256)
        key = consumer, sha256
        with self._lock:
            if key in self._busy:
                raise FileConflict(f"another piece of {file.name!r} is being written")
            self._busy.add(key)
        try:
            file = self._files.get(key, file)
            return file if file.is_complete else self._append(file, offset, piece)
        finally:
            with self._lock:
                self._busy.discard(key)

    def _append(self, file: StoredFile, offset: int, piece: bytes) -> StoredFile:
        if offset != file.received_bytes:
            raise FileConflict(f"{file.name!r}: the piece begins at {offset}, expected {file.received_bytes}")
        received = offset + len(piece)
        if received > file.size_bytes:
            raise FileConflict(f"{file.name!r}: {received} bytes have come, expected {file.size_bytes} in all")
        partial = self._partial(file)
        partial.parent.mkdir(parents=True, exist_ok=True)
        partial.touch(mode=_OURS)
        with partial.open("r+b") as out:
            out.truncate(offset)  # a piece of which no more was acknowledged may be behind it
            out.seek(offset)
            out.write(piece)
            out.flush()
            os.fsync(out.fileno())
        file = replace(file, received_bytes=received)
        if received == file.size_bytes:
            file = self._complete(file, partial)
        with self._lock:
            self._put(file)
        return file

    def _complete(self, file: StoredFile, partial: Path) -> StoredFile:
        found = sha256_of(partial)
        if found != file.sha256:
            partial.unlink(missing_ok=True)
            with self._lock:
                self._forget(file)
            raise FileConflict(
                f"{file.name!r} changed under way: its content has SHA-256 {found}, expected {file.sha256}"
            )
        self._publish(partial, file.sha256)
        return replace(file, is_complete=True)

    def _publish(self, path: Path, sha256: str) -> None:
        content = content_path(self.folder, sha256)
        content.parent.mkdir(parents=True, exist_ok=True)
        path.chmod(_READ_ONLY)
        path.replace(content)

    def add(self, consumer: str, name: str, source: Path, now_ms: int) -> StoredFile:
        """Store a file that is on this machine. Raises FileQuota, OSError."""
        size_bytes = source.stat().st_size
        with self._lock:
            self._check_quotas(consumer, name, size_bytes)
        copy = self.folder / "partial" / f"copy-{os.urandom(8).hex()}"
        copy.parent.mkdir(parents=True, exist_ok=True)
        try:
            shutil.copyfile(source, copy)
            sha256, size_bytes = sha256_of(copy), copy.stat().st_size
            with self._lock:
                known = self._files.get((consumer, sha256))
                if known is not None and known.is_complete:
                    return known
                self._check_quotas(consumer, name, size_bytes)
                self._publish(copy, sha256)
                file = StoredFile(consumer, sha256, name, size_bytes, now_ms, size_bytes, is_complete=True)
                self._put(file)
                return file
        finally:
            copy.unlink(missing_ok=True)

    def remove(self, consumer: str, sha256: str) -> None:
        """Remove a file of a consumer, and its content where nobody else has it; raises NoSuchFile."""
        with self._lock:
            self._forget(self.get(consumer, sha256))

    # On the disk

    def _put(self, file: StoredFile) -> None:
        path = self._record(file)
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".new")
        partial.write_text(json.dumps(asdict(file)), encoding="utf-8")
        partial.replace(path)
        self._files[file.consumer, file.sha256] = file

    def _forget(self, file: StoredFile) -> None:
        self._files.pop((file.consumer, file.sha256), None)
        self._record(file).unlink(missing_ok=True)
        self._partial(file).unlink(missing_ok=True)
        if not any(other.sha256 == file.sha256 and other.is_complete for other in self._files.values()):
            content_path(self.folder, file.sha256).unlink(missing_ok=True)

    def _record(self, file: StoredFile) -> Path:
        return self.folder / "owners" / _key_of(file.consumer) / f"{file.sha256}.json"

    def _partial(self, file: StoredFile) -> Path:
        return self.folder / "partial" / f"{_key_of(file.consumer)}-{file.sha256}"


def _key_of(consumer: str) -> str:
    """Name a consumer in a path, whatever characters it has."""
    return hashlib.sha256(consumer.encode()).hexdigest()[:32]
