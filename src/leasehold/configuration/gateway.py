"""How guests are sent to clusters: the keys of ``[gateway]``."""

from dataclasses import dataclass
from pathlib import Path

from leasehold.configuration.keys import Keys
from leasehold.configuration.plain import Plain, seconds
from leasehold.configuration.policies import absolute, find_routing_policy

MOMENTS = ("learnt", "told")


@dataclass(frozen=True, slots=True)
class GatewaySpec:
    """How guests are sent to clusters.

    ``policy``         a routing policy
    ``moments``        whether the rates and sizes of streams are ``learnt`` from what came, or ``told``: the
                       true ones of the model (those of a log are always learnt)
    ``try_elsewhere``  whether a guest that its cluster refuses is offered to the others
    ``use_free_room``  whether guests go where they can start now, if that is anywhere, also those who wait at
                       another cluster and have never started
    ``tick_ms``        how often requests that the policy holds are asked about again at the latest
    """

    policy: str = "pap-rtdp"
    moments: str = "learnt"
    try_elsewhere: bool = False
    use_free_room: bool = False
    tick_ms: int = 10_000

    def to_dict(self) -> Plain:
        """Give the keys of ``[gateway]``."""
        told: Plain = {"policy": self.policy, "moments": self.moments}
        told |= {"try_elsewhere": self.try_elsewhere, "use_free_room": self.use_free_room}
        return told | seconds("tick_s", self.tick_ms)


def read_gateway(keys: Keys, folder: Path, usual: GatewaySpec | None = None) -> GatewaySpec:
    """Check the keys of ``[gateway]``; a policy's file counts from ``folder``, ``usual`` is what is not said.

    Raises InvalidField or UnknownName with the place of the key as field, InputError for a policy's file.
    """
    usual = usual or GatewaySpec()
    policy = absolute(keys.text("policy", usual.policy), folder)
    with keys.at("policy"):
        find_routing_policy(policy)
    gateway = GatewaySpec(
        policy=policy,
        moments=keys.name_of("moments", MOMENTS, usual.moments),
        try_elsewhere=keys.flag("try_elsewhere", default=usual.try_elsewhere),
        use_free_room=keys.flag("use_free_room", default=usual.use_free_room),
        tick_ms=keys.milliseconds("tick_s", usual.tick_ms, least_ms=1),
    )
    keys.done()
    return gateway
