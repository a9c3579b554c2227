"""The libvirt driver: the machines of a site are domains with names of their own."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from os import SEEK_END
from pathlib import Path
from threading import Lock
from typing import Any
from xml.etree import ElementTree as ET

import libvirt

from leasehold.service.drivers.facts import MOST_OUTPUT, Access, ImageFacts, NodeFacts, Output
from leasehold.service.drivers.guest_agent import Refused
from leasehold.service.drivers.guest_files import PART, fetch_outputs
from leasehold.service.drivers.libvirt.domain import (
    Name,
    console_path,
    describe,
    disk_paths,
    is_interpreted,
    names_of,
    read_name,
)
from leasehold.service.drivers.libvirt.guest import (
    ANSWERS_WITHIN_S,
    WORKS_WITHIN_S,
    WROTE,
    WROTE_TO_ERROR,
    LibvirtAgent,
    TimeSlice,
    bring_before_command,
    is_on_its_way,
    look_at,
    start_command,
)
from leasehold.service.drivers.libvirt.login import let_in, port_into
from leasehold.service.drivers.libvirt.node import describe_images, describe_node, does_not_fit, without_room
from leasehold.service.drivers.libvirt.options import LibvirtOptions, read_options
from leasehold.service.drivers.output import (
    CUT,
    ERROR,
    OUTPUT,
    has_left_files,
    joined,
    keep_latest,
    left_file,
    left_files,
    output_file,
    output_folder,
    output_of,
    write_left_files,
)
from leasehold.service.drivers.protocol import Capabilities, DriverSetup, Order, Problem
from leasehold.service.drivers.reconciler.desired import Desired
from leasehold.service.drivers.reconciler.driver import MakeProvider, ReconciledDriver
from leasehold.service.drivers.reconciler.provider import (
    Machine,
    MachineFailed,
    MachineInstance,
    MachineState,
    PermanentError,
    Provider,
    Seen,
    Step,
    Unfinished,
)
from leasehold.service.drivers.reconciler.store import InstanceStore, Neighbour, read_neighbour
from leasehold.service.drivers.staging import TransferRate

# --- moving to another site -------------------------------------------------------------------------------------------

PEER_URI, DATA_URI = "peer_uri", "data_uri"
"""What sites under libvirt tell their neighbours."""

_HOW = (
    libvirt.VIR_MIGRATE_PEER2PEER  # it continues if this process is killed
    | libvirt.VIR_MIGRATE_PERSIST_DEST
    | libvirt.VIR_MIGRATE_UNDEFINE_SOURCE
)


class NotYet(Exception):
    """A step has to wait for the other site."""


class Moving:
    """The sites beside this one; each has its folder beside ``folder``."""

    def __init__(self, folder: Path) -> None:
        self._sites = folder.parent

    def send(self, instance: MachineInstance, domains: Sequence[tuple[Name, Any]]) -> None:
        """Send machines to where they are expected; raises NotYet or PermanentError where they are not."""
        there = self._neighbour(instance, instance.other_site)
        later = (one for one in there.instances if one.generation > instance.incarnation)
        generation = next((one.generation for one in later if one.desired is not Desired.GONE), None)
        if generation is None and there.tombstone > instance.incarnation:
            raise PermanentError(f"lease {instance.lease_id} is not expected at {instance.other_site} any more")
        if generation is None or PEER_URI not in there.facts:
            raise NotYet(f"{instance.other_site} does not expect lease {instance.lease_id} yet")
        for name, domain in domains:
            new = Name(instance.other_site, (instance.lease_id, generation), name.number)
            _send(domain, str(new), there)

    def is_coming(self, instance: MachineInstance) -> bool:
        """Whether the old site still has machines that are not to end; raises NotYet where it is away.

        It may not have the order to send them yet: which order arrives first is not known here.
        """
        there = self._neighbour(instance, instance.from_site)
        return any(one.incarnation < instance.generation and one.desired is not Desired.GONE for one in there.instances)

    def _neighbour(self, instance: MachineInstance, site: str) -> Neighbour[MachineInstance]:
        there = read_neighbour(self._sites / site, MachineInstance, instance.lease_id)
        if there is None:
            raise NotYet(f"there is no site {site} under libvirt beside this one")
        return there


def _send(domain: Any, name: str, there: Neighbour[MachineInstance]) -> None:  # noqa: ANN401 - libvirt-python carries no types
    state, reason = domain.state()
    if state == libvirt.VIR_DOMAIN_SHUTOFF:
        _send_shut_off(domain, reason)
        return
    if state == libvirt.VIR_DOMAIN_PAUSED:
        if is_on_its_way(domain):
            raise NotYet("it is on its way already")
        domain.resume()  # sent as it is, it would stand still there, and the reason would be lost
        raise NotYet("it was paused, and has to run again before it is sent")
    parameters = {libvirt.VIR_MIGRATE_PARAM_DEST_NAME: name}
    if DATA_URI in there.facts:
        parameters[libvirt.VIR_MIGRATE_PARAM_URI] = there.facts[DATA_URI]
    how = _HOW if is_interpreted(domain.XMLDesc(0)) else _HOW | libvirt.VIR_MIGRATE_LIVE
    domain.migrateToURI3(there.facts[PEER_URI], parameters, how)


def _send_shut_off(domain: Any, reason: int) -> None:  # noqa: ANN401 - as above
    """What was saved is brought up to be sent; what has gone is only still written down; else it is lost."""
    if domain.hasManagedSaveImage():
        domain.create()
        raise NotYet("its memory is loaded, to be sent")
    if reason != libvirt.VIR_DOMAIN_SHUTOFF_MIGRATED:
        raise PermanentError("its machines are lost")
    domain.undefine()


# --- the machines of a site -------------------------------------------------------------------------------------------

_MOST_CONSOLE_BYTES = 64 * 1024
_MOST_KEPT_BYTES, _MOST_SHOWN_BYTES = 1024 * 1024, 128 * 1024
"""Of what a command has written, when it has ended and while it runs: its guest's agent reads it, which takes time."""
_CARRIES_FILES_S = 10.0
"""After so long other orders for the same machines come first."""
_TOO_SLOW_S, _LEFT_ALONE_S = 2.0, 10.0
"""Observing waits for each guest; the slow ones must not delay the others."""
_WRONG_DESCRIPTION = frozenset(
    {
        libvirt.VIR_ERR_XML_ERROR,
        libvirt.VIR_ERR_XML_DETAIL,
        libvirt.VIR_ERR_XML_INVALID_SCHEMA,
        libvirt.VIR_ERR_CONFIG_UNSUPPORTED,
        libvirt.VIR_ERR_NO_STORAGE_POOL,
        libvirt.VIR_ERR_NO_STORAGE_VOL,
        libvirt.VIR_ERR_NO_NETWORK,
    }
)
"""What libvirt says of a description that will never be accepted."""


