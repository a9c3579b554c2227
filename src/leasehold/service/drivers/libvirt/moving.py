"""How do machines go to another site, with their memory, while they run?

The old site sends them when the new one's ledger says that it expects them, straight from libvirt to libvirt.
Until the last moment they run where they were, and if nobody expects them any more they end there. The new
site only looks whether they have come; what it may not expect any more has failed.

Interpreted machines stand still while they go: QEMU loses now and then what they write while their memory is
copied, and they would die of it where they arrive. Seen of 7.2, most on busy hosts.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import libvirt

from leasehold.service.drivers.libvirt.domain import is_interpreted
from leasehold.service.drivers.libvirt.names import Name
from leasehold.service.drivers.libvirt.reading import is_on_its_way
from leasehold.service.drivers.reconciler.provider import Desired, MachineInstance, PermanentError
from leasehold.service.drivers.reconciler.store import Neighbour, read_neighbour

PEER_URI, DATA_URI = "peer_uri", "data_uri"
"""What sites under libvirt tell their neighbours."""

_HOW = (
    libvirt.VIR_MIGRATE_PEER2PEER  # it goes on when we are killed
    | libvirt.VIR_MIGRATE_PERSIST_DEST
    | libvirt.VIR_MIGRATE_UNDEFINE_SOURCE
)


class NotYet(Exception):
    """Something has to wait for the other site."""


class Moving:
    """The sites beside this one; each has its folder beside ``folder``."""

    def __init__(self, folder: Path) -> None:
        self._sites = folder.parent

    def send(self, instance: MachineInstance, domains: Sequence[tuple[Name, Any]]) -> None:
        """Send machines to where they are expected; raises NotYet where they are not, PermanentError for good."""
        there = self._neighbour(instance, instance.other_site)
        later = (one for one in there.instances if one.generation > instance.incarnation)
        generation = next((one.generation for one in later if one.desired is not Desired.GONE), None)
        if generation is None and there.tombstone > instance.incarnation:
            raise PermanentError(f"lease {instance.lease_id} is not wanted at {instance.other_site} any more")
        if generation is None or PEER_URI not in there.facts:
            raise NotYet(f"{instance.other_site} does not expect lease {instance.lease_id} yet")
        for name, domain in domains:
            new = Name(instance.other_site, (instance.lease_id, generation), name.number)
            _send(domain, str(new), there)

    def is_coming(self, instance: MachineInstance) -> bool:
        """Whether the old site still has machines that are not to end; raises NotYet where it is away.

        Who was not told yet to send them may be told later: which order arrives first is not for us to say.
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
        _clear_up(domain, reason)
        return
    if state == libvirt.VIR_DOMAIN_PAUSED:
        if is_on_its_way(domain):
            raise NotYet("it is on its way already")
        domain.resume()  # one that is sent as it stands would stand still there, and nobody would know why
        raise NotYet("it was stopped, and goes on before it is sent")
    wishes = {libvirt.VIR_MIGRATE_PARAM_DEST_NAME: name}
    if DATA_URI in there.facts:
        wishes[libvirt.VIR_MIGRATE_PARAM_URI] = there.facts[DATA_URI]
    how = _HOW if is_interpreted(domain.XMLDesc(0)) else _HOW | libvirt.VIR_MIGRATE_LIVE
    domain.migrateToURI3(there.facts[PEER_URI], wishes, how)


def _clear_up(domain: Any, reason: int) -> None:  # noqa: ANN401 - as above
    """What was saved is brought up to be sent; what has gone is only still written down; else it is lost."""
    if domain.hasManagedSaveImage():
        domain.create()
        raise NotYet("its memory is loaded, to be sent")
    if reason != libvirt.VIR_DOMAIN_SHUTOFF_MIGRATED:
        raise PermanentError("its machines are lost")
    domain.undefine()
