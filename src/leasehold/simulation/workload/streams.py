"""Named random streams: the numbers that a purpose sees depend on the seed and its name, on nothing else."""

import hashlib
import random


def random_stream(seed: int, *purpose: str) -> random.Random:
    """Return the generator of one purpose, such as ``random_stream(7, "C64", "sizes")``.

    The same on every machine and in every run (SHA-256, not ``hash``), and independent of all other purposes:
    to change what one draws, or how often, never shifts the others.
    """
    name = "\0".join((str(seed), *purpose))
    return random.Random(int.from_bytes(hashlib.sha256(name.encode()).digest()))