def inputs_in(folder: Path) -> Path:
    """Where inputs of commands are brought to, in the folder of a driver."""
    return folder / "inputs"


class LibvirtProvider(Provider):
    """The machines of one site; ``folder`` is the driver's own, and ``moving`` knows the sites beside it."""

    def __init__(self, options: LibvirtOptions, site: str, folder: Path, moving: Moving) -> None:
        self._inputs = inputs_in(folder)
        self._options = options
        self._site = site
        self._folder = folder
        self._moving = moving
        self._transfers = TransferRate()
        self._brought: defaultdict[str, set[str]] = defaultdict(set)
        self._living: set[int] = set()
        self._host = Host(options.uri)
        self._asked_from_s: dict[str, float] = {}
        self._actions: dict[Step, Callable[[MachineInstance, Sequence[Machine]], None]] = {
            Step.CREATE: self._create,
            Step.RESUME: self._resume,
            Step.RUN: self._run,
            Step.FETCH: self._fetch,
            Step.SAVE: self._save,
            Step.AWAIT: self._await,
            Step.SEND: self._send,
            Step.REMOVE: self._remove,
        }

    @property
    def capabilities(self) -> Capabilities:
        """What these machines can do."""
        return self._options.able

    def observe(self, instances: Sequence[MachineInstance]) -> list[Machine]:
        """Observe every domain that has a name of this site."""
        known = {instance.key: instance for instance in instances}
        self._living = {instance.lease_id for instance in instances if instance.desired is not Desired.GONE}
        machines: list[Machine | None] = []
        turn, node = self._turn(), self._host.name
        for domain in self._host.connection.listAllDomains():
            name = read_name(domain.name(), self._site)
            if name is not None:
                machines.append(self._seen_if_there(name, domain, known.get(name.key), turn))
        there = [replace(machine, node=node) for machine in machines if machine is not None]
        handles = {machine.handle for machine in there}
        for handle in self._asked_from_s.keys() - handles:
            del self._asked_from_s[handle]
        for handle in self._brought.keys() - handles:
            self._brought.pop(handle, None)
        return there

    def _seen_if_there(self, name: Name, domain: Any, instance: MachineInstance | None, turn: str) -> Machine | None:  # noqa: ANN401 - no types
        """Observe one domain; None if it has gone.

        One that changes while it is looked at is there: whatever is missing is forgotten, and its machine removed.
        """
        try:
            return self._seen(name, domain, instance, turn)
        except libvirt.libvirtError as error:
            if error.get_error_code() == libvirt.VIR_ERR_OPERATION_INVALID:
                return Machine(name.key, str(name), MachineState.PENDING)
            if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
                return None
            raise

    def _turn(self) -> str:
        """Choose the slow guest that may be asked now: the one that was left alone the longest."""
        handle = min(self._asked_from_s, key=self._asked_from_s.__getitem__, default="")
        return handle if handle and time.monotonic() >= self._asked_from_s[handle] else ""

    def _seen(self, name: Name, domain: Any, instance: MachineInstance | None, turn: str) -> Machine | None:  # noqa: ANN401 - no types
        """Observe one domain. A guest agent that does not answer costs its deadline once, and then in its turn."""
        handle, now_s = str(name), time.monotonic()
        is_asked = handle == turn or handle not in self._asked_from_s
        seen = look_at(domain, instance, has_agent=self._options.guest_agent, is_asked=is_asked)
        if time.monotonic() - now_s > _TOO_SLOW_S:
            self._asked_from_s[handle] = time.monotonic() + _LEFT_ALONE_S
        elif is_asked:
            self._asked_from_s.pop(handle, None)
        if seen is None:
            return None
        if instance is not None and seen.exit_status is not None and not self._is_kept(name, instance):
            seen = Seen(MachineState.FINISHED)
        return Machine(name.key, handle, *seen, takes_room=bool(domain.isActive()))

    def _is_kept(self, name: Name, instance: MachineInstance) -> bool:
        """Whether what its command has written is kept, and of the first machine the files that it has left, too."""
        if not self._kept_output(name, instance, OUTPUT).exists():
            return False
        has_none = name.number or not instance.files.outputs
        return bool(has_none) or has_left_files(self._folder, instance.lease_id, instance.incarnation)

    def _kept_output(self, name: Name, instance: MachineInstance, suffix: str) -> Path:
        return output_file(self._folder, instance.lease_id, name.number, instance.generation, suffix)

    def act(self, step: Step, instance: MachineInstance, machines: Sequence[Machine]) -> None:
        """Take a step; raises what libvirt says, as PermanentError where that will not change."""
        try:
            self._actions[step](instance, machines)
        except libvirt.libvirtError as error:
            if step is Step.CREATE and error.get_error_code() in _WRONG_DESCRIPTION:
                raise PermanentError(f"libvirt says: {error}") from error
            raise

    def console(self, instance: MachineInstance) -> str:
        """Give the end of what its machines wrote, where that lies on this machine, and of what its command wrote."""
        domains = [domain for _, domain in self._domains(str(name) for name in names_of(self._site, instance))]
        paths = [console_path(domain.XMLDesc(0)) for domain in domains]
        wrote = self.output(instance)
        return "".join([*(_end_of(Path(path)) for path in paths if path), wrote.text, wrote.error])

    def output(self, instance: MachineInstance) -> Output:
        """Give what its command has written: all that is kept once it has ended, and before that the end."""
        if not (self._options.guest_agent and instance.command and instance.command_started):
            return Output("")
        machines, answers = [], True
        for name, domain in self._domains(map(str, names_of(self._site, instance))):
            wrote = self._kept(name, instance)
            if wrote is None and answers:  # who asks does not wait for each guest that does not
                wrote = _written_so_far(domain)
                answers = wrote is not None
            machines.append(wrote or Output("", is_whole=False))
        texts, errors = [one.text for one in machines], [one.error for one in machines]
        return Output(joined(texts), all(one.is_whole for one in machines), joined(errors))

    def _kept(self, name: Name, instance: MachineInstance) -> Output | None:
        kept, kept_error = (self._kept_output(name, instance, suffix) for suffix in (OUTPUT, ERROR))
        if not kept.exists():
            return None
        text, error = (path.read_bytes().decode(errors="replace") for path in (kept, kept_error))
        return Output(text, not kept.with_suffix(CUT).exists(), error)

    def access(self, instance: MachineInstance) -> list[Access]:
        """Say at which ports of the host the user of an instance logs in, once its guests know the key."""
        user, address = self._options.login_user, self._options.login_address
        if user is None or not instance.command_started:
            return []
        found: list[Access] = []
        for name, domain in self._domains(map(str, names_of(self._site, instance))):
            with unless_gone():
                port = port_into(domain, address)
                if port is not None:
                    found.append(Access(name.number, address, port, user))
        return found

    def close(self) -> None:
        """Close the connection."""
        self._host.close()

    # steps

    def _create(self, instance: MachineInstance, _machines: Sequence[Machine]) -> None:
        """Described first, so that whatever is made for a machine can be found by its name."""
        connection = self._host.connection
        options = self._options.of_image(instance.image)
        memory_mib = max(instance.memory_mib, options.least_memory_mib)
        for name in map(str, names_of(self._site, instance)):
            domain = find(connection, name)
            if domain is None:
                disk = layer_path(connection, options, name)
                lets_in = bool(instance.ssh_key)
                described = describe(options, name, memory_mib, disk, cores=instance.cores, lets_in=lets_in)
                domain = connection.defineXML(described)
            if not domain.isActive():
                make_layer(connection, options, name)
                domain.create()

    def _resume(self, _instance: MachineInstance, machines: Sequence[Machine]) -> None:
        for _, domain in self._domains(one.handle for one in machines if one.state is MachineState.SAVED):
            if domain.isActive():
                domain.resume()
            else:
                domain.create()

    def _run(self, instance: MachineInstance, machines: Sequence[Machine]) -> None:
        ready = list(self._domains(one.handle for one in machines if one.state is MachineState.READY))
        time_slice = TimeSlice(_CARRIES_FILES_S)
        for name, domain in ready:
            if instance.ssh_key and self._options.login_user is not None:
                let_in(domain, self._options.login_user, instance.ssh_key)
            if instance.files.inputs:
                agent, brought = LibvirtAgent(domain, time_slice), self._brought[str(name)]
                asyncio.run(bring_before_command(agent, instance, self._inputs, self._transfers, brought))
        for _, domain in ready:
            if instance.command:
                start_command(domain, instance.lease_id, instance.command)

    def _fetch(self, instance: MachineInstance, machines: Sequence[Machine]) -> None:
        """Keep what each machine's command has written, and the files that the first one's has left.

        These are kept as where they lie on a file system that machines share.
        """
        lease_id, incarnation = instance.lease_id, instance.incarnation
        output_folder(self._folder).mkdir(mode=0o700, parents=True, exist_ok=True)
        for name, domain in self._domains(one.handle for one in machines if one.state is MachineState.FINISHED):
            for suffix, path in ((ERROR, WROTE_TO_ERROR), (OUTPUT, WROTE)):
                self._keep_output(self._kept_output(name, instance, suffix), domain, path)
            if name.number == 0 and instance.files.outputs:
                agent = LibvirtAgent(domain, TimeSlice(_CARRIES_FILES_S))
                names, path_of = instance.files.outputs, partial(left_file, self._folder, lease_id, incarnation)
                problems = asyncio.run(fetch_outputs(agent, names, path_of))
                write_left_files(self._folder, lease_id, incarnation, problems)

    def _keep_output(self, kept: Path, domain: Any, path: str) -> None:  # noqa: ANN401 - no types
        if kept.exists():
            return
        try:
            text, is_whole = _end_carried(domain, path)
        except Refused:  # the guest has removed it
            text, is_whole = b"", False
        if not is_whole:
            kept.with_suffix(CUT).touch()
        part = kept.with_name(kept.name + PART)
        part.write_bytes(text)
        part.replace(kept)

    def _save(self, _instance: MachineInstance, machines: Sequence[Machine]) -> None:
        for _, domain in self._domains(one.handle for one in machines):
            if domain.isActive():
                domain.managedSave(libvirt.VIR_DOMAIN_SAVE_RUNNING)

    def _await(self, instance: MachineInstance, _machines: Sequence[Machine]) -> None:
        """First ask the old site, then look here: in this order none can be missed."""
        if self._moving.is_coming(instance):
            return
        domains = self._domains(str(name) for name in names_of(self._site, instance))
        have_come = [look_at(domain, instance, has_agent=False) is not None for _, domain in domains]
        if sum(have_come) < instance.vms:
            raise PermanentError(f"site {instance.from_site} had no machines of lease {instance.lease_id} to send")

    def _send(self, instance: MachineInstance, machines: Sequence[Machine]) -> None:
        self._moving.send(instance, list(self._domains(one.handle for one in machines)))

    def _remove(self, instance: MachineInstance, machines: Sequence[Machine]) -> None:
        """The description goes last, so that a restart finds the rest by it."""
        for _, domain in self._domains(one.handle for one in machines):
            with unless_gone():
                if domain.isActive():
                    domain.destroy()
                description = domain.XMLDesc(0)
                remove_disks(self._host.connection, description)
                _remove_console(description)
                domain.undefineFlags(libvirt.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE)
        keep_latest(self._folder, self._options.keep_outputs, self._living - {instance.lease_id})

    # its host as a node

    def refuse(self, order: Order, instances: Sequence[MachineInstance]) -> Problem | None:
        """Say why the machines of a job that wants the host, or so many cores, cannot be here."""
        if not (order.constraints.nodes or order.constraints.cores):
            return None
        try:
            node = self._node(instances)
        except (ConnectionError, libvirt.libvirtError) as error:
            return Problem(str(error))
        return does_not_fit(order, node, self._options.of_image(order.constraints.image))

    def nodes(self, instances: Sequence[MachineInstance], free_slots: int) -> list[NodeFacts]:
        """Describe the host; nothing of it is free where no slot is."""
        node = replace(self._node(instances), bytes_per_s=self._transfers.bytes_per_s)
        return [node if free_slots > 0 else without_room(node)]

    def images(self) -> list[ImageFacts]:
        """Describe the images of which the configuration says what is in them."""
        return describe_images(self._host.connection, self._options)

    def _node(self, instances: Sequence[MachineInstance]) -> NodeFacts:
        return describe_node(self._host.connection, self._host.name, self._site, self._options, instances)

    def _domains(self, handles: Iterable[str]) -> Iterator[tuple[Name, Any]]:
        connection = self._host.connection
        for handle in handles:
            name, domain = read_name(handle, self._site), find(connection, handle)
            if name is not None and domain is not None:
                yield name, domain


