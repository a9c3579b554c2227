"""Which faults does an emulated site have? None, unless its configuration asks for them."""

import math
from dataclasses import dataclass
from typing import Annotated

from leasehold.configuration.declaration import Key, Table
from leasehold.configuration.keys import MOST_SEED
from leasehold.configuration.kinds import Number, Seconds, Whole
from leasehold.model.errors import InvalidField


def _probability(doc: str, more: str = "") -> Number:
    return Number(f"probability that {doc}", more=more, least=0, most=1)


@dataclass(frozen=True, slots=True)
class Faults:
    """How often what goes wrong; raises InvalidField for a field that makes no sense."""

    # of the commands that run there, and of the nodes

    fail_jobs: Annotated[
        float, _probability("a command fails with an error of its own", " (exit status 1), on its way")
    ] = 0.0
    software_gone: Annotated[float, _probability("a command is not found when it begins", " (exit status 127)")] = 0.0
    node_death_per_hour: Annotated[
        float,
        Number("how often a node dies in an hour on average", more=", with all that is on it", least=0),
    ] = 0.0
    service_stop_per_hour: Annotated[
        float, Number("how often its own manager stops, and with it all that runs there", least=0)
    ] = 0.0
    network_cut_per_hour: Annotated[
        float,
        Number(
            "how often it cannot be reached",
            more="; what is on it goes on unseen, and is seen again afterwards",
            least=0,
        ),
    ] = 0.0
    node_down_ms: Annotated[int, Seconds("how long each of these lasts")] = 600_000

    # of the machines

    fail_orders: Annotated[float, _probability("an order is not taken on, and may be told again")] = 0.0
    refuse_orders: Annotated[
        float,
        # but for SEND and STOP, without which nothing could be put right
        _probability("one is never taken on, however often it is told"),
    ] = 0.0
    lose_memory: Annotated[float, _probability("saving memory fails, and the machines are lost")] = 0.0
    crash_per_hour: Annotated[
        float, Number("how often the machines of a lease crash in an hour, on average", least=0)
    ] = 0.0
    slow_factor: Annotated[
        float, Number("booting, saving, loading and moving take that many times as long", least=0)
    ] = 1.0
    delay_ms: Annotated[int, Seconds("and this much longer")] = 0

    # of the wire to them

    no_answer: Annotated[float, _probability("whatever is asked is answered with an error")] = 0.0
    lose_observations: Annotated[
        float,
        # it can be observed all the same
        _probability("a change is never told"),
    ] = 0.0
    repeat_observations: Annotated[float, _probability("it is told twice")] = 0.0
    observations_late_ms: Annotated[int, Seconds("how much later changes are told")] = 0
    seed: Annotated[int, Whole("draws another fate for everything", least=0, most=MOST_SEED)] = 0

    def __post_init__(self) -> None:
        for name, key in FAULTS.declared.items():
            _check(name, getattr(self, name), key)


FAULTS = Table(Faults, "What goes wrong, and how often.")


def _check(field: str, value: object, key: Key) -> None:
    kind, noun = ((int, float), "number") if isinstance(key, Number) else (int, "whole number")
    is_probability = isinstance(key, Number) and key.most == 1
    most = 1.0 if is_probability else math.inf
    if isinstance(value, kind) and not isinstance(value, bool) and 0 <= value <= most and math.isfinite(value):
        return
    bounds = "from 0 to 1" if is_probability else "of at least 0"
    raise InvalidField(field, value, f"a {noun} {bounds}")
