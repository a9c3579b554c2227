"""Asking a gateway: what goes over the wire, what comes back, and what becomes of every way of failing."""

import socket
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from tests.client.gateway import MOMENT, Cut, Gateway, Reply, Stream, change, event, lease, problem, site
from tests.client.talking import Talk, awaiting, waiting

from leasehold.client import (
    BadResponse,
    Client,
    Conflict,
    Invalid,
    Lost,
    NotAllowed,
    NotFound,
    NotSignedIn,
    ProblemError,
    RetryPolicy,
    ServerFailed,
    TooMany,
    Unreachable,
)
from leasehold.model.errors import InvalidField
from leasehold.model.lease import LeaseState
from leasehold.protocol.fields import MAX_FOLLOWED
from leasehold.protocol.leases import LeaseFilter, LeaseSpec
from leasehold.protocol.tokens import Role, TokenSpec

AT_10_43 = datetime(2026, 11, 21, 10, 43, 36, 120_000, UTC)


class TestAnswers:
    def test_a_lease_comes_typed(self, gateway: Gateway, talk: Talk) -> None:
        gateway.answer("GET", "/v1/leases/42", Reply(body=lease()))
        found = talk("leases.get", 42)
        assert (found.type, found.state) == ("suspendable", LeaseState.RUNNING)
        assert (found.submitted_at, found.ends_at) == (AT_10_43, AT_10_43 + timedelta(hours=1))
        assert found.command == ("sh", "run.sh")
        assert not found.is_over

    def test_what_a_newer_gateway_says_beside_is_left_out(self, gateway: Gateway, talk: Talk) -> None:
        gateway.answer("GET", "/v1/leases/42", Reply(body=lease(mood="fine")))
        assert talk("leases.get", 42).id == 42

    def test_what_has_a_default_may_be_missing(self, gateway: Gateway, talk: Talk) -> None:
        told = lease()
        del told["migrations"]
        gateway.answer("GET", "/v1/leases/42", Reply(body=told))
        assert talk("leases.get", 42).migrations == 0

    @pytest.mark.parametrize(
        ("reply", "message"),
        [
            (
                Reply(body=lease(state="odd")),
                "the response is not a valid Lease: state: got 'odd', expected 'submitted', ",
            ),
            (Reply(body=lease(vms="2")), "the response is not a valid Lease: vms: got '2', expected a whole number"),
            (Reply(body={"id": 42}), "the response is not a valid Lease: type: missing, expected a value"),
            (Reply(body=[1]), "the response is not a valid Lease: response: got [1], expected a JSON object"),
            (Reply(body="<html>", kind="text/html"), "the response is not JSON, so whatever answers is not a gateway"),
        ],
    )
    def test_an_answer_that_is_none_is_said_so(self, gateway: Gateway, talk: Talk, reply: Reply, message: str) -> None:
        gateway.answer("GET", "/v1/leases/42", reply)
        with pytest.raises(BadResponse) as caught:
            talk("leases.get", 42)
        assert str(caught.value).startswith(message)

    def test_a_list_goes_over_all_pages(self, gateway: Gateway, talk: Talk) -> None:
        pages = [
            {"leases": [lease(3), lease(2)], "next": "before-2"},
            {"leases": [lease(1)], "next": None},
        ]
        gateway.answer("GET", "/v1/leases", *(Reply(body=page) for page in pages))
        found = talk("leases.list", LeaseFilter.of(state=[LeaseState.RUNNING, "held"], site="das3", open=True))
        assert [one.id for one in found] == [3, 2, 1]
        first = [("state", "running"), ("state", "held"), ("site", "das3"), ("open", "true")]
        assert [asked.query for asked in gateway.asked] == [
            [*first, ("limit", "1000")],
            [*first, ("limit", "1000"), ("cursor", "before-2")],
        ]

    def test_a_journal_is_told_from_the_beginning(self, gateway: Gateway, talk: Talk) -> None:
        gateway.answer("GET", "/v1/leases/42/journal", Reply(body={"entries": [change(7), change(9)], "next": None}))
        found = talk("leases.journal", 42)
        assert [(entry.seq, entry.at, entry.state) for entry in found] == [
            (7, AT_10_43, LeaseState.RUNNING),
            (9, AT_10_43, LeaseState.RUNNING),
        ]

    def test_a_console_is_text(self, gateway: Gateway, talk: Talk) -> None:
        gateway.answer("GET", "/v1/leases/42/console", Reply(body="hello\n", kind="text/plain"))
        assert talk("leases.console", 42) == "hello\n"

    def test_sites_have_their_parts(self, gateway: Gateway, talk: Talk) -> None:
        gateway.answer("GET", "/v1/sites", Reply(body={"sites": [site(), site("lyon")]}))
        das3, lyon = talk("sites.list")
        assert (das3.name, das3.vms.free, das3.waiting.guests) == ("das3", 28, 3)
        assert lyon.capabilities.suspend
        assert not lyon.capabilities.checkpoint

    @pytest.mark.parametrize(
        ("name", "arguments", "method", "path", "body"),
        [
            ("leases.cancel", [42], "DELETE", "/v1/leases/42", None),
            ("leases.extend", [42, 600], "POST", "/v1/leases/42/extension", {"by_s": 600}),
            ("sites.get", ["das3"], "GET", "/v1/sites/das3", None),
            ("sites.drain", ["das3", "new switch"], "POST", "/v1/sites/das3/drain", {"note": "new switch"}),
            ("sites.resume", ["a b/c"], "POST", "/v1/sites/a%20b%2Fc/resume", None),
        ],
    )
    def test_each_verb_asks_for_one_thing(
        self, gateway: Gateway, talk: Talk, name: str, arguments: list[Any], method: str, path: str, body: Any
    ) -> None:
        gateway.answer(method, path, Reply(body=site() if name.startswith("sites") else lease()))
        talk(name, *arguments)
        (asked,) = gateway.asked
        assert (asked.method, asked.path, asked.body) == (method, path, body)
        assert asked.headers["authorization"] == "Bearer secret"

    def test_tokens_are_made_listed_and_revoked(self, gateway: Gateway, talk: Talk) -> None:
        told = {"id": "7f", "consumer": "physics", "roles": ["member"], "created_at": MOMENT, "token": "lh_7f_abc"}
        gateway.answer("POST", "/v1/tokens", Reply(201, told))
        gateway.answer("GET", "/v1/tokens", Reply(body={"tokens": [told]}))
        gateway.answer("DELETE", "/v1/tokens/7f", Reply(204, ""))
        made = talk("tokens.create", TokenSpec(consumer="physics", roles=[Role.MEMBER], expires_in_s=60))
        assert made.token == told["token"]
        assert "abc" not in repr(made)
        assert gateway.asked[0].body == {"consumer": "physics", "roles": ["member"], "expires_in_s": 60}
        assert [one.id for one in talk("tokens.list")] == ["7f"]
        assert talk("tokens.revoke", "7f") is None

    def test_who_asks_is_told_what_they_may(self, gateway: Gateway, talk: Talk) -> None:
        told = {
            "consumer": "physics",
            "roles": ["member"],
            "token_id": None,
            "permissions": {"site.see": ["all"]},
        }
        gateway.answer("GET", "/v1/tokens/self", Reply(body=told))
        caller = talk("tokens.inspect")
        assert (caller.consumer, caller.roles, caller.token_id) == ("physics", ("member",), None)
        assert caller.permissions == {"site.see": ("all",)}

    def test_health_is_an_answer_even_where_it_is_bad(self, gateway: Gateway, talk: Talk) -> None:
        gateway.answer("GET", "/healthz", Reply(body={}))
        gateway.answer("GET", "/readyz", problem(503, "unavailable", "the store is being checked"), Reply(body={}))
        bad, good = talk("health"), talk("health")
        assert (bad.alive, bad.ready, bad.why_not) == (True, False, "the store is being checked")
        assert (good.ready, good.why_not) == (True, "")