def _written_so_far(domain: Any) -> Output | None:  # noqa: ANN401 - no types
    """Give the end of what a command has written; None where its guest does not say."""
    try:
        text, is_text_whole = _end_in_guest(domain, WROTE, _MOST_SHOWN_BYTES, ANSWERS_WITHIN_S)
        error, is_error_whole = _end_in_guest(domain, WROTE_TO_ERROR, _MOST_SHOWN_BYTES, ANSWERS_WITHIN_S)
    except (libvirt.libvirtError, MachineFailed, Unfinished):
        return None
    is_whole = is_text_whole and is_error_whole
    return Output(text.decode(errors="replace"), is_whole, error.decode(errors="replace"))


def _end_carried(domain: Any, path: str) -> tuple[bytes, bool]:  # noqa: ANN401 - no types
    """Read as much of the end of a file as is kept, or from a slow guest one piece, which never takes too long."""
    try:
        return _end_in_guest(domain, path, _MOST_KEPT_BYTES)
    except Unfinished:
        return _end_in_guest(domain, path, LibvirtAgent.read_at_once)


def _end_in_guest(
    domain: Any,  # noqa: ANN401 - no types
    path: str,
    most_bytes: int,
    within_s: int = WORKS_WITHIN_S,
) -> tuple[bytes, bool]:
    """Read the end of a file in a guest, and say whether that is all.

    Raises what libvirt says, MachineFailed, and Unfinished where so much takes too long.
    """
    return asyncio.run(LibvirtAgent(domain, TimeSlice(_CARRIES_FILES_S), within_s).read_end(path, most_bytes))


