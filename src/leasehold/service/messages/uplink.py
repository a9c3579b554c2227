"""The line from a site to its gateway: the site calls, so that its firewall need not admit connections.

A gateway that lends to a peer calls it in the same way (`leasehold.service.peers.peers`).

Two calls run side by side. One waits for messages from the gateway; the other carries reports there as soon
as they are written. On any failure, messages stay in the store and are sent again.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from urllib.parse import quote

import httpx2
import structlog

from leasehold.model.errors import InvalidField, LeaseholdError
from leasehold.service.commands import MessageBatch
from leasehold.service.messages.endpoints import GATEWAY
from leasehold.service.messages.files import FileLine, GatewayFiles
from leasehold.service.messages.routing import MessageRouter
from leasehold.service.messages.site_status import SiteStatus
from leasehold.service.store.rows import MessageRow
from leasehold.service.tls import is_loopback

WAIT_S = 20.0
_ANSWER_WITHIN_S = 15.0
_BREATH_S = 0.1
"""A router that is closing returns nothing at once, again and again."""
_SHORTEST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 30.0


def check_gateway(url: str, field: str = "--gateway") -> None:
    """Refuse to send a token over an open network; raises InvalidField, naming ``field``."""
    try:
        parts = httpx2.URL(url)
    except httpx2.InvalidURL:
        parts = httpx2.URL("")
    is_safe = parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.host))
    if not (is_safe and parts.host):
        raise InvalidField(field, url, "an https:// address, or http:// on this machine")


class GatewayRefuses(LeaseholdError):
    """The gateway answers, and rejects the messages of this site."""


class Uplink:
    """One site's line to its gateway.

    ``messages``   gives the messages to the gateway, and takes in those from it
    ``files``      are carried over this line too, while it runs
    ``status``     says how the site is
    ``site``       how the gateway calls us; "": it is asked for that first
    ``endpoint``   how we call the gateway
    ``transport``  carries the calls; None: sockets

    ``problem``  why the gateway cannot be reached now, empty while it can
    """

    def __init__(  # noqa: PLR0913 - what it carries, and how
        self,
        messages: MessageRouter,
        files: GatewayFiles,
        status: Callable[[], Awaitable[SiteStatus]],
        gateway_url: str,
        token: str,
        *,
        site: str = "",
        endpoint: str = GATEWAY,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        self.problem = ""
        self._messages = messages
        self._files = files
        self._status = status
        self._site = site
        self._endpoint = endpoint
        self._http = httpx2.AsyncClient(
            base_url=gateway_url,
            headers={"Authorization": f"Bearer {token}"},
            timeout=httpx2.Timeout(WAIT_S + _ANSWER_WITHIN_S),
            transport=transport,
        )
        self._acknowledged = 0
        self._is_in_reach = False

    async def run(self) -> None:
        """Keep in touch until cancelled."""
        with self._files.over(self._endpoint, FileLine(self._http, self._our_name)):
            async with self._http, asyncio.TaskGroup() as tasks:
                tasks.create_task(self._again_and_again(self._ask_for_messages))
                tasks.create_task(self._again_and_again(self._carry_reports))

    async def _again_and_again(self, call: Callable[[], Awaitable[None]]) -> None:
        """Repeat a call for ever; after one that failed, wait a little longer each time."""
        pause_s = _SHORTEST_PAUSE_S
        while True:
            try:
                await call()
            except Exception as error:  # noqa: BLE001 - whatever it is, the site and this loop continue
                self._note(f"{type(error).__name__}: {error}")
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            else:
                pause_s = _SHORTEST_PAUSE_S

    def _note(self, problem: str) -> None:
        self._is_in_reach = not problem
        if problem != self.problem:
            log = structlog.get_logger("leasehold.uplink").bind(gateway=self._endpoint)
            if problem:
                log.warning("gateway out of reach", problem=problem)
            else:
                log.info("gateway in reach again")
        self.problem = problem

    async def _ask_for_messages(self) -> None:
        """The first call, and the first after a failure, does not wait: what the site has to tell waits for it."""
        await self._exchange([], WAIT_S if self._is_in_reach else 0.0)

    async def _carry_reports(self) -> None:
        """Wait for reports that the gateway has not got, and tell it."""
        reports = await self._messages.messages(self._endpoint, self._acknowledged, WAIT_S)
        if reports:
            await self._exchange(reports, 0.0)
        else:
            await asyncio.sleep(_BREATH_S)

    async def _exchange(self, reports: Sequence[MessageRow], wait_s: float) -> None:
        site = await self._our_name()
        body = {
            "status": (await self._status()).to_dict(),
            "messages": [{"seq": row.seq, "body": json.loads(row.body)} for row in reports],
            "acknowledged": await self._messages.received(self._endpoint),
            "wait_s": wait_s,
        }
        response = _insist(await self._http.post(f"/v1/sites/{quote(site, safe='')}/messages", json=body))
        batch = _batch_in(response, self._endpoint)
        await self._messages.receive(batch)
        self._acknowledged = max(self._acknowledged, batch.acknowledged)
        self._note("")

    async def _our_name(self) -> str:
        """Give the name by which the gateway knows us; where we were not told, it says for which our token speaks."""
        if self._site:
            return self._site
        response = _insist(await self._http.get("/v1/tokens/self"))
        try:
            (self._site,) = response.json()["sites"]
        except (KeyError, TypeError, ValueError):
            raise InvalidField("token", response.text[:200], "one of role peer, for one name") from None
        return self._site


def _insist(response: httpx2.Response) -> httpx2.Response:
    if response.status_code != httpx2.codes.OK:
        raise GatewayRefuses(f"{response.status_code}: {response.text[:500]}")
    return response


def _batch_in(response: httpx2.Response, endpoint: str) -> MessageBatch:
    """Read what a gateway answers; raises InvalidField where that cannot be read."""
    try:
        answer = response.json()
        messages = tuple((int(message["seq"]), json.dumps(message["body"])) for message in answer["messages"])
        return MessageBatch(endpoint, messages, int(answer["acknowledged"]))
    except (KeyError, TypeError, ValueError):
        raise InvalidField("answer", response.text[:200], "messages: does a gateway listen there?") from None
