"""How sites look: in a line, and in full."""

from collections.abc import Iterable, Iterator
from datetime import datetime

from leasehold.cli.live.moments import show_distance, show_moment
from leasehold.cli.live.wording import show_times
from leasehold.client import Capabilities, Overhead, Site

HEADS = [
    "NAME",
    "STATE",
    "SLOTS",
    "FREE",
    "LOCAL",
    "GUESTS",
    "WAITING_LOCAL",
    "WAITING_GUESTS",
    "DRIVER",
    "NOTE",
]
ABILITIES = ["NAME", *(name.upper() for name in Capabilities.model_fields)]


def overview(sites: Iterable[Site]) -> list[list[str]]:
    """Show each site in a line; VMs first, then leases that wait."""
    return [
        [
            site.name,
            site.status,
            *map(str, (site.slots, site.vms.free, site.vms.local, site.vms.guests)),
            *map(str, (site.waiting.local, site.waiting.guests)),
            site.driver,
            site.problem or site.note,
        ]
        for site in sites
    ]


def abilities(sites: Iterable[Site]) -> list[list[str]]:
    """Show what the machines of each site can do."""
    return [[site.name, *("yes" if can else "no" for _, can in site.capabilities)] for site in sites]


def account(site: Site, at: datetime) -> Iterator[str]:
    """Tell all that is known of a site, line by line."""
    yield f"site {site.name} is {site.status}{_by_whom(site)}"
    for name, value in _facts(site, at):
        if value:
            yield f"  {name:<10}  {value}"


def _by_whom(site: Site) -> str:
    by = f" by {site.drained_by}" if site.drained_by else ""
    return f"{by}: {site.note}" if site.note else by


def _facts(site: Site, at: datetime) -> Iterator[tuple[str, str]]:
    vms, waiting = site.vms, site.waiting
    yield "machines", f"{site.slots} of {site.speed_mips} MIPS each, made by {site.driver}"
    yield "in use", f"{vms.local} by its own users, {vms.guests} by guests, {vms.free} free"
    yield "waiting", f"{waiting.local} of its own, {waiting.guests} guests"
    yield "lends to", site.allows
    yield "can", ", ".join(name for name, can in site.capabilities if can)
    if site.last_seen_at is not None:
        yield "last seen", f"{show_moment(site.last_seen_at)} ({show_distance(site.last_seen_at, at)})"
    for overhead in site.overheads:
        yield overhead.operation, _time(overhead)
    yield "problem", site.problem


def _time(overhead: Overhead) -> str:
    """Say how long an operation takes, and how that is known; "" where nothing is."""
    learnt, configured = overhead.learnt_s, overhead.configured_s
    if not overhead.count:
        return "" if configured is None else f"{configured:g} s, as configured"
    took = f"{learnt:g} s, measured {show_times(overhead.count)}"
    return took if configured is None else f"{took}; configured {configured:g} s"