def _remove_console(description: str) -> None:
    """A console of ours goes with its machine, if it lies on this machine; others are their owner's."""
    path = console_path(description)
    if path is not None and Path(path).name.startswith("leasehold-"):
        with suppress(OSError):
            Path(path).unlink()


def _end_of(path: Path) -> str:
    try:
        with path.open("rb") as file:
            size = file.seek(0, SEEK_END)
            file.seek(max(0, size - _MOST_CONSOLE_BYTES))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


class LibvirtDriver(ReconciledDriver):
    """The driver of a site whose guests have the agent: they run commands, which jobs and their files are made of."""

    def __init__(self, setup: DriverSetup, make_provider: MakeProvider, options: LibvirtOptions) -> None:
        super().__init__(setup, make_provider, options.settings)
        self._folder = setup.folder
        self._inputs = inputs_in(setup.folder)

    @property
    def input_folder(self) -> Path:
        """Where inputs are brought to."""
        return self._inputs

    async def output(self, lease_id: int) -> Output:
        """Give the output of a lease's commands, apart from what else is on their consoles."""
        return await asyncio.to_thread(self._output, lease_id)

    def _output(self, lease_id: int) -> Output:
        here = self._reconciler.output(lease_id)
        return output_of(self._folder, lease_id, MOST_OUTPUT) if here is None else here

    async def output_files(self, lease_id: int) -> dict[str, Path | str]:
        """Give the files to be kept that the command of a lease's first machine has left."""
        return await asyncio.to_thread(left_files, self._folder, lease_id)

    async def images(self) -> list[ImageFacts]:
        """List the images of which the configuration says what is in them; raises where libvirt does not answer."""
        return await asyncio.to_thread(self._reconciler.images)

    async def nodes(self) -> list[NodeFacts]:
        """Describe the host; raises ConnectionError where libvirt does not answer."""
        return await asyncio.to_thread(self._reconciler.nodes)


