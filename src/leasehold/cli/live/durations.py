"""Durations as people write them, and as Slurm shows them."""

from leasehold.configuration.times import read_duration_s

__all__ = ["read_duration_s", "show_duration"]


def show_duration(seconds: float) -> str:
    """Write a duration as Slurm does, without parts of seconds: ``0:07``, ``1:02:03``, ``2-01:02:03``."""
    minutes, second = divmod(max(int(seconds), 0), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days:
        return f"{days}-{hour:02}:{minute:02}:{second:02}"
    return f"{hour}:{minute:02}:{second:02}" if hour else f"{minute}:{second:02}"
