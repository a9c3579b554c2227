"""Questions to managers and peers: each answer goes to who asked, and counts only from who was asked."""

import asyncio

import pytest

from leasehold.model.lease import LeaseState
from leasehold.model.reason import Reason
from leasehold.model.request import LeaseType, Request
from leasehold.service.commands import AskForFiles, AskForOutput, AskForPlan, Command
from leasehold.service.drivers.facts import Output
from leasehold.service.engine.tasks import FilesHeard, OutputHeard, PlanHeard
from leasehold.service.errors import Unavailable
from leasehold.service.messages.about_plans import Planned
from leasehold.service.remote_queries import RemoteQueries
from leasehold.service.store.rows import LeaseMetadata, OutputFile

REQUEST = Request(1, LeaseType.SUSPENDABLE, 2, 60_000, 0, 0, consumer="alice")


class Asked:
    """Notes what is asked."""

    def __init__(self) -> None:
        self._commands: asyncio.Queue[Command] = asyncio.Queue()
        self.queries = RemoteQueries(self.do, lambda: 7)

    async def do(self, command: Command) -> None:
        self._commands.put_nowait(command)

    async def next(self) -> Command:
        return await self._commands.get()


def planned(number: int, preempted: int) -> Planned:
    return Planned(number=number, state=LeaseState.WAITING, reason=Reason.ROUTED, preempted_leases=preempted)


def test_only_who_was_asked_can_say_what_would_become_of_a_request() -> None:
    async def play() -> int:
        asked = Asked()
        answer = asyncio.create_task(asked.queries.plan("far", REQUEST, LeaseMetadata(), 600_000))
        command = await asked.next()
        assert isinstance(command, AskForPlan)
        asked.queries.take([PlanHeard("north", command.number, planned(command.number, 9))])
        asked.queries.take([PlanHeard("far", command.number + 1, planned(command.number + 1, 8))])
        asked.queries.take([PlanHeard("far", command.number, planned(command.number, 1))])
        return (await answer).preempted_leases

    assert asyncio.run(play()) == 1


def test_a_site_that_can_say_nothing_says_why() -> None:
    async def play() -> None:
        asked = Asked()
        answer = asyncio.create_task(asked.queries.plan("far", REQUEST, LeaseMetadata(), 600_000))
        command = await asked.next()
        assert isinstance(command, AskForPlan)
        asked.queries.take([PlanHeard("far", command.number, planned(command.number, 0), "vms: got 0")])
        with pytest.raises(Unavailable, match="vms: got 0"):
            await answer

    asyncio.run(play())


def test_what_a_command_wrote_and_what_it_left_are_two_questions() -> None:
    async def play() -> tuple[Output, tuple[OutputFile, ...]]:
        asked = Asked()
        output, files = (
            asyncio.create_task(asked.queries.output(3)),
            asyncio.create_task(asked.queries.files(3)),
        )
        assert {type(await asked.next()), type(await asked.next())} == {AskForOutput, AskForFiles}
        asked.queries.take([FilesHeard(3, (OutputFile("out.dat", "ab" * 32, 5),)), OutputHeard(4, Output("other"))])
        asked.queries.take([OutputHeard(3, Output("42"))])
        return await output, await files

    output, [file] = asyncio.run(play())
    assert (output.text, file.name) == ("42", "out.dat")


def test_that_something_arrives_is_known_until_all_has() -> None:
    queries = Asked().queries
    assert queries.arrived_ms(3) == -1
    queries.arriving(3)
    assert queries.arrived_ms(3) == 7
    queries.done(3)
    assert queries.arrived_ms(3) == -1
