"""A line to a peer finds out first what we are called there, and says what is wrong where that fails."""

import asyncio
from typing import Any

import httpx2
import pytest
from tests.service.messages.test_agreement import Line

from leasehold.model.errors import InvalidField
from leasehold.service.messages.endpoints import asking, asking_peer
from leasehold.service.messages.files import GatewayFiles
from leasehold.service.messages.uplink import GatewayRefuses, Uplink

ME = httpx2.Response(200, json={"consumer": "peer/west", "sites": ["we/st"]})
MESSAGES = httpx2.Response(200, json={"messages": [], "acknowledged": 0})


def exchange(*answers: httpx2.Response) -> tuple[Line, list[str]]:
    """Exchange messages as often as there are answers for; what was taken in, and what was asked for."""
    line, asked = Line(*answers), []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(f"{request.method} {request.url.raw_path.decode()}")
        return line.answer(request)

    side: Any = line
    uplink = Uplink(side, GatewayFiles(), side.status, "http://127.0.0.1:1", "secret", endpoint=asking("east"))
    uplink._http = httpx2.AsyncClient(transport=httpx2.MockTransport(answer), base_url="http://127.0.0.1:1")

    async def go_on() -> None:
        while line.answers:
            await uplink._ask_for_messages()

    asyncio.run(go_on())
    return line, asked


def test_it_asks_once_for_our_name() -> None:
    line, asked = exchange(ME, MESSAGES, MESSAGES)
    assert asked == ["GET /v1/tokens/self", *["POST /v1/sites/we%2Fst/messages"] * 2]
    assert [mail.endpoint for mail in line.taken] == ["peer/east"] * 2


@pytest.mark.parametrize("answer", [{"sites": []}, {"sites": ["a", "b"]}, {}, []])
def test_a_token_that_does_not_speak_for_one_name_is_none(answer: object) -> None:
    with pytest.raises(InvalidField, match="role peer"):
        exchange(httpx2.Response(200, json=answer))


def test_a_token_that_does_not_count_is_refused() -> None:
    with pytest.raises(GatewayRefuses, match="401"):
        exchange(httpx2.Response(401, text="who are you?"))


@pytest.mark.parametrize("name", ["gateway", "north", "", "peers"])
def test_only_a_peer_that_asks_is_one(name: str) -> None:
    assert asking_peer(name) == ""
    assert asking_peer(asking(name)) == name
