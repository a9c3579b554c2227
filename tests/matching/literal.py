"""Algorithm 1 of Thamarai Selvi et al. word for word: only the test that shows its erratum uses it."""


def queue_as_printed(execution: float, deadline: float, mean_execution: float, mean_deadline: float) -> int | None:
    """The queue that the printed conditions give; none where none of them holds."""
    if deadline <= mean_deadline and execution >= mean_execution:
        return 1
    if (
        deadline <= mean_deadline
        and execution <= mean_execution
        and deadline >= mean_execution
        and execution >= mean_execution
    ):
        return 2
    if deadline >= mean_deadline and execution <= mean_execution:
        return 3
    return None
