"""Virtual domains: named sets of sites, each site in one at most."""

from typing import Any

import pytest

from leasehold.configuration.keys import Keys
from leasehold.configuration.tables import (
    DOMAIN,
    DomainSpec,
    check_names,
    check_sites,
    domain_by_site,
    read_domains,
)
from leasehold.model.errors import InvalidField


def read(*tables: dict[str, Any]) -> tuple[DomainSpec, ...]:
    return read_domains(Keys({"domain": list(tables)}))


def test_domains_are_read_and_written() -> None:
    das, grid = {"name": "das", "sites": ["das2", "das3"]}, {"name": "grid5000", "sites": ["nancy"]}
    domains = read(das, grid)
    assert [DOMAIN.to_dict(domain) for domain in domains] == [das, grid]
    assert domain_by_site(domains) == {"das2": "das", "das3": "das", "nancy": "grid5000"}


@pytest.mark.parametrize(
    ("second", "field"),
    [
        ({"name": "das", "sites": ["nancy"]}, "domain[1].name"),
        ({"name": "@das", "sites": ["nancy"]}, "domain[1].name"),
        ({"name": "*", "sites": ["nancy"]}, "domain[1].name"),
        ({"name": "grid5000", "sites": ["das2"]}, "domain[1].sites"),
        ({"name": "grid5000", "sites": []}, "domain[1].sites"),
        ({"name": "grid5000"}, "domain[1].sites"),
        ({"name": "grid5000", "sites": ["nancy"], "owner": "x"}, "domain[1].owner"),
    ],
)
def test_what_is_wrong_is_named(second: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidField) as caught:
        read({"name": "das", "sites": ["das2", "das3"]}, second)
    assert caught.value.field == field


def test_its_sites_have_to_be_there_and_none_has_its_name() -> None:
    domains = read({"name": "das", "sites": ["das2"]})
    check_sites(domains, ["das2", "nancy"])
    with pytest.raises(InvalidField, match=r"^domain\[0\]\.sites: got 'das2'"):
        check_sites(domains, ["nancy"])
    with pytest.raises(InvalidField, match=r"^domain\[0\]\.name: got 'das', expected a name that no site has"):
        check_sites(domains, ["das2", "das"])


def test_sites_may_join_later_but_not_under_the_name_of_a_domain() -> None:
    check_names(read({"name": "das", "sites": ["das2"]}), ["nancy"])
    with pytest.raises(InvalidField, match=r"^domain\[0\]\.name: got 'das'"):
        check_names(read({"name": "das", "sites": ["das2"]}), ["das"])
    with pytest.raises(InvalidField, match=r"^domain\[0\]\.name: got 'das'"):
        check_names(read({"name": "das", "sites": ["das"]}), ["nancy"])
