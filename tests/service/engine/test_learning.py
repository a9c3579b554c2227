"""What policies learn is kept now and then: a restart costs little of it, and never a promise."""

import asyncio
import json
from typing import Any

from tests.service.engine.examples import S, guest, lease

from leasehold.service.engine.context import SNAPSHOT_LINES, SNAPSHOT_MS
from leasehold.service.engine_thread import EngineThread
from leasehold.testing.live import Live


def kept(live: Live) -> Any:
    """What the store has of what was learnt."""
    return json.loads(live.store.snapshots().get("gateway", "null"))


def known(live: Live) -> Any:
    """What the gateway knows, as it would be kept."""
    return json.loads(json.dumps(live.gateway.knowledge.snapshot()))


def ask_every_second(live: Live, count: int) -> list[Any]:
    """Let so many guests come, a second apart; what was kept after each."""
    told = []
    for _ in range(count):
        live.now_ms += 1 * S
        live.do(guest(1, 5))
        told.append(kept(live))
    return told


def test_it_is_not_written_in_every_step(live: Live) -> None:
    told = ask_every_second(live, 60)
    changes = sum(before != after for before, after in zip([None, *told], told, strict=False))
    assert 60 * S // SNAPSHOT_MS - 1 <= changes <= 60 * S // SNAPSHOT_MS + 1


def test_after_many_lines_it_is_written_at_once(live: Live) -> None:
    live.do(*(guest(1, 60) for _ in range(SNAPSHOT_LINES)))
    assert kept(live) == known(live)


def test_after_a_clean_stop_everything_is_known(live: Live) -> None:
    ask_every_second(live, 5)
    before = known(live)
    assert kept(live) != before

    async def stop() -> None:
        engine_thread = EngineThread(live.engine, lambda: live.now_ms, lambda _: None)
        engine_thread.stop()
        await engine_thread.run()

    asyncio.run(stop())
    assert kept(live) == before
    live.restart()
    assert known(live) == before


def test_a_stop_at_which_nothing_is_new_writes_nothing(live: Live) -> None:
    ask_every_second(live, 5)
    live.engine.finish()
    before = live.store.snapshots()
    live.engine.finish()
    assert live.store.snapshots() == before


def test_who_is_killed_forgets_the_last_of_it_and_no_promise(live: Live) -> None:
    told = ask_every_second(live, 25)
    promised = [lease(live, number) for number in range(1, 26)]
    last = told[-1]
    assert known(live) != last
    live.restart()
    assert known(live)["sent"] == last["sent"]
    assert [lease(live, number) for number in range(1, 26)] == promised
    live.engine.check()
    live.pass_time(600 * S)
    assert {lease(live, number).lease.state for number in range(1, 26)} == {"completed"}
