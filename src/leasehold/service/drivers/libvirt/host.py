"""The connection to libvirt: opened when it is needed, and again when it has broken."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Lock
from typing import Any

import libvirt

_GONE = frozenset({libvirt.VIR_ERR_NO_DOMAIN, libvirt.VIR_ERR_OPERATION_INVALID})


def _say_nothing(_context: object, _error: object) -> None:
    """Keep libvirt from writing each error to standard error before it raises it."""


libvirt.registerErrorHandler(_say_nothing, None)


class Host:
    """One host's libvirt; asked from several threads at once."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self._lock = Lock()
        self._connection: Any = None

    @property
    def connection(self) -> Any:  # noqa: ANN401 - libvirt-python carries no types
        """A connection that was alive just now; raises ConnectionError where libvirt does not answer."""
        with self._lock:
            if self._connection is None or not _is_alive(self._connection):
                self._connection = self._open()
            return self._connection

    @property
    def name(self) -> str:
        """What it calls itself; empty where libvirt cannot say."""
        try:
            return str(self.connection.getHostname())
        except libvirt.libvirtError as error:
            if error.get_error_code() != libvirt.VIR_ERR_NO_SUPPORT:
                raise
            return ""

    def close(self) -> None:
        """Let go of it."""
        with self._lock, suppress(libvirt.libvirtError):
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    def _open(self) -> Any:  # noqa: ANN401 - as above
        try:
            return libvirt.open(self.uri)
        except libvirt.libvirtError as error:
            raise ConnectionError(f"libvirt at {self.uri}: {error}") from error


def _is_alive(connection: Any) -> bool:  # noqa: ANN401 - as above
    with suppress(libvirt.libvirtError):
        return bool(connection.isAlive())
    return False


@contextmanager
def unless_gone() -> Iterator[None]:
    """Let be what has gone, or stopped by itself, while it was dealt with."""
    try:
        yield
    except libvirt.libvirtError as error:
        if error.get_error_code() not in _GONE:
            raise


def find(connection: Any, name: str) -> Any:  # noqa: ANN401 - as above
    """Find a domain by its name; None where there is none."""
    try:
        return connection.lookupByName(name)
    except libvirt.libvirtError as error:
        if error.get_error_code() != libvirt.VIR_ERR_NO_DOMAIN:
            raise
        return None
