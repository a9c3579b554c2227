"""The driver is killed in the middle of saving, restoring and moving machines: no guest notices.

The guest counts aloud. Whatever happens, in the end each number stands on its console exactly once: no memory
was lost, none was brought back twice, and nothing ran in two places.

``LEASEHOLD_SEEDS=2,3,4`` draws other moments.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random

import pytest
from tests.service.drivers.qemu.killed import KillableSite, killed_after
from tests.service.drivers.qemu.machines import counts_in, files, processes
from tests.waiting import PATIENCE_S

from leasehold.service.drivers.output import console_text
from leasehold.service.drivers.protocol import Order, Phase, Verb
from leasehold.service.drivers.qemu.instances import OtherSite
from leasehold.service.drivers.reconciler.desired import Desired
from leasehold.testing.driver_rig import order

pytestmark = pytest.mark.machines

TIMES = 20
COUNT = ("sh", "-c", "n=0; while :; do n=$((n + 1)); echo COUNT $n; sleep 0.05; done")


class World:
    """Two sites, and a guest that counts at one of them."""

    def __init__(self, folder: Path, image: Path, seed: int) -> None:
        self.folder = folder
        self.chance = Random(seed)
        self.sites = [KillableSite(folder, name, image) for name in ("a", "b")]
        self.incarnation = 1
        self.at = 0

    @property
    def here(self) -> KillableSite:
        return self.sites[self.at]

    @property
    def there(self) -> KillableSite:
        return self.sites[1 - self.at]

    def order(self, verb: Verb, incarnation: int, other_site: str = "") -> Order:
        return order(verb, 1, incarnation, command=COUNT, other_site=other_site)

    def is_in(self, phase: Phase) -> bool:
        """Whether the store has the lease in a phase."""
        return any(one.phase is phase for one in OtherSite(self.here.folder).instances() if not one.is_leaving)

    def is_on_its_way(self) -> bool:
        """Whether the site that it leaves has not handed it over yet, as its store has it."""
        return any(
            one.desired is Desired.AWAY and not one.is_handed_over for one in OtherSite(self.here.folder).instances()
        )

    def counts(self) -> list[int]:
        """What the guest has said, as it can be read where it is now."""
        return counts_in(console_text(self.here.folder, 1))

    def start(self) -> None:
        self.here.tell(self.order(Verb.START, 1))
        self.here.until_is(Phase.RUNNING, 1)
        self.counts_on()

    def counts_on(self) -> None:
        """See that it says something new, and has left nothing out and said nothing twice."""
        before = len(self.counts())
        self.wait(lambda: len(self.counts()) > before + 1)
        counts = self.counts()
        assert counts == list(range(1, len(counts) + 1))

    def wait(self, is_so: Callable[[], bool]) -> None:
        give_up_s = time.monotonic() + PATIENCE_S
        while not is_so():
            assert time.monotonic() < give_up_s
            time.sleep(0.02)

    def has_only(self, machines: int, *kinds: str) -> None:
        """See that so many machines run, and that there are only files of the lease, of these kinds."""
        assert len(processes(self.folder)) == machines
        left = {Path(name) for name in files(self.folder)}
        assert {name.parts[1] for name in left} <= {self.here.folder.name}
        assert {name.suffix for name in left if name.suffix not in {".lock", ".pid", ".log"}} == set(kinds)

    def stop(self) -> None:
        for site in self.sites:
            site.tell(self.order(Verb.STOP, self.incarnation))
            site.until(lambda seen: seen is None)
        self.wait(lambda: not files(self.folder))
        assert processes(self.folder) == []
        for site in self.sites:
            site.kill()


@pytest.fixture(params=os.environ.get("LEASEHOLD_SEEDS", "1").split(","))
def world(request: pytest.FixtureRequest, place: Path, image: Path) -> Iterator[World]:
    made = World(place, image, int(request.param))
    with ExitStack() as closing:
        for site in made.sites:
            closing.callback(site.kill)
        made.start()
        yield made
        made.stop()


def test_killed_while_saving_and_restoring(world: World) -> None:
    at_it = 0
    for _ in range(TIMES):
        save, restore = (
            world.order(Verb.SUSPEND, world.incarnation),
            world.order(Verb.RESUME, world.incarnation + 1),
        )
        world.here.start_telling(save)
        at_it += killed_after(world.chance, 0.3, [world.here], lambda: world.is_in(Phase.SAVING))
        world.here.tell(save)
        world.here.until_is(Phase.SAVED, world.incarnation)
        world.wait(lambda: not processes(world.folder))
        world.has_only(0, ".qcow2", ".state", ".qmp", ".agent")

        world.incarnation += 1
        world.here.start_telling(restore)
        at_it += killed_after(world.chance, 0.4, [world.here], lambda: world.is_in(Phase.RESUMING))
        world.here.tell(restore)
        world.here.until_is(Phase.RUNNING, world.incarnation)
        world.has_only(1, ".qcow2", ".qmp", ".agent")
        world.counts_on()
    assert at_it >= TIMES // 2, "many of the kills should have met it at work"


def test_killed_while_moving(world: World) -> None:
    at_it = 0
    for _ in range(TIMES):
        send = world.order(Verb.SEND, world.incarnation, world.there.folder.name)
        receive = world.order(Verb.RECEIVE, world.incarnation + 1, world.here.folder.name)
        world.here.tell(send)
        world.there.start_telling(receive)
        unlucky = world.chance.choice([[world.here], [world.there], world.sites])
        at_it += killed_after(world.chance, 0.5, unlucky, world.is_on_its_way)
        world.here.tell(send)
        world.there.tell(receive)

        world.incarnation += 1
        world.at = 1 - world.at
        world.here.until_is(Phase.RUNNING, world.incarnation)
        world.there.until(lambda seen: seen is None)
        world.wait(lambda: not any((world.there.folder / "leases").iterdir()))
        world.has_only(1, ".qcow2", ".qmp", ".agent", *(() if not _incoming(world) else (".incoming",)))
        world.counts_on()
    assert at_it >= TIMES // 4, "too few kills have met it at work"


def _incoming(world: World) -> bool:
    return any(name.endswith(".incoming") for name in files(world.folder))