class TestProblems:
    @pytest.mark.parametrize(
        ("status", "kind"),
        [
            (401, NotSignedIn),
            (403, NotAllowed),
            (404, NotFound),
            (405, Invalid),
            (409, Conflict),
            (413, Invalid),
            (422, Invalid),
            (429, TooMany),
            (500, ServerFailed),
            (503, ServerFailed),
        ],
    )
    def test_each_status_has_its_class(
        self, gateway: Gateway, talk: Talk, status: int, kind: type[ProblemError]
    ) -> None:
        more = {"field": "vms", "value": 0, "expected": "at least 1", "errors": [{"field": "vms"}]}
        gateway.answer("POST", "/v1/leases/42/extension", problem(status, "some-slug", "One line.", **more))
        with pytest.raises(ProblemError) as caught:
            talk("leases.extend", 42, 600)
        told = caught.value.problem
        assert type(caught.value) is kind
        assert str(caught.value) == "One line."
        assert (told.status, told.slug, told.title) == (status, "some-slug", "some-slug")
        assert (told.field, told.value, told.expected) == ("vms", 0, "at least 1")
        assert [one.field for one in told.errors or ()] == ["vms"]

    def test_what_a_proxy_says_is_a_problem_too(self, gateway: Gateway, talk: Talk) -> None:
        gateway.answer("GET", "/v1/leases/42", Reply(500, "<html>", kind="text/html"))
        with pytest.raises(ServerFailed, match=r"^the gateway answered with status 500$"):
            talk("leases.get", 42)

    def test_too_many_says_when_to_come_back(self, gateway: Gateway, talk: Talk) -> None:
        gateway.answer("GET", "/v1/leases/42", problem(429, "x", "Too many.", headers={"Retry-After": "60"}))
        with pytest.raises(TooMany) as caught:
            talk("leases.get", 42)
        assert caught.value.retry_after_s == 60
        assert len(gateway.asked) == 1  # a minute is more than anybody waits for


