"""Files that commands have left at sites with managers of their own, and at peers: what these say is not believed."""

import asyncio
import hashlib
from collections.abc import Iterable
from pathlib import Path

from leasehold.service.commands import AskForFiles, AskForOutput, Command, GuestFiles, JobOutput
from leasehold.service.config import JobsSpec
from leasehold.service.discovery import JobFilePaths, SiteDiscovery
from leasehold.service.drivers.facts import Output
from leasehold.service.drivers.staging import JobFiles
from leasehold.service.engine.tasks import Fetch, FilesHeard, OutputHeard, Send
from leasehold.service.errors import NoSuchSite
from leasehold.service.files import FileStore
from leasehold.service.remote_queries import RemoteQueries
from leasehold.service.store.rows import OutputFile

CONTENT = b"Vega 0.03\n"
SHA256 = hashlib.sha256(CONTENT).hexdigest()
SENT = OutputFile("copy.txt", SHA256, len(CONTENT))


class Far:
    """A peer that answers what it is made to say; ``is_gone``: it is none any more."""

    def __init__(self, said: Iterable[OutputFile], *, is_gone: bool = False) -> None:
        self.reported: list[Command] = []
        self.queries = RemoteQueries(self.do, lambda: 0)
        self._said = tuple(said)
        self._is_gone = is_gone

    async def do(self, command: Command) -> None:
        match command:
            case AskForOutput() | AskForFiles() if self._is_gone:
                raise NoSuchSite("far", ())
            case AskForOutput(lease_id):
                self.queries.take([OutputHeard(lease_id, Output("42"))])
            case AskForFiles(lease_id):
                self.queries.take([FilesHeard(lease_id, self._said)])
            case _:
                self.reported.append(command)

    def discovery(self, store: FileStore | None = None) -> SiteDiscovery:
        async def unsent(_files: JobFiles, _name: str, _path: Path) -> OutputFile:
            raise AssertionError("nothing is here to be sent")

        files = None if store is None else JobFilePaths(store, unsent)
        return SiteDiscovery("far", self.queries, self.do, lambda: 0, JobsSpec(), files)


def fetched(far: Far, store: FileStore) -> OutputFile:
    """What is stored with the result of a job that leaves one file."""
    asyncio.run(far.discovery(store).fetch(Fetch(7, "far", "alice", ("copy.txt",))))
    [told] = far.reported
    assert isinstance(told, JobOutput)
    assert told.output.text == "42"
    [file] = told.files
    return file


def test_a_file_that_has_arrived_is_the_jobs(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    store.announce("alice", SHA256, "copy.txt", len(CONTENT), 0)
    store.write("alice", SHA256, 0, CONTENT)
    assert fetched(Far([SENT]), store) == SENT


def test_one_that_is_said_to_be_sent_and_has_not_arrived_is_not(tmp_path: Path) -> None:
    file = fetched(Far([SENT]), FileStore(tmp_path))
    assert file == OutputFile("copy.txt", problem="site far says that it was sent, and it has not arrived")


def test_nor_is_a_file_of_somebody_else(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    store.announce("bob", SHA256, "copy.txt", len(CONTENT), 0)
    store.write("bob", SHA256, 0, CONTENT)
    assert fetched(Far([SENT]), store).sha256 == ""


def test_nor_is_one_of_which_only_a_part_has_arrived(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    store.announce("alice", SHA256, "copy.txt", len(CONTENT), 0)
    store.write("alice", SHA256, 0, CONTENT[:4])
    assert fetched(Far([SENT]), store).problem.endswith("has not arrived")


def test_one_of_which_nothing_is_said_is_not_there(tmp_path: Path) -> None:
    assert fetched(Far([]), FileStore(tmp_path)).problem == "site far says nothing of it"


def test_a_gateway_in_between_says_what_was_sent_through_it() -> None:
    far = Far([SENT])
    asyncio.run(far.discovery().send(Send(7, "far", JobFiles(outputs=("copy.txt",), origin="peer/west", origin_id=3))))
    assert far.reported == [GuestFiles(7, (SENT,))]


def test_or_that_nobody_can_say_it_any_more() -> None:
    far = Far([SENT], is_gone=True)
    asyncio.run(far.discovery().send(Send(7, "far", JobFiles(outputs=("copy.txt",), origin="peer/west", origin_id=3))))
    assert far.reported == [GuestFiles(7, (), "no site named 'far', there is none")]
