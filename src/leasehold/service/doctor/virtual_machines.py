"""The sites of virtual machines: is QEMU there, an image to boot from, and at which speed will they run?"""

import os
from pathlib import Path

from leasehold.model.errors import LeaseholdError
from leasehold.service.config import SiteSpec
from leasehold.service.doctor.finding import Finding, note, ok, problem, warning
from leasehold.service.doctor.subject import Subject
from leasehold.service.drivers.qemu.host import could_have_kvm, kvm_known_to_work, machine_type
from leasehold.service.drivers.qemu.images.build import why_not
from leasehold.service.drivers.qemu.images.image import Image, default_folder, open_image
from leasehold.service.drivers.qemu.images.repository import find_repository
from leasehold.service.drivers.qemu.images.toolchain import find_tool, missing_packages
from leasehold.service.drivers.qemu.machine import KVM, TCG
from leasehold.service.drivers.qemu.options import QemuOptions, read_options
from leasehold.service.store.place import read_url, sqlite_path

KIND = "qemu"


def check_virtual_machines(subject: Subject) -> list[Finding]:
    """Can machines be started at every site that has virtual ones? Silent where none has."""
    sites = [site for site in subject.config.clusters if site.driver == KIND]
    if not sites:
        return []
    return [_check_qemu(), *(finding for site in sites for finding in _check_site(subject, site))]


def _check_qemu() -> Finding:
    cure = "apt-get install -y --no-install-recommends qemu-system-x86 qemu-utils"
    try:
        machine = machine_type()
    except LeaseholdError as error:
        return problem(str(error), cure)
    if find_tool("qemu-img") is None:
        return problem("there is no qemu-img, which makes the disks of machines", cure)
    return ok(f"QEMU makes machines of the type {machine}")


def _check_site(subject: Subject, site: SiteSpec) -> list[Finding]:
    options, work = read_options(site.options), subject.place.work
    try:
        image = open_image(options.image or default_folder(work))
    except LeaseholdError as error:
        return [problem(f"site {site.name}: {error}", "leasehold image build")]
    return [
        ok(f"site {site.name} boots {image.description.contents}"),
        _building(site, image),
        *_isolation(subject, site),
        _speed(site, options, image, work / "images"),
    ]


def _isolation(subject: Subject, site: SiteSpec) -> list[Finding]:
    """Say what a guest could do beyond its machine: as root to the computer, and by filling the disk."""
    findings: list[Finding] = []
    if os.geteuid() == 0:
        text = f"site {site.name}: its machines run as root; who breaks out of one has this computer"
        cure = f"run the gateway, or leasehold site {site.name}, as a user with nothing but /dev/kvm"
        findings.append(warning(text, cure))
    store = sqlite_path(read_url(subject.store_url))
    machines = subject.place.work / "machines"
    if store is not None and _file_system(store) == _file_system(machines):
        text = f"site {site.name}: guests' disks and saved memory are in one file system with the store"
        findings.append(warning(text, f"mount a file system of its own at {machines}, or use PostgreSQL"))
    return findings


def _file_system(path: Path) -> int:
    """Name the file system that something is in, or will be."""
    return next(there for there in (path, *path.parents) if there.exists()).stat().st_dev


def _building(site: SiteSpec, image: Image) -> Finding:
    """Say whether images can be built here for jobs that need more software; nothing is built to see that."""
    lacking = missing_packages()
    if lacking:
        cure = f"apt-get install -y --no-install-recommends {' '.join(lacking)}"
        return note(f"site {site.name}: no images can be built for jobs, as programs are missing", cure)
    told = why_not(image, find_repository())
    if told:
        text, _, cure = told.partition(": ")
        return note(f"site {site.name}: {text}", cure)
    return ok(f"site {site.name}: images are built for jobs that need packages of Debian")


def _speed(site: SiteSpec, options: QemuOptions, image: Image, cache_folder: Path) -> Finding:
    """Say whether machines run at full speed; nothing is booted to find that out here."""
    slowly = "its machines are interpreted (TCG), about ten times slower than with KVM"
    if options.accelerator == KVM:
        return ok(f"site {site.name}: KVM, as it is told")
    if options.accelerator == TCG:
        cure = 'accelerator = "auto" uses KVM where it works'
        return note(f"site {site.name}: {slowly}, as it is told", cure)
    works = kvm_known_to_work(image, cache_folder)
    if works is None and could_have_kvm():
        text = f"site {site.name}: whether KVM works is tried when the first machine starts"
        return note(text, "nothing has to be done")
    if works:
        return ok(f"site {site.name}: KVM; a guest has booted with it")
    return note(f"site {site.name}: {slowly}", "run it where /dev/kvm is there and its guests boot")
