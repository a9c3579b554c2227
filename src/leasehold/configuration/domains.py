"""Virtual domains as a file says them, each under its own ``[[domain]]``: a name, and its sites."""

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass

from leasehold.configuration.keys import Keys
from leasehold.configuration.plain import Plain
from leasehold.model.agreement import EVERYBODY
from leasehold.model.errors import InvalidField, UnknownName


@dataclass(frozen=True, slots=True)
class DomainSpec:
    """A virtual domain (Dumitrescu et al. 2007, section 2.2) and the names of its sites."""

    name: str
    sites: tuple[str, ...]

    def to_dict(self) -> Plain:
        """Give the keys of ``[[domain]]``."""
        return {"name": self.name, "sites": list(self.sites)}


def read_domains(keys: Keys) -> tuple[DomainSpec, ...]:
    """Take every ``[[domain]]``; raises InvalidField or UnknownName with the place of the key as field."""
    domains: list[DomainSpec] = []
    taken: dict[str, str] = {}
    for table in keys.tables("domain"):
        domain = _domain(table, [domain.name for domain in domains])
        for site in domain.sites:
            if site in taken:
                raise InvalidField(
                    table.where("sites"), site, f"a site that is not in {taken[site]!r} already"
                )
            taken[site] = domain.name
        domains.append(domain)
    return tuple(domains)


def _domain(table: Keys, others: list[str]) -> DomainSpec:
    name = table.text("name")
    if name in others or name == EVERYBODY or name.startswith("@"):
        expected = "a name that no other domain has, other than *, and without @"
        raise InvalidField(table.where("name"), name, expected)
    sites = table.texts("sites")
    if not sites:
        raise InvalidField(table.where("sites"), None, "at least one site")
    table.done()
    return DomainSpec(name, sites)


def check_names(domains: Sequence[DomainSpec], sites: Iterable[str]) -> None:
    """Refuse a domain that is named as a site is; raises InvalidField with the place of the key as field."""
    names = {*sites, *(site for domain in domains for site in domain.sites)}
    for index, domain in enumerate(domains):
        if domain.name in names:
            raise InvalidField(f"domain[{index}].name", domain.name, "a name that no site has")


def check_sites(domains: Sequence[DomainSpec], known: Iterable[str]) -> None:
    """Refuse domains of sites that there are not, or named as a site is.

    Raises InvalidField or UnknownName with the place of the key as field.
    """
    names = list(known)
    check_names(domains, names)
    for index, domain in enumerate(domains):
        for site in domain.sites:
            if site not in names:
                raise UnknownName(f"domain[{index}].sites", site, names)


def strangers(domains: Iterable[DomainSpec], known: Container[str]) -> list[tuple[str, str]]:
    """List the sites that nobody knows, each with its domain before it."""
    return [(domain.name, site) for domain in domains for site in domain.sites if site not in known]


def domain_by_site(domains: Iterable[DomainSpec]) -> dict[str, str]:
    """Say for each site in a domain which one."""
    return {site: domain.name for domain in domains for site in domain.sites}
