"""The store: does it answer, is it of this program's age, does somebody use it, and is its clock ours?"""

from leasehold.configuration.tables import strangers
from leasehold.model.errors import InputError, LeaseholdError
from leasehold.service.clock import wall_ms
from leasehold.service.doctor.finding import Finding, note, ok, problem, warning
from leasehold.service.doctor.subject import Subject
from leasehold.service.store.place import read_url, sqlite_path
from leasehold.service.upkeep import Contents, StoreStatus, look_at

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
    """Say whether time goes on from where the store is; what is written in the past would be out of order."""
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
        "nothing if that is intended: preemptable guests give way until the rest fits, what cannot give way "
        "stays until its end, and nothing new starts meanwhile"
    )
    return [
        warning(f"{held_vms} VMs are held at {site.name}, which has {site.slots} slots", cure)
        for site in subject.config.clusters
        if (held_vms := contents.held_vms.get(site.name, 0)) > site.slots
    ]


def _left_behind(subject: Subject, contents: Contents) -> list[Finding]:
    """Say which sites have leases and are not configured: no gateway would start like that."""
    known = {site.name for site in subject.config.clusters} | contents.remotes | {""}
    cure = "put it back into the configuration until they are over"
    return [
        problem(f"open leases are at the site {site}, which is not configured", cure)
        for site in sorted(contents.sites - known)
    ]
