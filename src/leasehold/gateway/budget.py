"""How much one instant may look at: counted, never timed, so that decisions are the same on any machine.

A *look* is one place examined for one component; long plans count for more, at so many steps for each look.
On an ordinary processor a look takes some five to ten microseconds.
"""

LOOKS_EACH_INSTANT = 4_000
"""What all co-allocations together may look at in one instant."""


class WorkBudget:
    """Counts looks; who spends them asks now and then whether any are left, and stops where none are."""

    def __init__(self, looks: int = LOOKS_EACH_INSTANT) -> None:
        """Begin with this many looks."""
        self.looks = looks
        self.left = looks

    def renew(self) -> None:
        """Begin anew: this is another instant."""
        self.left = self.looks

    def spend(self, looks: int = 1) -> None:
        """Count looks; the last ones may be more than were left."""
        self.left -= looks

    @property
    def spent(self) -> int:
        """How many looks were spent."""
        return self.looks - self.left

    @property
    def is_whole(self) -> bool:
        """Whether nothing has been spent."""
        return self.left == self.looks

    @property
    def is_spent(self) -> bool:
        """Whether it is time to stop."""
        return self.left <= 0
