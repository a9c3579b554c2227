"""What is said of a lease besides its state: that it is asked back, and what its duration is by the clock."""

import pytest
from tests.cli.saying import Cli
from tests.client.gateway import Gateway, Reply, change, lease, site

from leasehold.cli.live.leases import account, asked_back
from leasehold.client import Lease, Site


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ("up", ["cancellation was requested", "das3 stops it"]),
        ("unreachable", ["cancellation was requested", "das3 has not answered since", "as soon as it does"]),
    ],
)
def test_it_says_what_will_happen(status: str, expected: list[str]) -> None:
    told = Site.model_validate(site(status=status))
    assert told.last_seen_at is not None
    said = asked_back(Lease.model_validate(lease()), told, told.last_seen_at)
    assert all(part in said for part in expected)


@pytest.mark.parametrize(
    ("status", "state", "is_said"),
    [("unreachable", "cancelled", True), ("up", "cancelled", False), ("unreachable", "completed", False)],
)
def test_cancelling_at_a_silent_site_says_that_its_machines_are_stopped_later(
    cli: Cli, gateway: Gateway, status: str, state: str, *, is_said: bool
) -> None:
    gateway.answer("DELETE", "/v1/leases/42", Reply(body=lease(state=state)))
    gateway.answer("GET", "/v1/sites", Reply(body={"sites": [site(status=status)]}))
    said = cli("lease", "cancel", "42").out
    assert ("das3 has not answered since" in said) is is_said
    assert ("are stopped as soon as it does" in said) is is_said


@pytest.mark.parametrize(("what", "is_said"), [("recalled", True), ("dispatch", False)])
def test_show_says_that_a_cancellation_was_requested(cli: Cli, gateway: Gateway, what: str, *, is_said: bool) -> None:
    gateway.answer("GET", "/v1/leases/42", Reply(body=lease()))
    entries = {"entries": [change(7, what=what)], "next": None}
    gateway.answer("GET", "/v1/leases/42/journal", Reply(body=entries))
    gateway.answer("GET", "/v1/sites", Reply(body={"sites": [site(status="unreachable")]}))
    said = cli("lease", "show", "42").out
    assert ("its cancellation was requested: das3 has not answered since" in said) is is_said


def test_a_site_that_was_never_seen_has_no_since() -> None:
    told = Site.model_validate(site(status="unreachable", last_seen_at=None))
    at = Site.model_validate(site()).last_seen_at
    assert at is not None
    assert "has not answered, and stops it" in asked_back(Lease.model_validate(lease()), told, at)


@pytest.mark.parametrize(
    ("walltime_s", "expected"),
    [
        (3600, "for 1:00:00\n"),
        (1200, "for 1:00:00 at the reference speed, 20:00 at das3\n"),
        (None, "for 1:00:00\n"),
    ],
)
def test_show_says_both_durations_where_they_differ(walltime_s: float | None, expected: str) -> None:
    told = Lease.model_validate(lease(walltime_s=walltime_s))
    assert expected in "\n".join([*account(told, told.submitted_at), ""])


def test_a_plan_says_both_too(cli: Cli, gateway: Gateway) -> None:
    told = {
        "verdict": "as-asked",
        "state": "starting",
        "site": "das3",
        "walltime_s": 20,
        "reason": "room-free",
        "explanation": "got free room at once",
    }
    gateway.answer("POST", "/v1/leases/plan", Reply(body=told))
    said = cli("lease", "plan", "--type", "suspendable", "--duration", "60").out
    assert "  it would last 1:00 at the reference speed, 0:20 at das3\n" in said


BOTH = "1:00:00 at the reference speed, 20:00 at das3"


@pytest.mark.parametrize(
    ("method", "path", "words"),
    [
        ("POST", "/v1/leases", ["submit", "--type", "suspendable", "--duration", "1h"]),
        ("POST", "/v1/leases/42/extension", ["extend", "42", "--by", "10m"]),
    ],
)
@pytest.mark.parametrize(("walltime_s", "is_said"), [(1200, True), (3600, False), (None, False)])
def test_so_do_the_answers_of_submit_and_extend(
    cli: Cli,
    gateway: Gateway,
    method: str,
    path: str,
    words: list[str],
    walltime_s: float | None,
    *,
    is_said: bool,
) -> None:
    gateway.answer(method, path, Reply(201, lease(walltime_s=walltime_s)))
    said = cli("lease", *words)
    assert said.code == 0
    assert (f"it lasts {BOTH}\n" in said.out + said.err) is is_said
