"""What owners have allowed, in words: for whoever starts a gateway, looks at a site, or asks the doctor."""

from leasehold.configuration.terms import site_settings
from leasehold.service.config import ServiceConfig, SiteSpec
from leasehold.sharing.enforcement import ALLOW, MEMBERS, PREEMPTABLE, REFUSE
from leasehold.sharing.wording import span

_WITHOUT_AGREEMENT = {
    ALLOW: "everybody, also users of other issuers, and peers",
    MEMBERS: "members; other issuers' users and peers only under one",
    PREEMPTABLE: "members' guests that can be preempted; other issuers' users and peers only under one",
    REFUSE: "nobody",
}


def most_non_preemptable_vms(site: SiteSpec) -> int:
    """Give how many VMs of a site Non-preemptable guests may have at a time."""
    share_vms = site_settings(site.name, site.slots, site.terms).non_preemptable_share_vms
    return site.slots if share_vms is None else share_vms


def allowed_at(site: SiteSpec) -> str:
    """Say which guests the owner of a site takes."""
    vms, longest_ms = most_non_preemptable_vms(site), site.terms.non_preemptable_max_ms
    if not vms:
        return "guests that can be preempted; no Non-preemptable ones"
    how_long = "for any time" if longest_ms is None else f"for up to {span(longest_ms)} each"
    return f"guests that can be preempted; Non-preemptable ones on up to {vms} of {site.slots} VMs, {how_long}"


def allowed_without_agreement(config: ServiceConfig) -> str:
    """Say who is let in to whom no agreement applies."""
    return _WITHOUT_AGREEMENT[config.sharing.without_agreement]


def summary(config: ServiceConfig) -> list[str]:
    """Give a line for each site, and one for who needs no agreement."""
    width = max(len(site.name) for site in config.clusters)
    sites = [f"{site.name:<{width}}  {allowed_at(site)}" for site in config.clusters]
    return [*sites, f"without an agreement: {allowed_without_agreement(config)}"]