def libvirt_driver(setup: DriverSetup) -> ReconciledDriver:
    """Make the driver of a site under libvirt, or find its machines again.

    Raises InvalidField or UnknownName for an option that makes no sense, InputError for a store that cannot be used.
    """
    options = read_options(setup.options)

    def provider(store: InstanceStore[MachineInstance]) -> LibvirtProvider:
        uris = {PEER_URI: options.peer_uri, DATA_URI: options.data_uri}
        store.publish({key: uri for key, uri in uris.items() if uri is not None})
        return LibvirtProvider(options, setup.site, setup.folder, Moving(setup.folder))

    if options.guest_agent:
        return LibvirtDriver(setup, provider, options)
    return ReconciledDriver(setup, provider, options.settings)


_GONE = frozenset({libvirt.VIR_ERR_NO_DOMAIN, libvirt.VIR_ERR_OPERATION_INVALID})


def _say_nothing(_context: object, _error: object) -> None:
    """Keep libvirt from writing each error to standard error before it raises it."""


libvirt.registerErrorHandler(_say_nothing, None)


class Host:
    """One host's libvirt; asked from several threads at once.

    Its connection is opened when it is needed and again when it is broken.
    """

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self._lock = Lock()
        self._connection: Any = None

    @property
    def connection(self) -> Any:  # noqa: ANN401 - libvirt-python carries no types
        """A connection that was alive just now; raises ConnectionError where libvirt does not answer."""
        with self._lock:
            if self._connection is None or not _is_alive(self._connection):
                self._connection = self._open()
            return self._connection

    @property
    def name(self) -> str:
        """What it calls itself; empty where libvirt cannot say."""
        try:
            return str(self.connection.getHostname())
        except libvirt.libvirtError as error:
            if error.get_error_code() != libvirt.VIR_ERR_NO_SUPPORT:
                raise
            return ""

    def close(self) -> None:
        """Let go of it."""
        with self._lock, suppress(libvirt.libvirtError):
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    def _open(self) -> Any:  # noqa: ANN401 - as above
        try:
            return libvirt.open(self.uri)
        except libvirt.libvirtError as error:
            raise ConnectionError(f"libvirt at {self.uri}: {error}") from error


