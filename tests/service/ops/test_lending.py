"""What is said of what owners allow, at the start and by the doctor."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from leasehold.service.config import ServiceConfig, SiteSpec, default_sharing, default_terms
from leasehold.service.doctor import Severity
from leasehold.service.doctor.gateway import Subject, check_lending
from leasehold.service.serving import DataFolder
from leasehold.service.sites import allowed_at, summary

HOUR_MS = 3_600_000


def lending(without_agreement: str = "", **terms: Any) -> ServiceConfig:
    """One site of 8 VMs on these terms, and who needs no agreement."""
    sharing = replace(default_sharing(), without_agreement=without_agreement or "preemptable")
    return ServiceConfig((SiteSpec("das3", 8, replace(default_terms(), **terms)),), sharing=sharing)


def warnings(config: ServiceConfig, folder: Path) -> list[str]:
    found = check_lending(Subject(config, None, DataFolder(folder, folder)))
    assert all(one.cure for one in found if one.severity is Severity.WARNING)
    assert {one.severity for one in found} <= {Severity.OK, Severity.WARNING}
    return [one.text for one in found if one.severity is Severity.WARNING]


def test_what_is_usual_is_said_in_a_line_for_each_site_and_one_for_all() -> None:
    site, without = summary(lending())
    assert site == "das3  guests that can be preempted; no Non-preemptable ones"
    members = "members' guests that can be preempted"
    assert without == f"without an agreement: {members}; other issuers' users and peers only under one"


@pytest.mark.parametrize(
    ("share", "longest_ms", "said"),
    [
        (0.5, HOUR_MS, "Non-preemptable ones on up to 4 of 8 VMs, for up to 1 h each"),
        (1.0, 36 * HOUR_MS, "Non-preemptable ones on up to 8 of 8 VMs, for up to 36 h each"),
        (0.1, HOUR_MS, "no Non-preemptable ones"),
    ],
)
def test_how_many_that_stay_and_for_how_long(share: float, longest_ms: int, said: str) -> None:
    (site,) = lending(non_preemptable_share=share, non_preemptable_max_ms=longest_ms).clusters
    assert allowed_at(site) == f"guests that can be preempted; {said}"


def test_the_doctor_has_nothing_to_say_against_what_is_usual(tmp_path: Path) -> None:
    assert warnings(lending(), tmp_path) == []
    assert warnings(lending(non_preemptable_share=0.5, non_preemptable_max_ms=HOUR_MS), tmp_path) == []


def test_it_warns_where_everybody_is_let_in(tmp_path: Path) -> None:
    (said,) = warnings(lending("allow"), tmp_path)
    assert said.startswith("without an agreement machines are for everyone")


def test_it_warns_where_owners_could_not_have_their_machines_back(tmp_path: Path) -> None:
    config = lending("members", non_preemptable_share=1.0, non_preemptable_max_ms=24 * 10 * HOUR_MS)
    members, many, long = warnings(config, tmp_path)
    assert "members may have machines that their owners cannot have back" in members
    assert many == "8 of 8 VMs of das3 may be held by guests that cannot be preempted"
    assert long == "users of das3 may wait up to 10 d for guests that cannot be preempted"
