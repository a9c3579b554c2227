"""The disks of machines: layers over one volume, in the same pool."""

from contextlib import suppress
from typing import Any
from xml.etree import ElementTree as ET

import libvirt

from leasehold.service.drivers.libvirt.domain import disk_paths
from leasehold.service.drivers.libvirt.options import LibvirtOptions


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
