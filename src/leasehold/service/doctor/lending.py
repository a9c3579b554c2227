"""What the owners allow: is it more than they may have meant?"""

from leasehold.service.config import SiteSpec
from leasehold.service.doctor.finding import Finding, ok, warning
from leasehold.service.doctor.subject import Subject
from leasehold.service.lending import allowed_at, allowed_without_agreement, most_non_preemptable_vms
from leasehold.sharing.enforcement import ALLOW, MEMBERS
from leasehold.sharing.wording import span

_MUCH = 0.5
_LONG_MS = 7 * 86_400_000


def check_lending(subject: Subject) -> list[Finding]:
    """Who may have machines here, and can the owners have them back?"""
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
