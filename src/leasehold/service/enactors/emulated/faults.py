"""Which faults does an emulated site have? None, unless its configuration asks for them."""

import math
from dataclasses import dataclass, fields

from leasehold.configuration.keys import MOST_SEED, Keys
from leasehold.model.errors import InvalidField

_PROBABILITIES = frozenset(
    {
        "fail_orders",
        "refuse_orders",
        "lose_memory",
        "no_answer",
        "lose_observations",
        "repeat_observations",
        "fail_jobs",
        "software_gone",
    }
)


@dataclass(frozen=True, slots=True)
class Faults:
    """How often what goes wrong; raises InvalidField for a field that makes no sense.

    Of the machines:

    ``fail_orders``     probability that an order is not taken on, and may be told again
    ``refuse_orders``   probability that an order is never taken on, however often it is told; but for
                        SEND and STOP, without which nothing could be put right
    ``lose_memory``     probability that saving a lease's memory fails, and its machines are lost
    ``crash_per_hour``  how often the machines of a lease crash in an hour of running, on average
    ``slow_factor``     booting, saving, loading and moving take that many times as long
    ``delay_ms``        and this much longer

    Of the commands that run there, and of the nodes:

    ``fail_jobs``              probability that a command fails with an error of its own, on its way
    ``software_gone``          probability that the software of a command is gone when it begins
    ``node_death_per_hour``    how often a node dies in an hour on average, with all that it has
    ``service_stop_per_hour``  how often a node's own manager stops, and with it what it runs
    ``network_cut_per_hour``   how often a node cannot be reached; what it runs goes on unseen
    ``node_down_ms``           how long each of these lasts

    Of the wire to them:

    ``no_answer``             probability that whatever is asked is answered with an error
    ``lose_observations``     probability that a change is never told (it can be observed all the same)
    ``repeat_observations``   probability that a change is told twice
    ``observations_late_ms``  how much later changes are told

    ``seed`` draws another fate for everything.
    """

    fail_orders: float = 0.0
    refuse_orders: float = 0.0
    lose_memory: float = 0.0
    crash_per_hour: float = 0.0
    slow_factor: float = 1.0
    delay_ms: int = 0
    fail_jobs: float = 0.0
    software_gone: float = 0.0
    node_death_per_hour: float = 0.0
    service_stop_per_hour: float = 0.0
    network_cut_per_hour: float = 0.0
    node_down_ms: int = 600_000
    no_answer: float = 0.0
    lose_observations: float = 0.0
    repeat_observations: float = 0.0
    observations_late_ms: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        for field in fields(self):
            _check(field.name, getattr(self, field.name), whole=isinstance(field.default, int))


def read_faults(keys: Keys) -> Faults:
    """Take the faults out of a table of the configuration: the fields by their names, times in seconds.

    Raises InvalidField with the whole place of the key.
    """
    usual = Faults()
    rates = [field.name for field in fields(Faults) if isinstance(field.default, float)]
    with keys.inside():
        return Faults(
            **{name: keys.number(name, getattr(usual, name)) for name in rates},
            delay_ms=keys.milliseconds("delay_s", usual.delay_ms),
            node_down_ms=keys.milliseconds("node_down_s", usual.node_down_ms),
            observations_late_ms=keys.milliseconds("observations_late_s", usual.observations_late_ms),
            seed=keys.whole("seed", usual.seed, least=0, most=MOST_SEED),
        )


def _check(field: str, value: object, *, whole: bool) -> None:
    most = 1.0 if field in _PROBABILITIES else math.inf
    kind = int if whole else (int, float)
    if (
        isinstance(value, kind)
        and not isinstance(value, bool)
        and 0 <= value <= most
        and math.isfinite(value)
    ):
        return
    noun = "whole number" if whole else "number"
    bounds = "from 0 to 1" if field in _PROBABILITIES else "of at least 0"
    raise InvalidField(field, value, f"a {noun} {bounds}")
