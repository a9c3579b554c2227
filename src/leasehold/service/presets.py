"""The configurations that need no file: one emulated site, and the three of the demonstration."""

from dataclasses import replace

from leasehold.leasing.overhead import OverheadModel
from leasehold.service.config import LogSpec, ServiceConfig, ServiceSpec, SiteSpec, default_terms

_DEMO_REFERENCE_MIPS = 600
_DEMO_SITES = (("C64", 64, 2000), ("C128", 128, 3000), ("C256", 256, 2100))
_DEMO_SOFTWARE = {
    "C64": ("python3 3.11.2", "python3-numpy 1.24.2"),
    "C128": ("python3 3.11.2", "gcc 12.2.0"),
    "C256": ("python3 3.13.5", "python3-numpy 2.2.4", "gcc 14.2.0"),
}
"""What Debian 12 and 13 have, so that jobs with needs find something to be selective about."""
_QUICK = OverheadModel(suspend_ms_per_gib=4_000, resume_ms_per_gib=3_000, network_mbps=10_000)


def one_site() -> ServiceConfig:
    """Give what a gateway without any configuration serves: one emulated site of 16 VMs."""
    return ServiceConfig(clusters=(SiteSpec("local", 16, default_terms()),))


def demo() -> ServiceConfig:
    """Give the three clusters of JPDC 2012, section 5.2, emulated, their memory on today's disks and wires.

    With the disks of 2012 a suspension takes minutes, and nobody would wait to see one.
    """
    terms = replace(default_terms(_DEMO_REFERENCE_MIPS), overhead=_QUICK)
    sites = [
        SiteSpec(name, slots, replace(terms, speed_mips=mips), options=_alike(name, slots))
        for name, slots, mips in _DEMO_SITES
    ]
    service = ServiceSpec(reference_mips=_DEMO_REFERENCE_MIPS)
    quiet = LogSpec(requests=False)  # so that one still sees what was logged at the start
    return ServiceConfig(clusters=tuple(sites), service=service, defaults=terms, log=quiet)


def _alike(site: str, count: int) -> dict[str, object]:
    """Give a site of the demonstration a node for each VM, with its software."""
    return {"nodes": [{"count": count, "software": list(_DEMO_SOFTWARE[site])}]}
