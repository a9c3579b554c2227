"""What a site of virtual machines has, and who looks after it: a task for each lease, a ledger for all."""

import asyncio
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path

import structlog

from leasehold.model.errors import InputError
from leasehold.service.drivers.protocol import Observation
from leasehold.service.drivers.qemu.images.image import Image, open_image
from leasehold.service.drivers.qemu.keeper import keep
from leasehold.service.drivers.qemu.lease import Lease
from leasehold.service.drivers.qemu.ledger import NEVER, REMEMBERED, Ledger, Neighbour
from leasehold.service.drivers.qemu.limits import CgroupLimits
from leasehold.service.drivers.qemu.machine import shielded, uninterrupted
from leasehold.service.drivers.qemu.options import QemuOptions
from leasehold.service.drivers.qemu.output import bound_consoles, bound_outputs
from leasehold.service.drivers.qemu.process import MachineFailed, QemuProcess
from leasehold.service.drivers.qemu.record import AWAY, Changes, Record
from leasehold.service.drivers.qemu.tasks import cancelled
from leasehold.service.drivers.qemu.warm import sweep_warm
from leasehold.service.drivers.setup import DriverSetup

_KEEP_HOUSE_EVERY_S = 10.0


class Site:
    """The leases of one site. Whatever changes is on the disk before anybody sees it.

    ``stirred`` is set when there is something new to see.
    """

    def __init__(self, setup: DriverSetup, options: QemuOptions) -> None:
        self.name = setup.site
        self.folder = setup.folder.absolute()
        self.options = options
        self.now_ms = setup.clock
        self.stirred = asyncio.Event()
        self._ledger = Ledger(self.folder)
        self.limits = CgroupLimits(self.folder, wanted=options.limits)
        self._here = {lease_id: Lease(record, self) for lease_id, record in self._ledger.records().items()}
        self._away = {_key(note): Lease(note, self) for note in self._ledger.notes()}
        self._gone = self._ledger.gone()
        self._news = {lease_id: lease.record.observed() for lease_id, lease in self._here.items()}
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"qemu-{setup.site}")
        self._keepers: dict[Lease, asyncio.Task[None]] = {}
        self._has_begun = False
        self._housekeeper: asyncio.Task[None] | None = None

    # what there is

    def here(self, lease_id: int) -> Lease | None:
        """Find what a lease has here."""
        return self._here.get(lease_id)

    def is_here(self, lease_id: int) -> bool:
        """Whether a lease is here, other than as a note."""
        return lease_id in self._here

    def living(self) -> set[int]:
        """Give the leases of which anything is here."""
        return {*self._here, *(lease_id for lease_id, _ in self._away)}

    def last_gone(self, lease_id: int) -> int:
        """Give the last incarnation of a lease that was stopped or sent away; -1 if none was."""
        return self._gone.get(lease_id, NEVER)

    def used_vms(self) -> int:
        """Count the slots in use."""
        return sum(lease.record.room_vms for lease in self._here.values())

    def observe(self) -> list[Observation]:
        """See everything that is here, by lease."""
        return [self._here[lease_id].record.observed() for lease_id in sorted(self._here)]

    def take_news(self) -> list[Observation]:
        """Take what has changed since the last time that this was asked."""
        news, self._news = self._news, {}
        return list(news.values())

    def image(self, folder: str) -> Image:
        """Give an image; raises MachineFailed where it is not there any more."""
        try:
            return _image(folder)
        except InputError as error:
            raise MachineFailed(str(error)) from None

    def neighbour(self, site: str) -> Neighbour:
        """Look at what another site of the same gateway knows."""
        return Neighbour(self.folder.parent / site)

    # how it changes

    async def write(self, lease: Lease, record: Record, changes: Changes) -> None:
        """Write down what has changed of a lease, and then let it be so."""
        await shielded(asyncio.ensure_future(self._write(lease, record, changes)))

    async def _write(self, lease: Lease, record: Record, changes: Changes) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, self._ledger.write, changes)
        lease.record = record
        for lease_id, one in changes.records.items():
            self._now_is(lease, lease_id, one)
        for key, note in changes.notes.items():
            if note is None:
                self._away.pop(key, None)
            else:
                self._away[key] = lease
        for lease_id, incarnation in changes.gone.items():
            self.forget(lease_id, incarnation)
        self.stirred.set()

    async def write_gone(self, lease_id: int, incarnation: int) -> None:
        """Write down that this incarnation of a lease, of which nothing is here, is not wanted again."""
        changes = Changes(gone={lease_id: incarnation})
        await asyncio.get_running_loop().run_in_executor(self._thread, self._ledger.write, changes)
        self.forget(lease_id, incarnation)

    def _now_is(self, lease: Lease, lease_id: int, record: Record | None) -> None:
        if record is None:
            self._here.pop(lease_id, None)
            self._news.pop(lease_id, None)
        else:
            self._here[lease_id] = lease
            self._news[lease_id] = record.observed()

    def forget(self, lease_id: int, incarnation: int) -> None:
        """Remember that this incarnation of a lease, and all before, are not wanted again."""
        self._gone[lease_id] = max(incarnation, self._gone.pop(lease_id, NEVER))
        if len(self._gone) > REMEMBERED:
            del self._gone[next(iter(self._gone))]

    # who looks after it

    async def begin(self) -> None:
        """Go on with everything, the first time that this is asked."""
        if not self._has_begun:
            self._has_begun = True
            await uninterrupted(self._sweep)
            self._housekeeper = asyncio.create_task(self._keep_house())
            for lease in [*self._here.values(), *self._away.values()]:
                self.look_after(lease)

    def look_after(self, lease: Lease) -> None:
        """Let somebody do whatever is to be done with a lease."""
        self._keepers[lease] = task = asyncio.create_task(keep(lease), name=lease.record.name)
        task.add_done_callback(lambda done: self._is_kept(lease, done))

    def _is_kept(self, lease: Lease, task: asyncio.Task[None]) -> None:
        if self._keepers.get(lease) is task:
            del self._keepers[lease]

    async def halt(self, lease: Lease) -> None:
        """Let nobody do anything with a lease for now."""
        task = self._keepers.pop(lease, None)
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _keep_house(self) -> None:
        """Look now and then that no guest fills the disk."""
        while True:
            await asyncio.sleep(_KEEP_HOUSE_EVERY_S)
            with suppress(OSError):  # what is gone meanwhile needs no bounds
                await uninterrupted(bound_consoles, self.folder, self.options.console_bytes)
                await uninterrupted(bound_outputs, self.folder, self.options.output_bytes)

    async def close(self) -> None:
        """Let go of everything, as it is."""
        if self._housekeeper is not None:
            await cancelled([self._housekeeper])
        for lease in list(self._keepers):
            await self.halt(lease)
        await asyncio.get_running_loop().run_in_executor(self._thread, self._ledger.close)
        self._thread.shutdown()

    def _sweep(self) -> None:
        """Remove what belongs to no lease; only somebody else than we can have left such a thing."""
        sweep_warm(self.folder.parent.with_name("images"))
        if self.options.image is not None:
            sweep_warm(self.options.image.resolve().parent)
        known = {lease.record.folder for lease in (*self._here.values(), *self._away.values())}
        for folder in (self.folder / "leases").glob("*"):
            if folder.name not in known:
                log = structlog.get_logger("leasehold.drivers.qemu")
                log.warning("removes machines of no lease", site=self.name, folder=str(folder))
                for lock in folder.glob("*.lock"):
                    QemuProcess(lock).kill()
                shutil.rmtree(folder, ignore_errors=True)
        self.limits.sweep(known)


def _key(note: Record) -> tuple[int, int]:
    assert note.handover in AWAY
    return note.lease_id, note.incarnation


@cache
def _image(folder: str) -> Image:
    return open_image(Path(folder))
