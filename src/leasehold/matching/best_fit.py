"""Which nodes are near enough in memory? The resource set of a job (Thamarai Selvi et al., section 4.2).

Rule: of the nodes with the software, those with ``needed <= free <= needed + value + extend`` MiB free.
``extend`` starts at 0 and grows by a step until enough nodes are in the set, or all that there are.

Source: the text of section 4.2. The printed Algorithm 2 turns the inequality round, adds its value to the
memory of the node instead of the job's, and never says by how much ``extendvalue`` grows. Value 10 as
printed; MiB, and a step of 10, are readings.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from leasehold.model.errors import InvalidField


@dataclass(frozen=True, slots=True)
class BestFit:
    """How near in memory a node has to be: ``value_mib`` at first, ``step_mib`` more at a time.

    Raises InvalidField for a negative value or a step that is no step.
    """

    value_mib: int = 10
    step_mib: int = 10

    def __post_init__(self) -> None:
        """Refuse a window that does not grow."""
        if self.value_mib < 0 or self.step_mib < 1:
            raise InvalidField("best fit", self, "value_mib of at least 0 and step_mib of at least 1")

    def upper_mib(self, needed_mib: int, free_mib: Iterable[int], enough: int) -> int | None:
        """Give the upper end of the window, or none where all nodes together are not enough.

        ``free_mib`` is what suitable nodes have free, the least first, none with less than is needed.
        """
        last_mib = next(islice(free_mib, enough - 1, None), None)
        if last_mib is None:
            return None
        beyond_mib = max(0, last_mib - needed_mib - self.value_mib)
        steps = -(-beyond_mib // self.step_mib)
        return needed_mib + self.value_mib + steps * self.step_mib


AS_PRINTED = BestFit()
"""10 MiB, and 10 more at a time."""
