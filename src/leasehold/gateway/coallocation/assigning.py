"""Which component goes to which site, so that all of them have room at the same time?

The widest component chooses first, then the next, as KOALA does. Where that leads to a component without a
place, those before it take their next best site: so a way is found if there is one, within `MOST_LOOKS` and
the budget of the instant.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from leasehold.gateway.budget import WorkBudget
from leasehold.gateway.coallocation.placement.policy import Option, PlacementPolicy
from leasehold.gateway.coallocation.rooms import Room
from leasehold.model.coallocation import Component

MOST_LOOKS = 2_000
"""How many places are tried before no way counts as found."""

Window = Callable[[str, int, int], tuple[int, int] | None]
"""From when until when a component holds machines of a site, told how long its files travel there and how
long it runs (ms); None: it cannot be there in time."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A component without a place: which it is, its work in work units, and the sites that it may go to."""

    index: int
    component: Component
    work: int
    sites: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Choice:
    option: Option
    begin_ms: int
    end_ms: int


class Assigner:
    """Looks for places for components in ``rooms``, which it leaves as they were."""

    def __init__(self, rooms: Mapping[str, Room], policy: PlacementPolicy, window: Window, budget: WorkBudget) -> None:
        """Look in these rooms, with this window, as long as the budget lasts."""
        self._rooms = rooms
        self._budget = budget
        self._policy = policy
        self._window = window
        self._looks_left = MOST_LOOKS

    def assign(self, wanted: Sequence[Wanted]) -> dict[int, str] | None:
        """Give a site to each component, by its index; None where no way was found."""
        in_turn = sorted(wanted, key=lambda one: (-one.component.vms, one.index))
        return self._place(in_turn)

    def _place(self, wanted: Sequence[Wanted]) -> dict[int, str] | None:
        if not wanted:
            return {}
        first, others = wanted[0], wanted[1:]
        for choice in self._choices(first):
            if self._looks_left <= 0 or self._budget.is_spent:
                return None
            self._looks_left -= 1
            room, vms = self._rooms[choice.option.site], first.component.vms
            room.take(choice.begin_ms, choice.end_ms, vms)
            places = self._place(others)
            room.give(choice.begin_ms, choice.end_ms, vms)
            if places is not None:
                return {first.index: choice.option.site, **places}
        return None

    def _choices(self, wanted: Wanted) -> list[_Choice]:
        """Give the places that a component could have, the one that it likes best first."""
        found = [choice for site in wanted.sites if (choice := self._look_at(wanted, self._rooms[site]))]
        return sorted(found, key=lambda choice: self._policy(choice.option))

    def _look_at(self, wanted: Wanted, room: Room) -> _Choice | None:
        transfer_ms = room.transfer_ms(wanted.component)
        window = self._window(room.name, transfer_ms, room.span_ms(wanted.work))
        if window is None:
            return None
        free_vms = room.free_vms(*window)
        if free_vms < wanted.component.vms:
            return None
        return _Choice(Option(room.name, free_vms, transfer_ms), *window)


def could_fit(components: Sequence[Component], vms: Mapping[str, int]) -> bool:
    """Whether components would find room at the same time at sites that are empty and have so many VMs.

    Counts as yes where that is not found out within `MOST_LOOKS`.
    """
    left, looks = dict(vms), iter(range(MOST_LOOKS))

    def place(rest: Sequence[Component]) -> bool:
        if not rest:
            return True
        first = rest[0]
        for site in (first.site,) if first.site else tuple(left):
            if next(looks, None) is None:
                return True
            if left[site] >= first.vms:
                left[site] -= first.vms
                found = place(rest[1:])
                left[site] += first.vms
                if found:
                    return True
        return False

    return place(sorted(components, key=lambda one: -one.vms))