class TestSubmission:
    def test_everything_that_was_said_goes_over_the_wire(self, gateway: Gateway, talk: Talk) -> None:
        gateway.answer("POST", "/v1/leases", Reply(201, lease()))
        spec = LeaseSpec.of(
            type="migratable",
            vms=2,
            duration_s=90.5,
            deadline=datetime(2026, 11, 21, 13, tzinfo=timezone(timedelta(hours=1))),
            ready=None,
            name="",
            command=["sh", ""],
        )
        talk("leases.submit", spec, idempotency_key="mine")
        (asked,) = gateway.asked
        assert asked.headers["idempotency-key"] == "mine"
        assert asked.body == {
            "type": "migratable",
            "vms": 2,
            "duration_s": 90.5,
            "deadline": "2026-11-21T12:00:00.000Z",
            "command": ["sh", ""],
        }

    def test_a_time_without_its_zone_is_refused(self) -> None:
        with pytest.raises(InvalidField, match="ready: got '2026-11-21T00:00:00', expected a time with its zone"):
            LeaseSpec(vms=1, duration_s=1, ready=datetime(2026, 11, 21))  # noqa: DTZ001

    @pytest.mark.parametrize(
        "trouble", [Cut(), problem(503, "unavailable", "Later."), problem(429, "x", "Later."), Reply(502, "")]
    )
    def test_it_is_asked_again_with_the_same_key(self, gateway: Gateway, talk: Talk, trouble: Reply | Cut) -> None:
        gateway.answer("POST", "/v1/leases", trouble, trouble, trouble, Reply(201, lease()))
        assert talk("leases.submit", LeaseSpec(vms=2, duration_s=3600)).id == 42
        keys = [asked.headers["idempotency-key"] for asked in gateway.asked]
        assert len(keys) == 4
        assert len(set(keys)) == 1
        assert len({str(asked.body) for asked in gateway.asked}) == 1

    def test_two_submissions_have_two_keys(self, gateway: Gateway, talk: Talk) -> None:
        gateway.answer("POST", "/v1/leases", Reply(201, lease()))
        talk("leases.submit", LeaseSpec(vms=2, duration_s=3600))
        talk("leases.submit", LeaseSpec(vms=2, duration_s=3600))
        assert len({asked.headers["idempotency-key"] for asked in gateway.asked}) == 2

    def test_where_patience_ends_in_doubt_the_key_is_told(self, gateway: Gateway, talk: Talk) -> None:
        gateway.answer("POST", "/v1/leases", Cut())
        with pytest.raises(Lost, match="repeat the request with the idempotency key mine") as caught:
            talk("leases.submit", LeaseSpec(vms=2, duration_s=3600), idempotency_key="mine")
        assert caught.value.key == "mine"
        assert len(gateway.asked) == 4

    def test_a_refused_lease_is_an_answer(self, gateway: Gateway, talk: Talk) -> None:
        told = lease(state="refused", reason="wider-than-any-site", started_at=None)
        gateway.answer("POST", "/v1/leases", Reply(201, told))
        assert talk("leases.submit", LeaseSpec(vms=2000, duration_s=3600)).state is LeaseState.REFUSED


class TestBrokenConnections:
    def test_what_may_be_asked_twice_is(self, gateway: Gateway, talk: Talk) -> None:
        gateway.answer("GET", "/v1/leases/42", Cut(), Reply(body=lease()))
        assert talk("leases.get", 42).id == 42

    @pytest.mark.parametrize(
        ("name", "arguments", "path"),
        [
            ("leases.extend", {"lease_id": 42, "by_s": 600}, "/v1/leases/42/extension"),
            ("tokens.create", {"spec": TokenSpec(consumer="physics", roles=[Role.MEMBER])}, "/v1/tokens"),
        ],
    )
    def test_what_must_not_be_is_not(
        self, gateway: Gateway, talk: Talk, name: str, arguments: dict[str, Any], path: str
    ) -> None:
        gateway.answer("POST", path, Cut())
        with pytest.raises(Lost):
            talk(name, **arguments)
        assert len(gateway.asked) == 1

    @pytest.mark.parametrize("way", [waiting, awaiting])
    def test_where_nobody_listens_nothing_is_in_doubt(self, way: Any) -> None:
        with socket.create_server(("127.0.0.1", 0)) as closed:
            url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        with pytest.raises(Unreachable, match=f"^no gateway answers at {url}: .*refused") as caught:
            way(url, RetryPolicy(tries=9, connect_tries=1, first_s=0))("leases.submit", LeaseSpec(vms=1, duration_s=1))
        assert not isinstance(caught.value, Lost)


