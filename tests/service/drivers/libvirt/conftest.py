"""What tests of libvirt run on: its Python library, its own pretended machines, hosts, and a guest."""

import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import needing
from tests.service.drivers.libvirt.binding import libvirt_python
from tests.service.drivers.libvirt.guest import CMDLINE, LEAST_MEMORY_MIB, Guest, build_guest
from tests.service.drivers.libvirt.hosts import LibvirtHost, install_packages, libvirt_host
from tests.service.drivers.libvirt.rigs import LibvirtRig, PretendedRig
from tests.service.drivers.sites import Clock

PRETENDED = "test:///default"


@pytest.fixture(scope="session")
def library() -> Iterator[Path]:
    """Let libvirt-python be importable."""
    with needing.programs():
        folder = libvirt_python()
    sys.path.append(str(folder))
    yield folder
    sys.path.remove(str(folder))


@pytest.fixture
def pretended(library: Path, tmp_path: Path) -> Iterator[PretendedRig]:  # noqa: ARG001 - imported below
    """Sites on libvirt's pretended host, which lives for as long as somebody is connected to it."""
    import libvirt  # noqa: PLC0415 - it is there when its fixture is

    connection = libvirt.open(PRETENDED)
    yield PretendedRig(tmp_path, {"uri": PRETENDED, "type": "test"}, clock=Clock(), patience=200)
    for domain in connection.listAllDomains():
        if domain.name().startswith("leasehold-"):
            if domain.isActive():
                domain.destroy()
            domain.undefineFlags(libvirt.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE)
    connection.close()


@pytest.fixture(scope="session")
def hosts(library: Path) -> Iterator[list[LibvirtHost]]:  # noqa: ARG001 - whoever needs hosts needs it
    """Two hosts for all tests."""
    with needing.programs():
        install_packages()
    home = Path(tempfile.mkdtemp(prefix="leasehold-lv-"))
    try:
        with libvirt_host(home / "1") as one, libvirt_host(home / "2") as two:
            yield [one, two]
    finally:
        shutil.rmtree(home)


@pytest.fixture(scope="session")
def guest() -> Guest:
    """What real machines boot from."""
    with needing.programs():
        return build_guest()


@pytest.fixture
def real(hosts: list[LibvirtHost], guest: Guest, tmp_path: Path) -> Iterator[LibvirtRig]:
    """Sites a and b on two hosts, with guests that have the agent; nothing of them is left afterwards."""
    one, two = hosts
    options = {
        "type": "qemu",
        "machine": "pc",
        "kernel": str(guest.kernel),
        "initrd": str(guest.initrd),
        "cmdline": CMDLINE,
        "least_memory_mib": LEAST_MEMORY_MIB,
        "guest_agent": True,
        "data_uri": "tcp://127.0.0.1",
        "consoles": str(one.consoles),
    }
    places = {"a": one, "b": two}
    more = {name: {"uri": host.uri, "peer_uri": host.uri} for name, host in places.items()}
    yield LibvirtRig(tmp_path, options, more)
    for host in hosts:
        _clear(host)


def _clear(host: LibvirtHost) -> None:
    import libvirt  # noqa: PLC0415 - it is there when its fixture is

    connection = libvirt.open(host.uri)
    for domain in connection.listAllDomains():
        if domain.isActive():
            domain.destroy()
        domain.undefineFlags(libvirt.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE)
    connection.close()
    for console in host.consoles.iterdir():
        console.unlink()


@pytest.fixture
def pool(hosts: list[LibvirtHost], tmp_path: Path) -> Iterator[Path]:
    """A pool of storage on the first host, with one volume."""
    import libvirt  # noqa: PLC0415 - it is there when its fixture is

    folder = tmp_path / "pool"
    folder.mkdir()
    connection = libvirt.open(hosts[0].uri)
    described = f"<pool type='dir'><name>default</name><target><path>{folder}</path></target></pool>"
    pool = connection.storagePoolCreateXML(described, 0)
    volume = "<name>base.qcow2</name><capacity unit='MiB'>8</capacity><target><format type='qcow2'/></target>"
    pool.createXML(f"<volume>{volume}</volume>", 0)
    yield folder
    pool.destroy()
    connection.close()
