"""Which principals may act for a party to an agreement, and which may see the agreement."""

from leasehold.service.agreements import AgreementState, Party
from leasehold.service.auth.permissions import (
    FEDERATION,
    Permission,
    Scope,
    Target,
    allowed,
    reach,
    require,
)
from leasehold.service.auth.principal import Principal
from leasehold.sharing.parties import prefixes


def speaks(principal: Principal, permission: Permission, party: Party) -> bool:
    """Whether a principal has a permission for a party: over its group or one above, or over all of its sites."""
    if party.group:
        return any(allowed(principal, permission, Target(group=group)) for group in prefixes(party.group))
    if party.sites:
        return all(allowed(principal, permission, Target.site(site)) for site in party.sites)
    return allowed(principal, permission, FEDERATION)


def require_to_speak(principal: Principal, permission: Permission, *parties: Party) -> None:
    """Raise Forbidden unless the principal may act for one of these parties."""
    if not any(speaks(principal, permission, party) for party in parties):
        require(principal, permission, FEDERATION)


def may_see(principal: Principal, state: AgreementState) -> bool:
    """Whether a principal may see an agreement: it is published, or the principal belongs to a party."""
    parties = (state.provider, state.consumer, state.sites)
    return state.record.published or any(concerns(principal, party) for party in parties)


def concerns(principal: Principal, party: Party) -> bool:
    """Whether a principal belongs to a party: through a group of it, above or below it, or through a site."""
    scope = reach(principal, Permission.AGREEMENT_SEE)
    if Scope.ALL in scope:
        return True
    if Scope.SITE in scope and not principal.sites.isdisjoint(party.sites):
        return True
    if Scope.GROUP not in scope or not party.group:
        return False
    return any(party.group in prefixes(group) or group in prefixes(party.group) for group in principal.groups)
