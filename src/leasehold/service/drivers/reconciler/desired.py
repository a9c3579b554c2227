"""The desired state of instances, and how orders change it. Nothing here touches a machine."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar

from leasehold.service.drivers.protocol import Capabilities, Order, Phase, Problem, Verb
from leasehold.service.drivers.reconciler.instances import Instance, Instances
from leasehold.service.drivers.reconciler.order_rules import Action, Refuse, decide, no_room_for


class Desired(StrEnum):
    """The desired state of an instance."""

    UP = "up"
    SAVED = "saved"
    AWAY = "away"
    """At another site, with its memory."""
    GONE = "gone"


@dataclass(slots=True, kw_only=True)
class DesiredInstance(Instance):
    """An instance with a desired state.

    ``other_site``  where its machines come from, or go to
    ``from_site``   the site that they came or will come from, kept when they move on; empty if created here
    """

    desired: Desired = Desired.UP
    other_site: str = ""
    from_site: str = ""

    @property
    def is_leaving(self) -> bool:
        """Whether it is on its way out."""
        return self.desired in {Desired.AWAY, Desired.GONE}

    @property
    def is_observed(self) -> bool:
        """Whether it is reported; one on its way to another site is reported there."""
        return self.desired is not Desired.AWAY

    @property
    def is_handed_over(self) -> bool:
        """Whether the other site has what was sent, so that a STOP here finds nothing to end."""
        return False


D = TypeVar("D", bound=DesiredInstance)


class DesiredState(Instances[D]):
    """The instances of a site, whose desired state orders change; ``kind`` is their class."""

    def __init__(
        self,
        kind: type[D],
        slots: int,
        capabilities: Capabilities,
        instances: Iterable[D] = (),
        tombstones: Mapping[int, int] | None = None,
    ) -> None:
        super().__init__(instances, tombstones)
        self.slots = slots
        self._kind = kind
        self._capabilities = capabilities

    def of_lease(self, lease_id: int) -> list[D]:
        """List the instances of a lease, those on their way out too."""
        return [one for one in self.all() if one.lease_id == lease_id]

    def no_room_for(self, order: Order) -> Problem | None:
        """Say why the machines of an order have no room; None where they have."""
        current = self.current(order.lease_id)
        return no_room_for(order.vms if current is None else current.vms, self.used_vms, self.slots)

    def decide(self, order: Order, refuse: Refuse | None = None) -> Action | Problem:
        """Decide what is done with an order; without ``refuse`` only room is asked for."""
        current, tombstone = self.current(order.lease_id), self.tombstone(order.lease_id)
        return decide(order, current, tombstone, self._capabilities, refuse or (lambda _: self.no_room_for(order)))

    def changed_by(self, order: Order, action: Action) -> list[D]:
        """List the instances that an order changes: the current one, and what a STOP ends on its way elsewhere."""
        current = None if action is Action.NOTHING else self.current(order.lease_id)
        return [*([] if current is None else [current]), *self._ended_on_its_way(order)]

    def follow(
        self,
        order: Order,
        now_ms: int,
        refuse: Refuse | None = None,
        **fields: Any,  # noqa: ANN401 - of the kind
    ) -> Problem | None:
        """Follow an order; returns why it is not taken on. A new instance gets these fields."""
        action = self.decide(order, refuse)
        if isinstance(action, Problem):
            return action
        for one in self._ended_on_its_way(order):
            one.desired = Desired.GONE
            self.touch(one)
        current = self.current(order.lease_id)
        if action in {Action.CREATE, Action.RECEIVE}:
            phase = Phase.STARTING if action is Action.CREATE else Phase.RECEIVING
            site = order.other_site
            instance = self._kind.ordered(order, phase, now_ms, other_site=site, from_site=site, **fields)
            self.add(instance)
            self.report(instance)
        elif action in {Action.SEND, Action.STOP}:
            self._let_go(order, Desired.AWAY if action is Action.SEND else Desired.GONE)
        elif current is not None:
            self._change(current, action, order, now_ms)
        return None

    def _change(self, current: D, action: Action, order: Order, now_ms: int) -> None:
        if action is Action.SAVE:
            current.desired = Desired.SAVED
            self.become(current, Phase.SAVING, now_ms)
        elif action is Action.RESUME:
            current.incarnation, current.desired = order.incarnation, Desired.UP
            self.become(current, Phase.RESUMING, now_ms)
        elif action is Action.END_AGAIN:
            self.end_again(current, order.incarnation, now_ms)

    def _let_go(self, order: Order, desired: Desired) -> None:
        current = self.bury(order.lease_id, order.incarnation)
        if current is not None:
            current.desired, current.other_site = desired, order.other_site
            if desired is Desired.AWAY:
                current.incarnation = order.incarnation
            self.drop_news(order.lease_id)
            self.let_go(current)

    def let_go(self, instance: D) -> None:
        """Hook: an instance is on its way out."""

    def _ended_on_its_way(self, order: Order) -> list[D]:
        """List what a STOP ends that was to go to another site, and has not gone."""
        if order.verb is not Verb.STOP:
            return []
        sent = [one for one in self.of_lease(order.lease_id) if one.desired is Desired.AWAY]
        return [one for one in sent if one.incarnation <= order.incarnation and not one.is_handed_over]
