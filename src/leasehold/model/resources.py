"""What machines are made of, and nodes: cores, memory and GPUs by model, whole or in fractions.

A GPU is counted in *thousandths*: 1,000 is a whole one, 500 half of one. A fraction is always of one device: two
halves on different devices do not make a whole GPU. What hardware calls a GPU of its own, such as a MIG instance, is a
model of its own (``a100_1g.10gb``), and is asked for whole.

Everything here is a whole number. A node that states no memory (0) has no limit on it.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from leasehold.model.errors import InvalidField, UnknownName
from leasehold.model.request import GPU_MILLI, MOST_GPU_MILLI, Request

MOST_DEVICES = MOST_GPU_MILLI // GPU_MILLI
MOST_SHARES = 1_000
MODEL_NAME = re.compile(r"(?=[^:]*[A-Za-z])[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_MODEL_ALONE = re.compile(f"(?P<model>{MODEL_NAME.pattern})")
_ASKED = re.compile(rf"(?:{_MODEL_ALONE.pattern}:)?(?P<whole>[0-9]{{0,4}})(?:\.(?P<part>[0-9]{{1,3}}))?")

Placed = tuple[tuple[str, int, tuple[int, ...]], ...]
"""On which nodes the machines of a lease are: node, number of machines, and the devices that they have there.

Of whole GPUs each machine has as many devices as it asks for, in order; of a fraction each has one.
"""


def nodes_of(placed: Placed) -> tuple[tuple[str, int], ...]:
    """Give the nodes, with the number of machines on each, in the order of their names."""
    return tuple(sorted((name, machines) for name, machines, _ in placed))


@dataclass(frozen=True, slots=True)
class NodeResources:
    """One node as the plan counts it.

    ``gpus``        number of its GPU devices, all of one ``gpu_model``
    ``gpu_shares``  into how many parts each device can be divided; 1: a fraction takes a whole one; 0: fractions are
                    refused, as the machines here do not know any
    """

    name: str
    cores: int
    memory_mib: int = 0
    gpu_model: str = ""
    gpus: int = 0
    gpu_shares: int = 1

    def __post_init__(self) -> None:
        """Refuse what no node can be; raises InvalidField."""
        for name, least, most in (("cores", 1, 1 << 40), ("memory_mib", 0, 1 << 40)):
            _check_number(f"{name} of node {self.name}", getattr(self, name), least, most)
        _check_number(f"gpus of node {self.name}", self.gpus, 0, MOST_DEVICES)
        _check_number(f"gpu_shares of node {self.name}", self.gpu_shares, 0, MOST_SHARES)
        if self.gpus and not MODEL_NAME.fullmatch(self.gpu_model):
            expected = "the name of a model, such as a100"
            raise InvalidField(f"gpu_model of node {self.name}", self.gpu_model, expected)

    @property
    def shares(self) -> int:
        """In how many shares each device is counted."""
        return max(1, self.gpu_shares)

    def shares_for(self, gpu_milli: int) -> int:
        """How many shares of one device here make that fraction, rounded up."""
        return -(-gpu_milli * self.shares // GPU_MILLI)

    def machines(self, shape: "MachineShape") -> int:
        """How many machines of this shape an empty node has room for; 0: it can never have one."""
        most = self.cores // shape.cores
        if shape.nodes:
            most = min(most, int(self.name in shape.nodes))
        if self.memory_mib:
            most = min(most, self.memory_mib // shape.memory_mib)
        if not shape.gpu_milli:
            return most
        if not self.gpus or shape.gpu_model not in ("", self.gpu_model):
            return 0
        if shape.gpu_milli >= GPU_MILLI:
            return min(most, self.gpus // (shape.gpu_milli // GPU_MILLI))
        if not self.gpu_shares:
            return 0
        return min(most, self.gpus * (self.gpu_shares // self.shares_for(shape.gpu_milli)))


@dataclass(frozen=True, slots=True)
class MachineShape:
    """What one machine of a request needs on its node.

    ``nodes``  where each has to be on another one of these; () for any
    """

    cores: int
    memory_mib: int
    gpu_model: str = ""
    gpu_milli: int = 0
    nodes: tuple[str, ...] = ()

    @classmethod
    def of(cls, request: Request) -> "MachineShape":
        """Take it from a request."""
        return cls(request.cores, request.memory_mib, request.gpu_model, request.gpu_milli, request.on_nodes)


def is_plain(request: Request) -> bool:
    """Whether a machine needs nothing but a slot, as any site has."""
    return request.cores == 1 and not request.gpu_milli


def room_for(nodes: Iterable[NodeResources], shape: MachineShape) -> int:
    """How many machines of this shape empty nodes have room for together."""
    return sum(node.machines(shape) for node in nodes)


def gpus_of(nodes: Iterable[NodeResources]) -> dict[str, int]:
    """How many GPUs of each model these nodes have, by model in alphabetical order."""
    found: dict[str, int] = {}
    for node in nodes:
        if node.gpus:
            found[node.gpu_model] = found.get(node.gpu_model, 0) + node.gpus
    return dict(sorted(found.items()))


def parse_gpus(text: str, field: str = "gpus") -> tuple[str, int]:
    """Read ``a100:2``, ``a100:0.5``, ``a100`` (one) or ``2`` (of any model): the model, and thousandths of a GPU.

    Raises InvalidField; fractions are below 1, and have at most three decimal places.
    """
    expected = "MODEL:NUMBER such as a100:2 or a100:0.5, a model, or a number; fractions only below 1"
    matched = _ASKED.fullmatch(text.strip()) or _MODEL_ALONE.fullmatch(text.strip())
    if matched is None:
        raise InvalidField(field, text, expected)
    found = {"model": "", "whole": "1", "part": ""} | matched.groupdict("")
    model, milli = found["model"], int(found["whole"] or "0") * GPU_MILLI + int(found["part"].ljust(3, "0"))
    is_broken = milli > GPU_MILLI and milli % GPU_MILLI
    if is_broken or not 1 <= milli <= MOST_GPU_MILLI:
        raise InvalidField(field, text, expected)
    return model, milli


def gpus_text(model: str, gpu_milli: int) -> str:
    """Write what `parse_gpus` reads; "" for none."""
    if not gpu_milli:
        return ""
    whole, part = divmod(gpu_milli, GPU_MILLI)
    number = f"{whole}.{part:03}".rstrip("0") if part else str(whole)
    return f"{model}:{number}" if model else number


def check_gpus(model: str, gpu_milli: int, field: str = "gpu_milli") -> None:
    """Refuse GPUs that no machine can have; raises InvalidField."""
    if gpu_milli > GPU_MILLI and gpu_milli % GPU_MILLI:
        raise InvalidField(field, gpu_milli, "a fraction of one GPU, or a number of whole ones")
    if not 0 <= gpu_milli <= MOST_DEVICES * GPU_MILLI or (model and not gpu_milli):
        raise InvalidField(field, gpu_milli, f"more than 0, and at most {MOST_DEVICES} GPUs")


def check_model(model: str, known: Iterable[str]) -> None:
    """Refuse a GPU model that no site has; raises UnknownName with the nearest name."""
    models = sorted(set(known))
    if model and not models:
        raise InvalidField("gpus", model, "none: no site here states any GPUs")
    if model and model not in models:
        raise UnknownName("gpus", model, models)


def _check_number(field: str, value: int, least: int, most: int) -> None:
    if type(value) is not int or not least <= value <= most:
        raise InvalidField(field, value, f"a whole number from {least} to {most:,}")
