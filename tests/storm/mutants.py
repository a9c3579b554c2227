"""Products that are broken on purpose: whoever lets one of these pass is no net.

Each breaks one promise in the simplest way, by patching the shipped code for the time of one storm.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from tests.storm.world import World

from leasehold.service.store.filters import EVERYTHING
from leasehold.service.store.rows import ENDPOINTS

Mutant = Callable[[World], Any]


@contextmanager
def doubled_start(world: World) -> Iterator[None]:
    """What one site is told to start is started at another one, too."""
    world.sites["north"].twin = world.sites["south"]
    yield


@contextmanager
def lost_commit(world: World) -> Iterator[None]:
    """The store says that it has written what it undid, once in fifty times."""
    world.lies_about_commits = 0.02
    yield


@contextmanager
def no_idempotency(world: World) -> Iterator[None]:
    """No gateway takes notice of an Idempotency-Key."""
    world.network.strips = frozenset({"idempotency-key"})
    yield


@contextmanager
def doubled_messages(_world: World) -> Iterator[None]:
    """Messages between processes are taken in again each time that they come."""
    from leasehold.service.engine.message_log import MessageLog  # noqa: PLC0415 - what is broken

    def take_in(self: Any, endpoint: str, messages: Any, read: Callable[[Any], Any]) -> list[Any]:
        state, messages = self._of(endpoint), list(messages)
        if messages:
            state.last_received_seq = max(state.last_received_seq, messages[-1][0])
            self._unit.put(ENDPOINTS, state)
        return [read(json.loads(text)) for _, text in messages]

    with patch.object(MessageLog, "take_in", take_in):
        yield


@contextmanager
def blind_door(_world: World) -> Iterator[None]:
    """Lists of leases show everybody everything."""
    with patch("leasehold.service.api.routers.leases.visible", lambda _principal, _permission: EVERYTHING):
        yield


MUTANTS: dict[str, Mutant] = {
    "blind-door": blind_door,
    "doubled-messages": doubled_messages,
    "doubled-start": doubled_start,
    "lost-commit": lost_commit,
    "no-idempotency": no_idempotency,
}
