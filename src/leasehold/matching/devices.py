"""GPU devices, one by one: what is free of each, and what machines take of them.

Everything is in thousandths of a device, as in `leasehold.model.resources`. A machine has whole devices, or a fraction
of one. So two devices that are half free have room for two halves, and for no whole one; sums would not tell.

A node lends each of its devices in a number of shares. What is free of one is a number of these, in thousandths rounded
down; what a machine takes is rounded up to whole shares. Which devices machines get is for the plan of the site to say.
Here they are taken to be there as the plan would put them, the largest first: each on the device with the least room
that is enough.
"""

from collections.abc import Iterable
from operator import ge

from leasehold.model.request import GPU_MILLI

Devices = tuple[int, ...]
"""Thousandths of each device, the most first."""


def devices_of(gpu_milli: int) -> Devices:
    """Give what a machine takes of each device that asks for so much: all of some, or a part of one."""
    return (GPU_MILLI,) * (gpu_milli // GPU_MILLI) if gpu_milli >= GPU_MILLI else (gpu_milli,) * bool(gpu_milli)


def free_milli(free_shares: int, shares: int) -> int:
    """Give what is free of a device in thousandths, rounded down."""
    return GPU_MILLI * free_shares // shares


def have_room(free: Devices, wanted: Devices) -> bool:
    """Whether one machine has room for what it wants of each device, every part on a device of its own."""
    return len(wanted) <= len(free) and all(map(ge, free, wanted))


def less(free: Devices, taken: Devices, shares: int) -> Devices:
    """Give what is left when machines have so much; for one that has no room, as much is missing of several devices."""
    left = list(free)
    for part in taken:
        missing = shares_of(part, shares)
        at = max((i for i, one in enumerate(left) if one >= part), default=0)
        while missing and at < len(left):
            there = shares_of(left[at], shares)
            left[at] = free_milli(max(0, there - missing), shares)
            missing, at = max(0, missing - there), at + 1
        left.sort(reverse=True)
    return tuple(left)


def more(free: Devices, back: Devices, shares: int) -> Devices:
    """Give what is free when machines have given so much back, each on the device with the least free that had it.

    What no device can have held is left out.
    """
    for part in back:
        room = ((i, shares_of(one, shares) + shares_of(part, shares)) for i, one in enumerate(free))
        at, freed = max(((i, sum_of) for i, sum_of in room if sum_of <= shares), default=(-1, 0))
        if at >= 0:
            free = in_order((*free[:at], free_milli(freed, shares), *free[at + 1 :]))
    return free


def have_shares(free: Devices, taken: Devices, shares: int) -> bool:
    """Whether there are as many shares as machines have together, whichever devices they are of."""
    return sum(shares_of(part, shares) for part in taken) <= sum(shares_of(one, shares) for one in free)


def in_order(parts: Iterable[int]) -> Devices:
    """Put the most first."""
    return tuple(sorted(parts, reverse=True))


def can_be_free(free: Devices, gpus: int, shares: int) -> bool:
    """Whether that can be free of so many devices with so many shares each: whole shares of each, the most first."""
    are_shares = all(0 <= one <= GPU_MILLI and one == free_milli(shares_of(one, shares), shares) for one in free)
    return len(free) == gpus and free == in_order(free) and are_shares


def shares_of(milli: int, shares: int) -> int:
    """Round up: what is free was rounded down before, and is as many shares as it was."""
    return -(-milli * shares // GPU_MILLI)
