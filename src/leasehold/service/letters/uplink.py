"""The line from a site to its gateway: the site calls, so that nothing need reach through its firewall.

Two calls go on side by side. One waits for letters from the gateway; the other carries reports there as soon
as they are written. Whatever goes wrong, letters stay in the store and are told again.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

import httpx2
import structlog

from leasehold.model.errors import InvalidField, LeaseholdError
from leasehold.service.auth.listening import is_loopback
from leasehold.service.commands import Mail
from leasehold.service.letters.wire import GATEWAY
from leasehold.service.store.rows import LetterRow

if TYPE_CHECKING:
    from leasehold.service.federation import Federation

WAIT_S = 20.0
_ANSWER_WITHIN_S = 15.0
_SHORTEST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 30.0


def check_gateway(url: str) -> None:
    """Refuse to show a token on an open network; raises InvalidField."""
    parts = httpx2.URL(url)
    is_safe = parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.host))
    if not is_safe:
        raise InvalidField("--gateway", url, "an https:// address, or http:// on this machine")


class GatewayRefuses(LeaseholdError):
    """The gateway answers, and does not want what this site says."""


class Uplink:
    """One site's line to its gateway.

    ``problem``  why the gateway cannot be reached now, empty while it can
    """

    def __init__(self, federation: "Federation", site: str, gateway_url: str, token: str) -> None:
        self.problem = ""
        self._federation = federation
        self._path = f"/v1/sites/{site}/letters"
        self._http = httpx2.AsyncClient(
            base_url=gateway_url,
            headers={"Authorization": f"Bearer {token}"},
            timeout=httpx2.Timeout(WAIT_S + _ANSWER_WITHIN_S),
        )
        self._acknowledged = 0

    async def run(self) -> None:
        """Keep in touch until cancelled."""
        async with self._http, asyncio.TaskGroup() as tasks:
            tasks.create_task(self._again_and_again(self._ask_for_letters))
            tasks.create_task(self._again_and_again(self._carry_reports))

    async def _again_and_again(self, call: Callable[[], Awaitable[None]]) -> None:
        """Repeat a call for ever; after one that failed, wait a little longer each time."""
        pause_s = _SHORTEST_PAUSE_S
        while True:
            try:
                await call()
            except Exception as error:  # noqa: BLE001 - whatever it is, the site goes on, and so does this
                self._note(f"{type(error).__name__}: {error}")
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            else:
                pause_s = _SHORTEST_PAUSE_S

    def _note(self, problem: str) -> None:
        if problem != self.problem:
            log = structlog.get_logger("leasehold.uplink")
            if problem:
                log.warning("gateway out of reach", problem=problem)
            else:
                log.info("gateway in reach again")
        self.problem = problem

    async def _ask_for_letters(self) -> None:
        await self._exchange([], WAIT_S)

    async def _carry_reports(self) -> None:
        """Wait for reports that the gateway has not got, and tell it."""
        post = self._federation.post
        reports = await post.letters(GATEWAY, self._acknowledged, WAIT_S)
        if reports:
            await self._exchange(reports, 0.0)

    async def _exchange(self, reports: Sequence[LetterRow], wait_s: float) -> None:
        store = self._federation.store
        _, received = await asyncio.to_thread(store.mail_state, GATEWAY)
        body = {
            "about": (await self._federation.about()).to_dict(),
            "letters": [{"seq": row["seq"], "body": json.loads(row["body"])} for row in reports],
            "acknowledged": received,
            "wait_s": wait_s,
        }
        response = await self._http.post(self._path, json=body)
        if response.status_code != httpx2.codes.OK:
            raise GatewayRefuses(f"{response.status_code}: {response.text[:500]}")
        mail = _mail_in(response)
        await self._federation.post.take_in(mail)
        self._acknowledged = max(self._acknowledged, mail.acknowledged)
        self._note("")


def _mail_in(response: httpx2.Response) -> Mail:
    """Read what a gateway answers; raises InvalidField where that cannot be read."""
    try:
        answer = response.json()
        letters = tuple((int(letter["seq"]), json.dumps(letter["body"])) for letter in answer["letters"])
        return Mail(GATEWAY, letters, int(answer["acknowledged"]))
    except (KeyError, TypeError, ValueError):
        raise InvalidField("answer", response.text[:200], "letters: does a gateway listen there?") from None
