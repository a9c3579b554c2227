"""What engines want done beside them for jobs, done at once: looks, outputs that are read, and what others answer."""

from collections.abc import Callable

from leasehold.gateway.planning import Prospect
from leasehold.service.commands import (
    AskForFiles,
    AskForOutput,
    AskForPlan,
    GuestFiles,
    GuestOutput,
    GuestPlan,
    JobOutput,
)
from leasehold.service.drivers.facts import Output
from leasehold.service.engine.tasks import (
    BackgroundTasks,
    Fetch,
    FilesHeard,
    Heard,
    OutputHeard,
    PlanFor,
    PlanHeard,
    Send,
)
from leasehold.service.messages.about_plans import Planned
from leasehold.service.store.rows import OutputFile
from leasehold.testing.live import Live


class Errands:
    """Runs them for one engine, which has one site of its own.

    ``written`` gives what a command has written at that site, ``look`` looks at it
    """

    def __init__(self, live: Live, site: str, written: Callable[[int], Output], look: Callable[[], None]) -> None:
        self._live = live
        self._site = site
        self._written = written
        self._look = look
        self._fetches: dict[int, Fetch] = {}
        self._reads: set[int] = set()
        self._sends: set[int] = set()
        self._heard: dict[int, OutputHeard] = {}
        self.asked: list[PlanFor] = []
        self.planned: dict[int, Planned] = {}
        self._plans: dict[int, tuple[PlanFor, Prospect]] = {}

    def forget(self) -> None:
        """Whoever runs them is killed."""
        self._fetches.clear()
        self._reads.clear()
        self._sends.clear()
        self._heard.clear()
        self._plans.clear()

    def run(self) -> bool:
        """Do what is wanted now; whether there was anything."""
        live = self._live
        tasks, live.tasks = live.tasks, BackgroundTasks()
        for fetch in tasks.fetches:
            if fetch.site == self._site:
                live.do(JobOutput(fetch.lease_id, self._written(fetch.lease_id)))
            else:
                self._fetches[fetch.lease_id] = fetch
                live.do(AskForOutput(fetch.lease_id))
        for read in tasks.reads:
            if read.site == self._site:
                live.do(GuestOutput(read.lease_id, self._written(read.lease_id)))
            else:
                self._reads.add(read.lease_id)
                live.do(AskForOutput(read.lease_id))
        for send in tasks.sends:
            self._send(send)
        for asked in tasks.plans:
            self._plan(asked)
        for heard in tasks.heard:
            self._hear(heard)
        if tasks.looks:
            self._look()
        return bool(tasks)

    def _send(self, send: Send) -> None:
        """Say what was sent of what a command has left, or ask where its lease has gone on to."""
        if send.site == self._site:
            self._live.do(GuestFiles(send.lease_id, tuple(map(left_as, send.files.outputs))))
        else:
            self._sends.add(send.lease_id)
            self._live.do(AskForFiles(send.lease_id))

    def _plan(self, asked: PlanFor) -> None:
        """Say what would become of a request; or ask whoever would decide instead, under the same number."""
        self.asked.append(asked)
        prospect = self._live.engine.plan(asked.submit).prospect
        there = prospect.elsewhere
        if there is None:
            self._live.do(GuestPlan(asked.number, asked.gateway, prospect))
            return
        self._plans[asked.number] = asked, prospect
        metadata, within_ms = asked.submit.metadata, asked.within_ms * 3 // 4
        self._live.do(AskForPlan(asked.number, there.name, prospect.request, metadata, within_ms))

    def _hear_plan(self, heard: PlanHeard) -> None:
        if heard.number not in self._plans:
            self.planned[heard.number] = heard.planned
            return
        asked, prospect = self._plans.pop(heard.number)
        self._live.do(GuestPlan(asked.number, asked.gateway, prospect, heard.planned))

    def leave_plans(self) -> None:
        """Nothing more is heard in time from beyond."""
        for asked, prospect in self._plans.values():
            self._live.do(GuestPlan(asked.number, asked.gateway, prospect))
        self._plans.clear()

    def _hear(self, heard: Heard) -> None:
        """What a command wrote comes first, and then what it left, where that is wanted."""
        if isinstance(heard, PlanHeard):
            self._hear_plan(heard)
            return
        fetch, lease_id = self._fetches.get(heard.lease_id), heard.lease_id
        if isinstance(heard, OutputHeard) and lease_id in self._reads:
            self._reads.discard(lease_id)
            self._live.do(GuestOutput(lease_id, heard.output, heard.problem))
        if isinstance(heard, FilesHeard) and lease_id in self._sends:
            self._sends.discard(lease_id)
            self._live.do(GuestFiles(lease_id, heard.files, heard.problem))
        if fetch is None:
            return
        if isinstance(heard, OutputHeard):
            self._heard[lease_id] = heard
            if fetch.outputs:
                self._live.do(AskForFiles(lease_id))
                return
        elif lease_id not in self._heard:
            return
        wrote = self._heard.pop(lease_id)
        del self._fetches[lease_id]
        files = heard.files if isinstance(heard, FilesHeard) else ()
        self._live.do(JobOutput(lease_id, wrote.output, wrote.problem, files))

    def ask_again(self) -> None:
        """What was asked for and did not come is asked for again, as after a while."""
        for lease_id in self._fetches:
            self._live.do(AskForFiles(lease_id) if lease_id in self._heard else AskForOutput(lease_id))


def left_as(name: str) -> OutputFile:
    """What was sent of an output."""
    return OutputFile(name, "cd" * 32, 7)
