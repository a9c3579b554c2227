"""A long busy day of three peers: what needs many steps to go wrong has the time to."""

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from tests.service.messages.line import rows_of
from tests.service.peers.triangle import NAMES, SLOTS, WAYS, World

from leasehold.gateway.peering import AskWhen
from leasehold.model.request import LeaseType

STEPS = 250


class Day:
    """What may happen; who does what is drawn."""

    def __init__(self, world: World, draw: Random) -> None:
        self.world = world
        self._draw = draw
        self._asked: list[tuple[str, int]] = []

    def submit(self) -> None:
        name = self._draw.choice(NAMES)
        kind = self._draw.choice(list(LeaseType))
        row = self.world.submit(name, self._draw.randint(1, 4), self._draw.randint(1, 16) * 250, kind)
        self._asked.append((name, row.lease.id))

    def own(self) -> None:
        name = self._draw.choice(NAMES)
        self.world.submit_at(name, SLOTS[name], self._draw.randint(1, 8) * 250)

    def exchange(self) -> None:
        self.world.exchange(*self._draw.choice(WAYS))

    def call(self) -> None:
        self.world.call(*self._draw.choice(WAYS))

    def arrive(self) -> None:
        if self.world.on_the_line:
            index = self._draw.randrange(len(self.world.on_the_line))
            self.world.deliver(index, again=self._draw.random() < 0.3)

    def wait(self) -> None:
        self.world.pass_time(self._draw.choice([1, 250, 500]))

    def cancel(self) -> None:
        if self._asked:
            self.world.cancel(*self._draw.choice(self._asked))

    def drain(self) -> None:
        self.world.drain_or_resume(self._draw.choice(NAMES))

    def die(self) -> None:
        live = self.world.gateways[self._draw.choice(NAMES)]
        live.restart()
        live.look()


STEP: dict[Callable[[Day], None], int] = {
    Day.submit: 8, Day.exchange: 8, Day.call: 2, Day.arrive: 3, Day.wait: 5,
    Day.own: 2, Day.cancel: 1, Day.drain: 1, Day.die: 1,
}  # fmt: skip


@pytest.mark.soak
@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_at_its_end_all_agree_and_much_has_been_exchanged(seed: int, tmp_path: Path) -> None:
    draw = Random(seed)
    world = World(tmp_path, "most-free", draw.choice([AskWhen.NONE_CAN, AskWhen.NONE_CAN_NOW]))
    world.exchange_all()
    day = Day(world, draw)
    try:
        for step in draw.choices(list(STEP), list(STEP.values()), k=STEPS):
            step(day)
            world.check()
        world.make_whole()
        world.check()
        world.check_that_all_agree()
        world.check_that_nothing_ran_twice()
        guests = [row for live in world.gateways.values() for row in rows_of(live) if row.metadata.origin]
        assert len([row for row in guests if row.lease.state == "completed"]) > 5
    finally:
        world.close()
