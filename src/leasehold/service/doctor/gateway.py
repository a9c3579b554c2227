"""The checks of one gateway: its files, what it lends, its network, its store, and its sites.

One more is a function of `Subject`, and its line in `GATEWAY`.
"""

import asyncio
import os
import shutil
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from leasehold.configuration.tables import strangers
from leasehold.model.errors import InputError, LeaseholdError
from leasehold.service.auth.bootstrap_token import FILE_NAME, read_token_file
from leasehold.service.auth.issuers import TrustedIssuer
from leasehold.service.auth.key_sets import FetchError, fetch_json
from leasehold.service.clock import wall_ms
from leasehold.service.config import ServiceConfig, SiteSpec
from leasehold.service.config_file import without_password
from leasehold.service.doctor import Check, Finding, note, ok, problem, warning
from leasehold.service.drivers.qemu import options as qemu
from leasehold.service.drivers.qemu.host import could_have_kvm, kvm_known_to_work, machine_type
from leasehold.service.drivers.qemu.images.build import why_not
from leasehold.service.drivers.qemu.images.image import Image, default_folder, open_image
from leasehold.service.drivers.qemu.images.repository import find_repository
from leasehold.service.drivers.qemu.images.toolchain import find_tool, missing_packages
from leasehold.service.drivers.qemu.machine import KVM, TCG
from leasehold.service.drivers.qemu.options import QemuOptions
from leasehold.service.drivers.slurm import options as slurm
from leasehold.service.drivers.slurm.users import site_faults
from leasehold.service.serving import DataFolder, bound
from leasehold.service.sites import allowed_at, allowed_without_agreement, most_non_preemptable_vms
from leasehold.service.store.store_url import read_url, sqlite_path
from leasehold.service.store_status import Contents, StoreStatus, look_at
from leasehold.service.tls import check_key_pair, valid_until
from leasehold.sharing.enforcement import ALLOW, MEMBERS
from leasehold.sharing.wording import span


@dataclass(frozen=True, slots=True)
class Subject:
    """One gateway; ``config_file`` is None where it needs none."""

    config: ServiceConfig
    config_file: Path | None
    data: DataFolder

    @property
    def store_url(self) -> str:
        """Where its store is."""
        return self.data.store_url(self.config.service)


def is_open_to_others(path: Path) -> bool:
    """Whether others than its owner may read, write or enter this."""
    return bool(path.stat().st_mode & 0o077)


_MIB = 2**20
_LITTLE_MIB = 1_024
_TOO_LITTLE_MIB = 100


def check_configuration(subject: Subject) -> list[Finding]:
    """Where is the configuration from, and is what is secret in it kept so?"""
    file, store = subject.config_file, subject.config.service.store
    if file is None:
        return [ok("no configuration file found; using defaults")]
    if store != without_password(store) and is_open_to_others(file):
        cure = f"chmod 600 {file}, or move the password to the file that PGPASSFILE names"
        return [problem(f"{file} contains the store's password and is readable by others", cure)]
    return [ok(f"{file} is well-formed")]


def check_data_folder(subject: Subject) -> list[Finding]:
    """Can the gateway write to its folder, and only its owner read it?"""
    folder = subject.data.folder
    if not folder.exists():
        return _missing(folder)
    if not folder.is_dir():
        return [problem(f"{folder} is not a folder", "name another one with --data or LEASEHOLD_DATA")]
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        return [problem(f"{folder} is not writable by this user", f"chown it: ls -ld {folder} shows its owner")]
    if is_open_to_others(folder):
        return [warning(f"others can enter {folder}, which holds the store", f"chmod 700 {folder}")]
    return [ok(f"only this user can enter {folder}")]


def _missing(folder: Path) -> list[Finding]:
    above = next(path for path in folder.parents if path.exists())
    if not os.access(above, os.W_OK | os.X_OK):
        cure = "name another one with --data or LEASEHOLD_DATA"
        return [problem(f"{folder} does not exist and cannot be created in {above}", cure)]
    return [note(f"{folder} does not exist yet", "leasehold serve creates it")]


def check_token(subject: Subject) -> list[Finding]:
    """Is the administrator's token there, readable by its owner only?"""
    path = subject.data.folder / FILE_NAME
    if not os.path.lexists(path):
        return [note(f"{path} does not exist", "leasehold serve creates it when it first starts")]
    try:
        read_token_file(path)
    except InputError as error:
        cure = "if others may have read it, revoke that token; without the file, a start creates a new one"
        return [problem(str(error), cure)]
    return [ok(f"{path} is readable by its owner only")]


