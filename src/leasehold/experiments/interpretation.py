"""How a publication is read where it leaves something open."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Interpretation:
    """How one thing is read that the publication leaves open, and why."""

    key: str
    reading: str
    why: str
