"""The machines of one site under libvirt: domains with names of ours, which it keeps while we are away."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from os import SEEK_END
from pathlib import Path
from typing import Any

import libvirt

from leasehold.service.drivers.libvirt import agent
from leasehold.service.drivers.libvirt.disks import layer_path, make_layer, remove_disks
from leasehold.service.drivers.libvirt.domain import console_path, describe
from leasehold.service.drivers.libvirt.host import Host, find, unless_gone
from leasehold.service.drivers.libvirt.moving import Moving
from leasehold.service.drivers.libvirt.names import Name, names_of, read_name
from leasehold.service.drivers.libvirt.options import LibvirtOptions
from leasehold.service.drivers.libvirt.reading import look_at
from leasehold.service.drivers.protocol import Capabilities
from leasehold.service.drivers.reconciler.provider import (
    Machine,
    MachineInstance,
    MachineState,
    PermanentError,
    Provider,
    Step,
)

_MOST_CONSOLE_BYTES = 64 * 1024
_TOO_SLOW_S, _LEFT_ALONE_S = 2.0, 10.0
"""A look waits for each guest; those that let it wait must not keep it from the others."""
_WRONG_WORDS = frozenset(
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
"""What libvirt says of a description that will never do."""


class LibvirtProvider(Provider):
    """The machines of one site; ``moving`` knows the sites beside it."""

    def __init__(self, options: LibvirtOptions, site: str, moving: Moving) -> None:
        self._options = options
        self._site = site
        self._moving = moving
        self._host = Host(options.uri)
        self._asked_from_s: dict[str, float] = {}
        self._ways: dict[Step, Callable[[MachineInstance, Sequence[Machine]], None]] = {
            Step.CREATE: self._create,
            Step.RESUME: self._resume,
            Step.RUN: self._run,
            Step.SAVE: self._save,
            Step.AWAIT: self._await,
            Step.SEND: self._send,
            Step.REMOVE: self._remove,
        }

    @property
    def capabilities(self) -> Capabilities:
        """What these machines can do."""
        return Capabilities(
            suspend=self._options.suspend,
            migrate=self._options.peer_uri is not None,
            commands=self._options.guest_agent,
        )

    def observe(self, instances: Sequence[MachineInstance]) -> list[Machine]:
        """See every domain that has a name of this site's."""
        known = {instance.key: instance for instance in instances}
        machines: list[Machine | None] = []
        turn, node = self._turn(), self._host.name
        for domain in self._host.connection.listAllDomains():
            name = read_name(domain.name(), self._site)
            if name is not None:
                with unless_gone():
                    machines.append(self._seen(name, domain, known.get(name.key), turn))
        there = [replace(machine, node=node) for machine in machines if machine is not None]
        for handle in self._asked_from_s.keys() - {machine.handle for machine in there}:
            del self._asked_from_s[handle]
        return there

    def _turn(self) -> str:
        """Of the guests that let looks wait, the one that may do so now: it was left alone the longest."""
        handle = min(self._asked_from_s, key=self._asked_from_s.__getitem__, default="")
        return handle if handle and time.monotonic() >= self._asked_from_s[handle] else ""

    def _seen(self, name: Name, domain: Any, instance: MachineInstance | None, turn: str) -> Machine | None:  # noqa: ANN401 - no types
        """See one domain. A guest agent that answers nobody costs its deadline once, and then in its turn."""
        handle, now_s = str(name), time.monotonic()
        is_asked = handle == turn or handle not in self._asked_from_s
        seen = look_at(domain, instance, has_agent=self._options.guest_agent, is_asked=is_asked)
        if time.monotonic() - now_s > _TOO_SLOW_S:
            self._asked_from_s[handle] = time.monotonic() + _LEFT_ALONE_S
        elif is_asked:
            self._asked_from_s.pop(handle, None)
        return None if seen is None else Machine(name.key, handle, *seen, takes_room=bool(domain.isActive()))

    def act(self, step: Step, instance: MachineInstance, machines: Sequence[Machine]) -> None:
        """Do it; raises whatever libvirt says, as PermanentError where that will not change."""
        try:
            self._ways[step](instance, machines)
        except libvirt.libvirtError as error:
            if step is Step.CREATE and error.get_error_code() in _WRONG_WORDS:
                raise PermanentError(f"libvirt says: {error}") from error
            raise

    def console(self, instance: MachineInstance) -> str:
        """Give the end of what its machines wrote, where that lies on this machine."""
        domains = [domain for _, domain in self._domains(str(name) for name in names_of(self._site, instance))]
        paths = [console_path(domain.XMLDesc(0)) for domain in domains]
        return "".join(_end_of(Path(path)) for path in paths if path)

    def close(self) -> None:
        """Let go of them."""
        self._host.close()

    # doing

    def _create(self, instance: MachineInstance, _machines: Sequence[Machine]) -> None:
        """Described first, so that whatever is made for a machine can be found by its name."""
        connection = self._host.connection
        memory_mib = max(instance.memory_mib, self._options.least_memory_mib)
        for name in map(str, names_of(self._site, instance)):
            domain = find(connection, name)
            if domain is None:
                disk = layer_path(connection, self._options, name)
                domain = connection.defineXML(describe(self._options, name, memory_mib, disk))
            if not domain.isActive():
                make_layer(connection, self._options, name)
                domain.create()

    def _resume(self, _instance: MachineInstance, machines: Sequence[Machine]) -> None:
        for _, domain in self._domains(one.handle for one in machines if one.state is MachineState.SAVED):
            if domain.isActive():
                domain.resume()
            else:
                domain.create()

    def _run(self, instance: MachineInstance, machines: Sequence[Machine]) -> None:
        for _, domain in self._domains(one.handle for one in machines if one.state is MachineState.READY):
            agent.start(domain, instance.lease_id, instance.command)

    def _save(self, _instance: MachineInstance, machines: Sequence[Machine]) -> None:
        for _, domain in self._domains(one.handle for one in machines):
            if domain.isActive():
                domain.managedSave(libvirt.VIR_DOMAIN_SAVE_RUNNING)

    def _await(self, instance: MachineInstance, _machines: Sequence[Machine]) -> None:
        """First ask the old site, then look here: in this order none can have slipped through."""
        if self._moving.is_coming(instance):
            return
        domains = self._domains(str(name) for name in names_of(self._site, instance))
        have_come = [look_at(domain, instance, has_agent=False) is not None for _, domain in domains]
        if sum(have_come) < instance.vms:
            raise PermanentError(f"site {instance.from_site} had no machines of lease {instance.lease_id} to send")

    def _send(self, instance: MachineInstance, machines: Sequence[Machine]) -> None:
        self._moving.send(instance, list(self._domains(one.handle for one in machines)))

    def _remove(self, _instance: MachineInstance, machines: Sequence[Machine]) -> None:
        """The description goes last, so that whoever is killed before finds the rest by it."""
        for _, domain in self._domains(one.handle for one in machines):
            with unless_gone():
                if domain.isActive():
                    domain.destroy()
                description = domain.XMLDesc(0)
                remove_disks(self._host.connection, description)
                _remove_console(description)
                domain.undefineFlags(libvirt.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE)

    def _domains(self, handles: Iterable[str]) -> Iterator[tuple[Name, Any]]:
        connection = self._host.connection
        for handle in handles:
            name, domain = read_name(handle, self._site), find(connection, handle)
            if name is not None and domain is not None:
                yield name, domain


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
