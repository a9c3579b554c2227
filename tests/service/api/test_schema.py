"""The whole OpenAPI, fuzzed: whatever comes, the answers are those that the document promises."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import schemathesis
from anyio import sleep_forever, to_thread
from schemathesis.config import SchemathesisConfig
from schemathesis.schemas import BaseSchema
from starlette.types import Message, Receive, Scope, Send
from tests.searching import examples
from tests.service.api.house import House, house_in

from leasehold.protocol.files import A_HASH
from leasehold.service import forecasts
from leasehold.service.api.app import DOCUMENT
from leasehold.service.api.routers import changes
from leasehold.service.auth.principal import Role
from leasehold.service.config import ServiceConfig, SiteSpec
from leasehold.service.peers.peers import PeerLinks

CONFIG = {
    "generation": {"deterministic": True, "max-examples": examples(30), "database": "none"},
    "checks": {
        # what is well-formed may still make no sense: a deadline for a cancelable lease, roles that exclude
        # each other; that those are refused with a reason is tested field by field elsewhere
        "positive_data_acceptance": {"expected-statuses": ["2xx", "401", "403", "404", "409", "422"]},
        "negative_data_rejection": {"expected-statuses": ["401", "403", "404", "405", "413", "415", "422"]},
    },
}
SMALL = ServiceConfig((SiteSpec("das3", 64),))


class Bridge:
    """Carries requests from Schemathesis' event loop to the one that the house lives in."""

    def __init__(self, house: House) -> None:
        self._house = house

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Carry one request over, and its answer back."""
        if scope["type"] == "lifespan":
            for what in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{what}.complete"})
            return
        body = await _read(receive)
        for message in await to_thread.run_sync(self._house.portal.call, self._answer, scope, body):
            await send(message)

    async def _answer(self, scope: Scope, body: bytes) -> list[Message]:
        answer: list[Message] = []
        coming: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Message:
            if not coming:
                await sleep_forever()
            return coming.pop()

        async def send(message: Message) -> None:
            answer.append(message)

        await self._house.app(dict(scope), receive, send)
        return answer


async def _read(receive: Receive) -> bytes:
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return body


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A house with leases and a file, those of the examples among them; its streams end when they are quiet."""
    folder: Path = tmp_path_factory.mktemp("house")

    follow = changes.follow  # the name is patched below

    async def listen_for_a_while(*where: Any) -> AsyncIterator[Any]:
        async for lines in follow(*where):
            if not lines:
                return
            yield lines

    with (
        pytest.MonkeyPatch.context() as patch,
        house_in(folder, config=SMALL) as house,
    ):
        patch.setattr(changes, "follow", listen_for_a_while)
        patch.setattr(changes, "HEARTBEAT_S", 0)
        record = type(house.federation).record
        # recordings last up to five minutes, of which each case would wait
        patch.setattr(type(house.federation), "record", lambda federation, _: record(federation, 0))
        patch.setattr(forecasts, "_BUDGET_S", 0.1)  # nor does each case think for long about what would happen if
        patch.setattr(PeerLinks, "open", PeerLinks.close)  # so that no peer is called
        house.portal.call(house.federation.messages.close)  # so that nobody waits for messages
        token = house.token(sites=("das3",))
        for number in range(42):
            house.submit(token, type=None, local=True, vms=32, name=f"night-{number}")
        house.federation.files.announce("operator", A_HASH, "sky.fits", 4, 0)
        house.federation.files.write("operator", A_HASH, 0, b"test")
        yield house


@pytest.fixture(scope="module")
def token(house: House) -> str:
    return house.token(Role.FEDERATION_ADMIN, consumer="operator")


def declared() -> BaseSchema:
    """Load it from a house that stands only that long: tests are made of it before any fixture is."""
    with TemporaryDirectory() as folder, house_in(Path(folder), config=SMALL) as house:
        return schemathesis.openapi.from_asgi(DOCUMENT, Bridge(house), config=SchemathesisConfig.from_dict(CONFIG))


schema = declared()


@pytest.mark.soak
@schema.parametrize()
def test_every_answer_is_as_promised(case: schemathesis.Case[Any], house: House, token: str) -> None:
    case.operation.app = Bridge(house)
    case.call_and_validate(headers={"Authorization": f"Bearer {token}"})
