"""Two sites, one of which never answers: leases complete at the other, and nothing untrue is said."""

from pathlib import Path
from typing import Any

from tests.service.api.house import House, house_in
from tests.waiting import until

from leasehold.configuration.tables import SharingSpec
from leasehold.service.auth.principal import Role
from leasehold.service.config import ServiceConfig, SiteSpec
from leasehold.service.store.filters import EVERYTHING, UsageFilter

DEAD, HEALTHY = "das3", "lyon"
CONFIG = ServiceConfig(
    clusters=(
        SiteSpec(DEAD, 64, options={"no_answer": 1.0}),
        SiteSpec(HEALTHY, 8),
    ),
    sharing=SharingSpec(),
)
ASKED: dict[str, Any] = {"type": "suspendable", "vms": 2, "duration_s": 1}


def test_leases_beside_a_dead_site_complete_at_the_healthy_one(tmp_path: Path) -> None:
    with house_in(tmp_path, config=CONFIG) as house:
        admin = house.token(Role.FEDERATION_ADMIN)
        made = [house.submit(house.token(), **ASKED)["id"] for _ in range(4)]
        listed: list[tuple[str, str]] = []

        def are_all_over() -> bool:
            leases = listing(house, admin)
            listed.extend((lease["state"], lease["site"]) for lease in leases)
            return all(lease["ended_at"] for lease in leases)

        until(are_all_over)
        ended = [(lease["id"], lease["state"], lease["site"]) for lease in listing(house, admin)]
        assert sorted(ended) == [(number, "completed", HEALTHY) for number in made]
        assert ("running", DEAD) not in listed
        told = house.federation.store.journal(0, 10_000)
        assert {line.site for line in told if line.state == "running"} == {HEALTHY}
        used = house.federation.store.usage(UsageFilter(EVERYTHING, 0, 1 << 60))
        assert sorted((row.lease_id, row.site) for row in used) == [(number, HEALTHY) for number in made]
        [dead] = [site for site in house.ask("GET", "/v1/sites", admin).json()["sites"] if site["name"] == DEAD]
        assert (dead["status"], dead["vms"]["guests"]) == ("unreachable", 0)


def listing(house: House, token: str) -> list[dict[str, Any]]:
    """Every lease, as it is listed now."""
    leases: list[dict[str, Any]] = house.ask("GET", "/v1/leases", token).json()["leases"]
    return leases
