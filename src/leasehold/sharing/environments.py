"""The three stages in which a request finds its machines (Dumitrescu et al. 2007, section 3.1, Figure 1).

===================== =============================== ====================================================
stage                 what it holds                   who makes it
===================== =============================== ====================================================
virtual environment   every site that there is for    the *engine*, asked by the *runner*, who looks after
                      the request                     a request to its end: here `leasehold.gateway`
extended virtual      of these, where agreements let  the *scheduling service*, helped by the *brokering
environment           it run, and why not elsewhere   service*: `Sharing`, `leasehold.sharing.broker`
execution environment where it runs, and from when on the *scheduling service* by its policies: routing,
                                                      or `leasehold.gateway.coallocation`
===================== =============================== ====================================================

Each stage only narrows the one before. The last one is what a gateway decides, and has no class of its own.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from leasehold.model.agreement import Breach


@dataclass(frozen=True, slots=True)
class VirtualEnvironment:
    """The sites that there are for a request."""

    sites: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ExtendedVirtualEnvironment:
    """Of these ``sites``, those at which the agreements let it run, and of the others why not."""

    sites: tuple[str, ...]
    breaches: Mapping[str, Breach]


def virtual(sites: Iterable[str], bound_to: Callable[[str], bool] = lambda _: True) -> VirtualEnvironment:
    """Begin with the sites that there are, of those that a request is bound to."""
    return VirtualEnvironment(tuple(site for site in sites if bound_to(site)))


def extend(before: VirtualEnvironment, why_not: Callable[[str], Breach | None]) -> ExtendedVirtualEnvironment:
    """Ask about each site whether agreements let it run there."""
    asked = {site: why_not(site) for site in before.sites}
    breaches = {site: breach for site, breach in asked.items() if breach is not None}
    return ExtendedVirtualEnvironment(tuple(site for site in asked if site not in breaches), breaches)
