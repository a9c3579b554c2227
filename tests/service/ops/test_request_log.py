"""Each request is one line of log, and has an id by which both sides find it."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send
from structlog.contextvars import get_contextvars
from structlog.testing import capture_logs

from leasehold.service.logs import RequestLog


@dataclass
class Application:
    """Answers everything with 201, as the route and the consumer that it is told."""

    route: str = "/v1/leases"
    consumer: str | None = "physics"
    fails: bool = False
    seen: str = ""

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        self.seen = str(get_contextvars().get("id"))
        scope["route"] = Route(self.route, self)
        if self.consumer is not None:
            scope["leasehold.call"] = SimpleNamespace(principal=SimpleNamespace(consumer=self.consumer))
        if self.fails:
            raise ConnectionError
        await send({"type": "http.response.start", "status": 201, "headers": []})
        await send({"type": "http.response.body", "body": b""})


def ask(application: Application, *headers: tuple[bytes, bytes]) -> dict[str, str]:
    """Send one request through the log, and give the headers of the answer."""
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/v1/leases", "headers": list(headers)}
    asyncio.run(RequestLog(application)(scope, receive, send))
    return {name.decode(): value.decode() for name, value in sent[0]["headers"]}


@pytest.fixture
def said() -> Iterator[list[Any]]:
    with capture_logs() as lines:
        yield lines


class TestLine:
    def test_says_who_asked_what_and_how_it_was_answered(self, said: list[Any]) -> None:
        ask(Application())
        (line,) = said
        assert line.pop("ms") >= 0
        assert line == {
            "event": "request",
            "log_level": "info",
            "consumer": "physics",
            "method": "POST",
            "route": "/v1/leases",
            "status": 201,
        }

    def test_names_the_route_as_the_reference_does(self, said: list[Any]) -> None:
        ask(Application(route="/v1/leases/{lease_id:int}/journal"))
        assert said[0]["route"] == "/v1/leases/{lease_id}/journal"

    def test_of_nobody_known(self, said: list[Any]) -> None:
        ask(Application(consumer=None))
        assert said[0]["consumer"] == ""

    def test_an_answer_that_never_began_is_said_too(self, said: list[Any]) -> None:
        with pytest.raises(ConnectionError):
            ask(Application(fails=True))
        assert said[0]["status"] == 0

    def test_probes_are_said_only_to_who_wants_everything(self, said: list[Any]) -> None:
        ask(Application(route="/readyz"))
        assert said[0]["log_level"] == "debug"


class TestId:
    def test_is_in_the_answer_and_in_every_line_meanwhile(self) -> None:
        answer = ask(application := Application())
        assert answer["x-request-id"] == application.seen

    def test_is_the_callers_own_where_there_is_one(self) -> None:
        assert ask(Application(), (b"x-request-id", b"run-7.3"))["x-request-id"] == "run-7.3"

    @pytest.mark.parametrize("given", [b"", b"x" * 65, b"a b", b"a\r\nSet-Cookie: x"])
    def test_but_not_where_that_is_no_id(self, given: bytes) -> None:
        assert ask(Application(), (b"x-request-id", given))["x-request-id"].isalnum()
