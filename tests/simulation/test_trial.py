"""Before anybody signs: the same requests without and with a document, and what everybody would notice."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from tests.simulation.agreed import most_at_a_time, played, segments_of, used_slot_ms
from tests.simulation.test_agreed import AGREEMENTS, DOMAIN, GUESTS, agreed

from leasehold.configuration import tables
from leasehold.configuration.agreements import AgreementDocument, read_document
from leasehold.configuration.keys import Keys
from leasehold.configuration.times import RunTime
from leasehold.model.errors import InvalidField
from leasehold.model.request import LeaseType
from leasehold.simulation.scenario.spec import ClusterSpec, Scenario
from leasehold.simulation.what_if import OWN_USERS, Count, PlayedRequests, WhatIf, requests_of, try_out, with_document
from leasehold.simulation.workload.job import WorkloadJob

HOUR_MS = 3_600_000


def document(*agreements: dict[str, Any], **tables: Any) -> AgreementDocument:
    return read_document(Keys({"agreement": list(agreements), **tables}), RunTime())


def asked(*jobs: WorkloadJob, slots: int = 2) -> PlayedRequests:
    """One cluster, and guests who ask for these."""
    scenario = Scenario("hand", (), (ClusterSpec("a", slots),))

    def again() -> Iterator[WorkloadJob]:
        return iter([replace(job) for job in jobs])

    return PlayedRequests(scenario, again)


def guest(consumer: str, submit_ms: int = 0, vms: int = 1, hours: int = 1) -> WorkloadJob:
    kind = LeaseType.SUSPENDABLE
    return WorkloadJob(submit_ms, vms, hours * HOUR_MS, hours * HOUR_MS, consumer, lease_type=kind)


ONE_AT_A_TIME = {"provider": "a", "consumer": "atlas", "kind": "no-limit", "lending_limit": 1}


def by_name(trial: WhatIf) -> dict[str, tuple[Count, Count]]:
    return {row.name: (row.without, row.with_it) for row in trial.consumers}


def test_by_hand() -> None:
    """Two machines, three guests of an hour: as it is the third waits; with it atlas goes one by one."""
    past = asked(guest("atlas/x"), guest("atlas/y"), guest("cms", 1000))
    trial = try_out(past, document({"name": "one", **ONE_AT_A_TIME}))
    found = by_name(trial)
    assert found["atlas"] == (
        Count(2, 0.0, 0.0, 0, 0, 2.0),
        Count(2, 1800.0, 3600.0, 0, 0, 2.0),
    )
    assert found["cms"] == (Count(1, 3599.0, 3599.0, 0, 0, 1.0), Count(1, 0.0, 0.0, 0, 0, 1.0))
    assert trial.held == {"one": (1, 0)}
    [site] = trial.providers
    assert (site.name, site.without.requests, site.with_it.slot_h) == ("a", 3, 3.0)


def test_whoever_asks_for_more_than_is_ever_lent_is_counted_as_refused() -> None:
    trial = try_out(asked(guest("atlas", vms=2)), document({"name": "one", **ONE_AT_A_TIME}))
    without, with_it = by_name(trial)["atlas"]
    assert (without.refused, with_it.refused, with_it.wait_mean_s) == (0, 1, None)
    assert trial.held == {"one": (0, 1)}
    assert [row.with_it.requests for row in trial.providers] == [0]


def test_a_consumer_that_an_agreement_names_has_a_line_of_its_own() -> None:
    past = asked(guest("atlas/production/x"), guest("atlas/analysis"))
    part = {**ONE_AT_A_TIME, "name": "part", "consumer": "atlas/production"}
    assert set(by_name(try_out(past, document(part)))) == {"atlas/production", "atlas"}


@pytest.fixture(scope="module")
def busy_trial() -> WhatIf:
    return try_out(requests_of(agreed([])), document(*AGREEMENTS))


def test_both_runs_count_what_the_run_folders_say(busy_trial: WhatIf, tmp_path: Any) -> None:
    for scenario, which in ((agreed([]), 0), (agreed(), 1)):
        _, tables, _ = played(scenario, tmp_path / str(which))
        held = segments_of(tables, "atlas", ["a", "b"])
        own = [found[which].slot_h for name, found in by_name(busy_trial).items() if name.startswith("atlas")]
        assert sum(own) * HOUR_MS == pytest.approx(used_slot_ms(held))
        assert (most_at_a_time(held) <= 9) is bool(which)


def test_the_clusters_own_users_notice_nothing_as_long_as_every_guest_can_be_preempted() -> None:
    guests = [{**stream, "types": {"suspendable": 0.5, "cancelable": 0.5}} for stream in GUESTS]
    own = agreed([]).to_dict()["stream"][:2]
    trial = try_out(requests_of(agreed([], stream=[*own, *guests])), document(*AGREEMENTS))
    without, with_it = by_name(trial)[OWN_USERS]
    assert without == with_it
    assert without.requests > 50


def test_it_can_be_tried_as_often_as_one_likes(busy_trial: WhatIf) -> None:
    assert try_out(requests_of(agreed([])), document(*AGREEMENTS)) == busy_trial


class TestADocumentBesideWhatIsAgreed:
    def test_takes_the_place_of_agreements_of_the_same_name_only(self) -> None:
        new = {**AGREEMENTS[0], "lending_limit": 3}
        found = with_document(agreed(), document(new)).agreements
        assert [one.name for one in found] == [one["name"] for one in AGREEMENTS]
        assert [one.lending_limit for one in found][:2] == [3, 5]

    def test_may_draw_domains_anew(self) -> None:
        new = {**AGREEMENTS[2], "provider": "west"}
        drawn = document(new, domain=[{"name": "west", "sites": ["a", "b"]}])
        assert [d.name for d in with_document(agreed([]), drawn).domains] == ["west"]
        assert [tables.DOMAIN.to_dict(d) for d in agreed([]).domains] == DOMAIN

    def test_may_say_how_agreements_are_applied(self) -> None:
        stricter = document(AGREEMENTS[2], sharing={"without_agreement": "refuse"})
        scenario = agreed([], sharing={"starts_at": "2026-09-01T00:00:00Z"})
        found = with_document(scenario, stricter).sharing
        assert found.without_agreement == "refuse"
        assert found.starts_at_ms == scenario.sharing.starts_at_ms

    def test_is_refused_where_it_does_not_fit(self) -> None:
        with pytest.raises(InvalidField, match=r"^agreement\[1\]\.provider: got 'c'"):
            with_document(agreed(), document(AGREEMENTS[2], {**AGREEMENTS[0], "provider": "c"}))


def test_it_tells_how_far_it_is() -> None:
    told: list[int] = []
    past = asked(guest("atlas", vms=1), guest("atlas", vms=1))
    try_out(past, document({"name": "one", **ONE_AT_A_TIME}), lambda progress: told.append(progress.jobs))
    assert max(told) == 2
    assert told.count(2) >= 2
