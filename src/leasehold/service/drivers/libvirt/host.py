"""The host under libvirt: its connection, opened when it is needed and again when it is broken, and its disks.

The disks of machines are layers over one volume, in the same pool.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Lock
from typing import Any
from xml.etree import ElementTree as ET

import libvirt

from leasehold.service.drivers.libvirt.domain import disk_paths
from leasehold.service.drivers.libvirt.options import LibvirtOptions

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


# --- disks ------------------------------------------------------------------------------------------------------------


def layer_path(connection: Any, options: LibvirtOptions, name: str) -> str | None:  # noqa: ANN401 - no types
    """Where the layer of a machine will be; None where machines have no disk."""
    if options.volume is None:
        return None
    pool = connection.storagePoolLookupByName(options.pool)
    folder = ET.fromstring(pool.XMLDesc(0)).findtext("target/path")  # noqa: S314 - libvirt's own words
    return f"{folder}/{name}.qcow2"


def make_layer(connection: Any, options: LibvirtOptions, name: str) -> None:  # noqa: ANN401 - as above
    """Make the layer of a machine, if it is not there yet."""
    if options.volume is None:
        return
    pool = connection.storagePoolLookupByName(options.pool)
    file = f"{name}.qcow2"
    if file not in pool.listVolumes():
        below = pool.storageVolLookupByName(options.volume)
        pool.createXML(_layer(file, below), 0)


def remove_disks(connection: Any, description: str) -> None:  # noqa: ANN401 - as above
    """Remove the layers of a machine; whatever else its disks are stays."""
    for path in disk_paths(description):
        if path.rpartition("/")[2].startswith("leasehold-"):
            with suppress(libvirt.libvirtError):  # it is gone already
                connection.storageVolLookupByPath(path).delete(0)


def _layer(file: str, below: Any) -> str:  # noqa: ANN401 - as above
    _, capacity, _ = below.info()
    path, form = below.path(), ET.fromstring(below.XMLDesc(0)).find("target/format")  # noqa: S314 - as above
    volume = ET.Element("volume")
    ET.SubElement(volume, "name").text = file
    ET.SubElement(volume, "capacity").text = str(capacity)
    ET.SubElement(ET.SubElement(volume, "target"), "format", type="qcow2")
    backing = ET.SubElement(volume, "backingStore")
    ET.SubElement(backing, "path").text = path
    ET.SubElement(backing, "format", type="qcow2" if form is None else form.get("type", "qcow2"))
    return ET.tostring(volume, encoding="unicode")
