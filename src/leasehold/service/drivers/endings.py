"""What does the exit status of a command say of the place where it ran?"""

from leasehold.jobs.job import Fault

NOT_FOUND = 127
"""What every shell, and so every driver here, answers for a command that is not there."""

_FAULTS = {NOT_FOUND: Fault.SOFTWARE_GONE}


def fault_of_exit(status: int | None) -> str:
    """Say as which fault of its place an exit status counts; empty where it is the command's own affair."""
    return _FAULTS[status].value if status in _FAULTS else ""
