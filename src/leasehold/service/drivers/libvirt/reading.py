"""What does libvirt say of a domain, and what does that mean for who wants it up, saved or gone?"""

from typing import Any

import libvirt

from leasehold.service.drivers.kept.endings import in_words
from leasehold.service.drivers.kept.holding import Goal, Holding
from leasehold.service.drivers.kept.machine import State
from leasehold.service.drivers.libvirt import agent
from leasehold.service.drivers.protocol import Phase

Seen = tuple[State, str]

_SHUT_OFF = {
    libvirt.VIR_DOMAIN_SHUTOFF_UNKNOWN: "for a reason that is not known",
    libvirt.VIR_DOMAIN_SHUTOFF_DESTROYED: "by somebody",
    libvirt.VIR_DOMAIN_SHUTOFF_CRASHED: "by a crash",
    libvirt.VIR_DOMAIN_SHUTOFF_FAILED: "because it could not start",
    libvirt.VIR_DOMAIN_SHUTOFF_SAVED: "and its saved memory is gone",
    libvirt.VIR_DOMAIN_SHUTOFF_DAEMON: "with libvirt",
}
_MAY_BE_MEANT = frozenset({libvirt.VIR_DOMAIN_PAUSED_USER, libvirt.VIR_DOMAIN_PAUSED_MIGRATION})


def look_at(
    domain: Any,  # noqa: ANN401 - libvirt-python carries no types
    holding: Holding | None,
    *,
    has_agent: bool,
    is_asked: bool = True,
) -> Seen | None:
    """Say what a domain is doing; None where it is as good as not there yet.

    ``is_asked``: whether its agent is asked now; else it is taken to be as it was.
    """
    state, reason = domain.state()
    if state == libvirt.VIR_DOMAIN_RUNNING:
        if not has_agent or holding is None or not holding.command:
            return State.UP, ""
        return _running(domain, holding) if is_asked else (State.UP if holding.commanded else State.COMING, "")
    if state == libvirt.VIR_DOMAIN_SHUTOFF:
        return _shut_off(domain, reason, holding)
    if state == libvirt.VIR_DOMAIN_CRASHED:
        return State.FAILED, "it has crashed"
    if state == libvirt.VIR_DOMAIN_PAUSED and _was_left(domain, reason, holding):
        return State.SAVED, ""
    return State.COMING, ""


def _running(domain: Any, holding: Holding) -> Seen:  # noqa: ANN401 - as above
    if not holding.commanded:
        return (State.BARE, "") if agent.answers(domain) else (State.COMING, "")
    try:
        status = agent.exit_status(domain, holding.lease_id)
    except agent.Nonsense as nonsense:
        return State.FAILED, str(nonsense)
    if status is None:
        return State.UP, ""
    return State.ENDED, in_words(status)


def _shut_off(domain: Any, reason: int, holding: Holding | None) -> Seen | None:  # noqa: ANN401 - as above
    if domain.hasManagedSaveImage():
        return State.SAVED, ""
    if holding is not None and _is_to_start(holding, reason):
        return None
    if reason == libvirt.VIR_DOMAIN_SHUTOFF_SHUTDOWN:
        return _shut_itself_down(holding)
    return State.FAILED, f"it was shut off {_SHUT_OFF.get(reason, 'elsewhere')}"


def _is_to_start(holding: Holding, reason: int) -> bool:
    """Whether it is described, and may be started without running anything twice.

    What has come is described because it has come. Only where it could not go on it may come again.
    """
    if holding.goal is Goal.GONE or holding.came_up or holding.commanded:
        return False
    if holding.from_site:
        return bool(reason == libvirt.VIR_DOMAIN_SHUTOFF_FAILED)
    return holding.goal is not Goal.AWAY


def _shut_itself_down(holding: Holding | None) -> Seen:
    """Its end where it is just a machine; whoever has a command should have seen that end first."""
    if holding is not None and holding.command:
        return State.FAILED, "it has shut itself down while its command ran"
    return State.ENDED, "it has shut itself down"


def is_on_its_way(domain: Any) -> bool:  # noqa: ANN401 - as above
    """Whether it is being saved, sent or received now.

    libvirt's pretended host has no such jobs; a host that receives a machine says of its job only that the
    host that sends it knows more.
    """
    try:
        return bool(domain.jobInfo()[0] != libvirt.VIR_DOMAIN_JOB_NONE)
    except libvirt.libvirtError as error:
        code = error.get_error_code()
        if code not in {libvirt.VIR_ERR_NO_SUPPORT, libvirt.VIR_ERR_OPERATION_UNSUPPORTED}:
            raise
        return bool(code == libvirt.VIR_ERR_OPERATION_UNSUPPORTED)


def _was_left(domain: Any, reason: int, holding: Holding | None) -> bool:  # noqa: ANN401 - as above
    """Whether it was paused to be saved or sent by somebody who did not come to that, and is wanted up."""
    if holding is None or holding.goal is not Goal.UP or is_on_its_way(domain):
        return False
    # While a machine comes it is stopped for the move; it has come stopped where it was sent so.
    has_come = reason == libvirt.VIR_DOMAIN_PAUSED_USER
    return bool(has_come if holding.phase is Phase.RECEIVING else reason not in _MAY_BE_MEANT)