class TestWatching:
    def test_changes_come_typed(self, gateway: Gateway, talk: Talk) -> None:
        gateway.answer("GET", "/v1/changes", Stream(": beat\n\n" + event(change(7)) + event(change(9, lease=None))))
        first, second = talk("leases.watch", most=2)
        assert (first.seq, first.at, first.lease, first.state) == (7, AT_10_43, 42, "running")
        assert (second.seq, second.lease) == (9, None)

    @pytest.mark.parametrize("end", ["cut", "end"])
    def test_a_broken_stream_goes_on_after_the_last_change(self, gateway: Gateway, talk: Talk, end: str) -> None:
        half = event(change(9))[:30]
        gateway.answer(
            "GET",
            "/v1/changes",
            Stream(event(change(7)) + event(change(8)) + half, cut=end == "cut"),
            Cut(),
            problem(503, "unavailable", "Starting."),
            Stream(event(change(8)) + event(change(9))),
        )
        assert [one.seq for one in talk("leases.watch", 42, most=3)] == [7, 8, 9]
        assert [asked.headers.get("last-event-id") for asked in gateway.asked] == [None, "8", "8", "8"]
        assert {str(asked.query) for asked in gateway.asked} == {"[('lease', '42')]"}

    def test_it_may_begin_in_the_past(self, gateway: Gateway, talk: Talk) -> None:
        gateway.answer("GET", "/v1/changes", Stream(event(change(1))))
        talk("leases.watch", after=0, most=1)
        assert (gateway.asked[0].headers["last-event-id"], gateway.asked[0].query) == ("0", [])

    def test_it_says_whenever_a_connection_stands(self, gateway: Gateway, talk: Talk) -> None:
        gateway.answer("GET", "/v1/changes", Stream(event(change(1))), Cut(), Stream(event(change(2))))
        asked_by_then: list[int] = []
        talk("leases.watch", most=2, opened=lambda: asked_by_then.append(len(gateway.asked)))
        assert asked_by_then == [1, 3]

    def test_several_are_asked_for_by_their_numbers(self, gateway: Gateway, talk: Talk) -> None:
        gateway.answer("GET", "/v1/changes", Stream("".join(event(change(seq, lease=seq)) for seq in (3, 7))))
        assert [one.lease for one in talk("leases.watch", 3, 7, most=2)] == [3, 7]
        assert gateway.asked[0].query == [("lease", "3"), ("lease", "7")]

    def test_more_than_can_be_named_are_picked_out_of_all(self, gateway: Gateway, talk: Talk) -> None:
        others = "".join(event(change(seq, lease=seq)) for seq in range(1, 203))
        gateway.answer("GET", "/v1/changes", Stream(others))
        even = range(2, 2 * (MAX_FOLLOWED + 1) + 1, 2)
        assert [one.lease for one in talk("leases.watch", *even, most=3)] == [2, 4, 6]
        assert gateway.asked[0].query == []

    def test_a_lasting_no_ends_it(self, gateway: Gateway, talk: Talk) -> None:
        gateway.answer("GET", "/v1/changes", Stream(event(change(7))), problem(401, "x", "Expired."))
        with pytest.raises(NotSignedIn, match=r"^Expired\.$"):
            talk("leases.watch")

    def test_patience_ends(self, gateway: Gateway, talk: Talk) -> None:
        gateway.answer("GET", "/v1/changes", Stream(event(change(7))), Cut())
        with pytest.raises(Lost):
            talk("leases.watch")
        assert len(gateway.asked) == 1 + 3  # the end of the stream is the first of four failures

    def test_a_change_that_is_none_is_said_so(self, gateway: Gateway, talk: Talk) -> None:
        gateway.answer("GET", "/v1/changes", Stream("event: change\nid: 1\ndata: {\n\n"))
        with pytest.raises(BadResponse, match="the response is not JSON"):
            talk("leases.watch")


def test_a_client_tells_its_version(gateway: Gateway) -> None:
    gateway.answer("GET", "/v1/sites", Reply(body={"sites": []}))
    with Client(gateway.url, "secret") as client:
        assert client.sites.list() == ()
    assert gateway.asked[0].headers["user-agent"].startswith("leasehold/")
