"""What does libvirt say of a domain, and what does that mean for who wants it up, saved or gone?"""

from typing import Any

import libvirt

from leasehold.service.drivers.libvirt import agent
from leasehold.service.drivers.protocol import Phase
from leasehold.service.drivers.reconciler.provider import Desired, MachineInstance, MachineState, Seen

_SHUT_OFF = {
    libvirt.VIR_DOMAIN_SHUTOFF_UNKNOWN: "for a reason that is not known",
    libvirt.VIR_DOMAIN_SHUTOFF_DESTROYED: "by somebody",
    libvirt.VIR_DOMAIN_SHUTOFF_CRASHED: "by a crash",
    libvirt.VIR_DOMAIN_SHUTOFF_FAILED: "because it could not start",
    libvirt.VIR_DOMAIN_SHUTOFF_SAVED: "and its saved memory is gone",
    libvirt.VIR_DOMAIN_SHUTOFF_DAEMON: "with libvirt",
}
_MAY_BE_MEANT = frozenset({libvirt.VIR_DOMAIN_PAUSED_USER, libvirt.VIR_DOMAIN_PAUSED_MIGRATION})


def look_at(  # noqa: PLR0911 - a list of cases
    domain: Any,  # noqa: ANN401 - libvirt-python carries no types
    instance: MachineInstance | None,
    *,
    has_agent: bool,
    is_asked: bool = True,
) -> Seen | None:
    """Say what a domain is doing; None where it is as good as not there yet.

    ``is_asked``: whether its agent is asked now; else it is taken to be as it was.
    """
    state, reason = domain.state()
    if state == libvirt.VIR_DOMAIN_RUNNING:
        if not has_agent or instance is None or not instance.command:
            return Seen(MachineState.UP)
        if not is_asked:
            return Seen(MachineState.UP if instance.command_started else MachineState.PENDING)
        return _running(domain, instance)
    if state == libvirt.VIR_DOMAIN_SHUTOFF:
        return _shut_off(domain, reason, instance)
    if state == libvirt.VIR_DOMAIN_CRASHED:
        return Seen(MachineState.FAILED, "it has crashed")
    if state == libvirt.VIR_DOMAIN_PAUSED and _was_left(domain, reason, instance):
        return Seen(MachineState.SAVED)
    return Seen(MachineState.PENDING)


def _running(domain: Any, instance: MachineInstance) -> Seen:  # noqa: ANN401 - as above
    if not instance.command_started:
        return Seen(MachineState.READY if agent.answers(domain) else MachineState.PENDING)
    try:
        status = agent.exit_status(domain, instance.lease_id)
    except agent.Nonsense as nonsense:
        return Seen(MachineState.FAILED, str(nonsense))
    if status is None:
        return Seen(MachineState.UP)
    return Seen(MachineState.ENDED, exit_status=status)


def _shut_off(domain: Any, reason: int, instance: MachineInstance | None) -> Seen | None:  # noqa: ANN401 - as above
    if domain.hasManagedSaveImage():
        return Seen(MachineState.SAVED)
    if instance is not None and _is_to_start(instance, reason):
        return None
    if reason == libvirt.VIR_DOMAIN_SHUTOFF_SHUTDOWN:
        return _shut_itself_down(instance)
    return Seen(MachineState.FAILED, f"it was shut off {_SHUT_OFF.get(reason, 'elsewhere')}")


def _is_to_start(instance: MachineInstance, reason: int) -> bool:
    """Whether it is described, and may be started without running anything twice.

    What has come is described because it has come. Only where it could not go on it may come again.
    """
    if instance.desired is Desired.GONE or instance.came_up or instance.command_started:
        return False
    if instance.from_site:
        return bool(reason == libvirt.VIR_DOMAIN_SHUTOFF_FAILED)
    return instance.desired is not Desired.AWAY


def _shut_itself_down(instance: MachineInstance | None) -> Seen:
    """Its end where it is just a machine; whoever has a command should have seen that end first."""
    if instance is not None and instance.command:
        return Seen(MachineState.FAILED, "it has shut itself down while its command ran")
    return Seen(MachineState.ENDED, "it has shut itself down")


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


def _was_left(domain: Any, reason: int, instance: MachineInstance | None) -> bool:  # noqa: ANN401 - as above
    """Whether it was paused to be saved or sent by somebody who did not come to that, and is wanted up."""
    if instance is None or instance.desired is not Desired.UP or is_on_its_way(domain):
        return False
    # While a machine comes it is stopped for the move; it has come stopped where it was sent so.
    has_come = reason == libvirt.VIR_DOMAIN_PAUSED_USER
    return bool(has_come if instance.phase is Phase.RECEIVING else reason not in _MAY_BE_MEANT)