def check_disk_space(subject: Subject) -> list[Finding]:
    """Is there room for what a gateway writes?"""
    folder = subject.data.folder
    there = next(path for path in (folder, *folder.parents) if path.exists())
    return [_room(shutil.disk_usage(there).free // _MIB, there)]


def _room(free_mib: int, where: Path) -> Finding:
    text = f"{free_mib} MiB are free at {where}"
    if free_mib < _TOO_LITTLE_MIB:
        return problem(text, "free some space: without it no request can be accepted")
    if free_mib < _LITTLE_MIB:
        return warning(text, "free some space, or move the data folder")
    return ok(text)


_MUCH = 0.5
_LONG_MS = 7 * 86_400_000


def check_lending(subject: Subject) -> list[Finding]:
    """Check which guests may hold machines here, and whether the owners can reclaim them."""
    sites = [finding for site in subject.config.clusters for finding in _at(site)]
    return [_without_agreement(subject), *sites]


def _without_agreement(subject: Subject) -> Finding:
    text = f"without an agreement machines are for {allowed_without_agreement(subject.config)}"
    if subject.config.sharing.without_agreement == ALLOW:
        return warning(text, 'set without_agreement = "preemptable" in [sharing], and sign agreements with others')
    if subject.config.sharing.without_agreement == MEMBERS and _lends_for_good(subject):
        return warning(
            f"{text}, and members may have machines that their owners cannot have back",
            'set without_agreement = "preemptable" in [sharing], and sign agreements about such guests',
        )
    return ok(text)


def _lends_for_good(subject: Subject) -> bool:
    return any(most_non_preemptable_vms(site) for site in subject.config.clusters)


def _at(site: SiteSpec) -> list[Finding]:
    """Say what a site lends, and warn of what its own users may have to wait for."""
    vms, longest_ms = most_non_preemptable_vms(site), site.terms.non_preemptable_max_ms or 0
    found = [ok(f"{site.name} takes {allowed_at(site)}")]
    if vms > _MUCH * site.slots:
        text = f"{vms} of {site.slots} VMs of {site.name} may be held by guests that cannot be preempted"
        found = [warning(text, f"lower non_preemptable_share of {site.name}, or leave it out")]
    if vms and longest_ms > _LONG_MS:
        text = f"users of {site.name} may wait up to {span(longest_ms)} for guests that cannot be preempted"
        found.append(warning(text, f"lower non_preemptable_max_s of {site.name}"))
    return found


_SOON = timedelta(days=14)


def check_port(subject: Subject) -> list[Finding]:
    """Can the gateway listen where it should?"""
    service = subject.config.service
    where = f"{service.host} port {service.port}"
    try:
        bound(service.host, service.port).close()
    except InputError as error:
        return [_taken(subject, where, error)]
    return [ok(f"{where} is free")]


def _taken(subject: Subject, where: str, error: InputError) -> Finding:
    """Say which process has it: this very gateway, as it should be, or another."""
    if not _answers(subject.config.service.host, subject.config.service.port):
        return problem(str(error), "name another address with --host, or another port with --port")
    file = subject.data.address_file
    ours = file.read_text(encoding="utf-8").strip() if file.is_file() else ""
    if ours.endswith(f":{subject.config.service.port}"):
        return ok(f"{where} is in use, and {ours} is the address at which this gateway listens")
    return problem(f"{where} is in use by another process", "name another port with --port, or in [service]")


def _answers(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=1).close()
    except OSError:
        return False
    return True


def check_tls(subject: Subject) -> list[Finding]:
    """Are certificate and key a pair, valid for a while, and the key secret?"""
    service = subject.config.service
    if service.tls_certificate is None or service.tls_key is None:
        if service.behind_tls_proxy:
            return [note("the gateway itself does not use TLS", "make sure that only the proxy can reach it")]
        return [ok("no TLS, and only this machine can reach it")]
    try:
        check_key_pair(service.tls_certificate, service.tls_key)
        return [_secrecy(service.tls_key), _validity(service.tls_certificate, datetime.now(UTC))]
    except InputError as error:
        return [problem(str(error), "name the right files in [service]: tls_certificate and tls_key")]


def _secrecy(key: Path) -> Finding:
    if is_open_to_others(key):
        return warning(f"{key} can be read by others", f"chmod 600 {key}")
    return ok(f"{key} is its owner's alone")


def _validity(certificate: Path, now: datetime) -> Finding:
    until = valid_until(certificate)
    text = f"{certificate} is valid until {until:%Y-%m-%d}"
    if until <= now:
        return problem(f"{certificate} was valid until {until:%Y-%m-%d}", "renew it, then restart the gateway")
    if until - now < _SOON:
        return warning(text, "renew it, then restart the gateway")
    return ok(text)


def check_issuers(subject: Subject) -> list[Finding]:
    """Can the keys be had of those whose tokens count here?"""
    return [_issuer(issuer) for issuer in subject.config.issuers]


def _issuer(issuer: TrustedIssuer) -> Finding:
    try:
        asyncio.run(fetch_json(issuer.discovery_url))
    except FetchError as error:
        cure = "check the network, and the url in [[issuer]]; until then its tokens do not count"
        return warning(f"{issuer.discovery_url}: {error}", cure)
    return ok(f"{issuer.discovery_url} answers")


_SKEW_S = 2


def check_store(subject: Subject) -> list[Finding]:
    """Can this program read the store, and is what it says plausible?"""
    path = sqlite_path(read_url(subject.store_url))
    if path is not None and not path.exists():
        return [note(f"{path} does not exist yet", "leasehold serve creates it"), *_strangers(subject)]
    try:
        status = look_at(subject.store_url)
    except InputError as error:
        return [problem(str(error), "update Leasehold, or correct store in [service]")]
    except LeaseholdError as error:
        return [problem(str(error), "start its server, or correct store in [service]")]
    findings = [_schema(status), _use(status), _clock(status.latest_ms - wall_ms(), status)]
    if status.contents is None:
        return [*findings, *_strangers(subject)]
    contents = status.contents
    return [
        *findings,
        *_left_behind(subject, contents),
        *_strangers(subject, contents.remotes),
        *_shrunk(subject, contents),
    ]


def _schema(status: StoreStatus) -> Finding:
    if status.revision is None:
        return note(f"{status.url} has no tables yet", "leasehold serve creates them")
    if status.contents is None:
        return note(f"{status.url} has an older schema ({status.revision})", "leasehold store migrate, or just start")
    return ok(f"{status.url} has this program's schema ({status.revision})")


def _use(status: StoreStatus) -> Finding:
    return ok("a gateway is using it" if status.in_use else "no gateway is using it")


def _clock(ahead_ms: int, status: StoreStatus) -> Finding:
    """Check the clock against the store: lines written in the past would be out of order."""
    ahead_s = ahead_ms / 1000
    is_off = abs(ahead_s) > _SKEW_S if status.url.startswith("postgresql") else ahead_s > _SKEW_S
    if is_off:
        how = "ahead of" if ahead_s > 0 else "behind"
        return warning(f"the store is {abs(ahead_s):.0f} s {how} this machine's clock", "set the clock: timedatectl")
    return ok("this machine's clock agrees with the store")


def _strangers(subject: Subject, remotes: frozenset[str] = frozenset()) -> list[Finding]:
    """Say which sites of virtual domains there are not: no agreement with the domain is about them."""
    known = {site.name for site in subject.config.clusters} | remotes
    cure = "correct its name in [[domain]], or start its site manager"
    return [
        warning(f"the site {site} of the domain {domain} is not configured, and has never joined", cure)
        for domain, site in strangers(subject.config.domains, known)
    ]


def _shrunk(subject: Subject, contents: Contents) -> list[Finding]:
    """Say which sites have fewer slots than leases hold VMs, and what comes of it."""
    cure = (
        "nothing if that is intended: preemptable guests are preempted until the rest fits, other leases run "
        "to their end, and nothing new starts meanwhile"
    )
    return [
        warning(f"{held_vms} VMs are held at {site.name}, which has {site.slots} slots", cure)
        for site in subject.config.clusters
        if (held_vms := contents.held_vms.get(site.name, 0)) > site.slots
    ]


def _left_behind(subject: Subject, contents: Contents) -> list[Finding]:
    """Say which sites have leases and are not configured: no gateway would start like that."""
    known = {site.name for site in subject.config.clusters} | contents.remotes | {""}
    cure = "put it back into the configuration until they have ended"
    return [
        problem(f"open leases are at the site {site}, which is not configured", cure)
        for site in sorted(contents.sites - known)
    ]


_SLURM = "slurm"
_CURES = {
    "user": 'make a Unix user for guests, and name it: user = "..." or users = {...} in [cluster.slurm]',
    "run_as_gateway": 'take it out, and name a user: user = "..." in [cluster.slurm]',
    "job_folder": 'name a folder that all nodes see: job_folder = "/shared/leasehold" in [cluster.slurm]',
    "conf": "correct conf in [cluster.slurm], or leave it out where squeue works without",
}


def check_slurm_sites(subject: Subject) -> list[Finding]:
    """Check that every Slurm site can be opened, and as which users guests run; no findings without such sites."""
    private = (subject.data.folder, subject.data.work)
    sites = [site for site in subject.config.clusters if site.driver == _SLURM]
    return [finding for site in sites for finding in _check_slurm_site(site, private)]


def _check_slurm_site(site: SiteSpec, private: Sequence[Path]) -> list[Finding]:
    options = slurm.read_options(site.options)
    faults = list(site_faults(options, [folder for folder in dict.fromkeys(private) if folder.exists()]))
    if faults:
        return [problem(f"site {site.name}: {fault}", _CURES[fault.field]) for fault in faults]
    if options.run_as_gateway:
        cure = "name a user for guests, and run the gateway as root; unless you trust every guest"
        return [warning(f"site {site.name}: guests' jobs run as the gateway, and can read its tokens", cure)]
    if options.user and not options.users:
        cure = "give each organisation a user of its own: a table [cluster.slurm.users]"
        text = f"site {site.name}: all guests are the Unix user {options.user}, and can read each other's files"
        return [warning(text, cure)]
    return [ok(f"site {site.name}: guests are Unix users of their own")]


_QEMU = "qemu"


def check_virtual_machines(subject: Subject) -> list[Finding]:
    """Can machines be started at every site that has virtual ones? Silent where none has."""
    sites = [site for site in subject.config.clusters if site.driver == _QEMU]
    if not sites:
        return []
    return [_check_qemu(), *(finding for site in sites for finding in _check_qemu_site(subject, site))]


def _check_qemu() -> Finding:
    cure = "apt-get install -y --no-install-recommends qemu-system-x86 qemu-utils"
    try:
        machine = machine_type()
    except LeaseholdError as error:
        return problem(str(error), cure)
    if find_tool("qemu-img") is None:
        return problem("there is no qemu-img, which makes the disks of machines", cure)
    return ok(f"QEMU makes machines of the type {machine}")


def _check_qemu_site(subject: Subject, site: SiteSpec) -> list[Finding]:
    options, work = qemu.read_options(site.options), subject.data.work
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
    """Check what a guest could do outside its machine: as root to the computer, and by filling the disk."""
    findings: list[Finding] = []
    if os.geteuid() == 0:
        text = f"site {site.name}: its machines run as root; an escape from one gives control of this computer"
        cure = f"run the gateway, or leasehold site {site.name}, as a user with no other access than to /dev/kvm"
        findings.append(warning(text, cure))
    store = sqlite_path(read_url(subject.store_url))
    machines = subject.data.work / "machines"
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
    problem = why_not(image, find_repository())
    if problem:
        text, _, cure = problem.partition(": ")
        return note(f"site {site.name}: {text}", cure)
    return ok(f"site {site.name}: images are built for jobs that need packages of Debian")


def _speed(site: SiteSpec, options: QemuOptions, image: Image, cache_folder: Path) -> Finding:
    """Say whether machines run at full speed; nothing is booted to find that out here."""
    slowly = "its machines are interpreted (TCG), about ten times slower than with KVM"
    if options.accelerator == KVM:
        return ok(f"site {site.name}: KVM, as configured")
    if options.accelerator == TCG:
        cure = 'accelerator = "auto" uses KVM where it works'
        return note(f"site {site.name}: {slowly}, as configured", cure)
    works = kvm_known_to_work(image, cache_folder)
    if works is None and could_have_kvm():
        text = f"site {site.name}: KVM is tested when the first machine starts"
        return note(text, "no action needed")
    if works:
        return ok(f"site {site.name}: KVM; a guest has booted with it")
    return note(f"site {site.name}: {slowly}", "run it on a machine with a working /dev/kvm")


GATEWAY: Mapping[str, Callable[[Subject], list[Finding]]] = {
    "configuration": check_configuration,
    "data-folder": check_data_folder,
    "token": check_token,
    "disk-space": check_disk_space,
    "lending": check_lending,
    "port": check_port,
    "tls": check_tls,
    "issuers": check_issuers,
    "store": check_store,
    "slurm-sites": check_slurm_sites,
    "virtual-machines": check_virtual_machines,
}


def checks_of(subject: Subject) -> dict[str, Check]:
    """Give the checks of this gateway."""
    return {name: partial(check, subject) for name, check in GATEWAY.items()}
