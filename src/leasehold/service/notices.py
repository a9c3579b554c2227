"""Notices: a guest that asked for it is told before it is preempted, by its machines or by a webhook.

The order that preempts it is in the outbox until its time comes, or until the guest reports a checkpoint. Telling is a
help, and no promise: a guest that could not be told is preempted all the same, at the same time. After a restart guests
are told again.

A webhook is called from the gateway's own network. So only addresses below those that the operator's configuration
names are called, without following redirects, and nothing of the answer is kept.
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import cast
from urllib.parse import urlsplit

import httpx2
import structlog

from leasehold.model.errors import InvalidField
from leasehold.protocol.fields import show_moment
from leasehold.service.drivers.protocol import Driver, GivesNotice, Order
from leasehold.service.engine_thread import Clock
from leasehold.service.store.rows import OrderRow

_ANSWER_WITHIN_S = 5.0
_PAUSE_S = 2.0
_MOST_AT_ONCE = 32
_DEFAULT_PORTS = {"http": 80, "https": 443}

_log = structlog.get_logger("leasehold.notices")


def is_webhook(notify: str) -> bool:
    """Whether guests are told by a call of this address."""
    return "://" in notify


def is_below(address: str, allowed: str) -> bool:
    """Whether an address is at the same server as another one, and its path is that one's or below it."""
    try:
        one, other = urlsplit(address), urlsplit(allowed)
        ports = one.port or _DEFAULT_PORTS.get(one.scheme), other.port or _DEFAULT_PORTS.get(other.scheme)
    except ValueError:
        return False
    if (one.scheme, one.hostname, ports[0]) != (other.scheme, other.hostname, ports[1]) or "@" in one.netloc:
        return False
    parts = one.path.split("/")
    is_plain = not {".", ".."} & set(parts) and not {"%", "\\"} & set(one.path)
    folder = other.path.rstrip("/")
    return is_plain and (one.path == other.path or one.path.startswith(f"{folder}/"))


class NoticeSender:
    """Tells guests; ``webhooks`` are the addresses below which one may be called."""

    def __init__(self, drivers: Mapping[str, Driver], webhooks: Iterable[str], clock: Clock) -> None:
        self._drivers = drivers
        self._webhooks = tuple(webhooks)
        self._clock = clock
        self._at_work: set[asyncio.Task[None]] = set()
        self._places = asyncio.Semaphore(_MOST_AT_ONCE)

    def check(self, notify: str) -> None:
        """Refuse a webhook that the configuration does not allow; raises InvalidField."""
        if not is_webhook(notify) or any(is_below(notify, one) for one in self._webhooks):
            return
        allowed = ", ".join(self._webhooks)
        expected = f"an address below {allowed}" if allowed else "a signal or 'file': webhooks are not allowed here"
        raise InvalidField("notify", notify, expected)

    def send(self, rows: Iterable[OrderRow]) -> None:
        """Tell the guests of those orders that are held back for their sake."""
        now_ms = self._clock()
        for row in rows:
            if row.order.notice_ms and row.attempts == 0 and row.next_try_ms > now_ms:
                task = asyncio.create_task(self._tell(row.site, row.order, row.next_try_ms))
                self._at_work.add(task)
                task.add_done_callback(self._at_work.discard)

    async def close(self) -> None:
        """Leave it at what has been told."""
        for task in self._at_work:
            task.cancel()
        await asyncio.gather(*self._at_work, return_exceptions=True)

    async def _tell(self, site: str, order: Order, until_ms: int) -> None:
        """Tell one guest; where that fails it is tried again until its time is over."""
        while True:
            try:
                async with self._places, asyncio.timeout(_ANSWER_WITHIN_S):
                    await self._tell_once(site, order, until_ms)
            except Exception as error:  # noqa: BLE001 - machines and servers may fail in any way
                cause = f"{type(error).__name__}: {error}"
            else:
                return
            if self._clock() + _PAUSE_S * 1000 >= until_ms:
                _log.warning(
                    "a guest could not be told of its preemption", lease=order.lease_id, site=site, cause=cause
                )
                return
            await asyncio.sleep(_PAUSE_S)

    async def _tell_once(self, site: str, order: Order, until_ms: int) -> None:
        driver = self._drivers.get(site)
        if not is_webhook(order.notify):
            if driver is not None and driver.capabilities.notice:
                await cast("GivesNotice", driver).notify(order, until_ms)
            return
        self.check(order.notify)  # the configuration of this gateway counts, also where another took the lease in
        body = {"lease": order.lease_id, "site": site, "event": "preemption", "at": show_moment(until_ms)}
        async with httpx2.AsyncClient(follow_redirects=False, trust_env=False) as client:
            answer = await client.post(order.notify, json=body)
        if not answer.is_success:
            raise ConnectionError(f"{order.notify} answered {answer.status_code}")