def _is_alive(connection: Any) -> bool:  # noqa: ANN401 - as above
    with suppress(libvirt.libvirtError):
        return bool(connection.isAlive())
    return False


@contextmanager
def unless_gone() -> Iterator[None]:
    """Let be what has gone, or stopped by itself, while it was dealt with."""
    try:
        yield
    except libvirt.libvirtError as error:
        if error.get_error_code() not in _GONE:
            raise


def find(connection: Any, name: str) -> Any:  # noqa: ANN401 - as above
    """Find a domain by its name; None where there is none."""
    try:
        return connection.lookupByName(name)
    except libvirt.libvirtError as error:
        if error.get_error_code() != libvirt.VIR_ERR_NO_DOMAIN:
            raise
        return None


# --- disks ------------------------------------------------------------------------------------------------------------


def layer_path(connection: Any, options: LibvirtOptions, name: str) -> str | None:  # noqa: ANN401 - no types
    """Where the layer of a machine will be; None where machines have no disk."""
    if options.volume is None:
        return None
    pool = connection.storagePoolLookupByName(options.pool)
    folder = ET.fromstring(pool.XMLDesc(0)).findtext("target/path")  # noqa: S314 - libvirt's own words
    return f"{folder}/{name}.qcow2"


def make_layer(connection: Any, options: LibvirtOptions, name: str) -> None:  # noqa: ANN401 - as above
    """Make the layer of a machine, if it is not there yet."""
    if options.volume is None:
        return
    pool = connection.storagePoolLookupByName(options.pool)
    file = f"{name}.qcow2"
    if file not in pool.listVolumes():
        below = pool.storageVolLookupByName(options.volume)
        pool.createXML(_layer(file, below), 0)


def remove_disks(connection: Any, description: str) -> None:  # noqa: ANN401 - as above
    """Remove the layers of a machine; whatever else its disks are stays."""
    for path in disk_paths(description):
        if path.rpartition("/")[2].startswith("leasehold-"):
            with suppress(libvirt.libvirtError):  # it is gone already
                connection.storageVolLookupByPath(path).delete(0)


def _layer(file: str, below: Any) -> str:  # noqa: ANN401 - as above
    _, capacity, _ = below.info()
    path, form = below.path(), ET.fromstring(below.XMLDesc(0)).find("target/format")  # noqa: S314 - as above
    volume = ET.Element("volume")
    ET.SubElement(volume, "name").text = file
    ET.SubElement(volume, "capacity").text = str(capacity)
    ET.SubElement(ET.SubElement(volume, "target"), "format", type="qcow2")
    backing = ET.SubElement(volume, "backingStore")
    ET.SubElement(backing, "path").text = path
    ET.SubElement(backing, "format", type="qcow2" if form is None else form.get("type", "qcow2"))
    return ET.tostring(volume, encoding="unicode")
