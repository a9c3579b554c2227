"""What only the API says no to; the rest is in `leasehold.service.errors` and its neighbour in ``auth``."""

from leasehold.model.errors import LeaseholdError


class NoSuchToken(LeaseholdError):
    """There is no such token, or it was revoked before."""

    def __init__(self, token_id: str) -> None:
        super().__init__(f"token: got {token_id!r}, expected the id of a token that is not revoked")


class NoResult(LeaseholdError):
    """There is such a job, and nothing has come of it, or nothing ever will."""

    def __init__(self, job_id: int, state: str) -> None:
        super().__init__(f"job {job_id} is {state}, and has no result")


class TooManyStreams(LeaseholdError):
    """The consumer follows as many streams as it may."""

    def __init__(self, consumer: str, most: int) -> None:
        super().__init__(f"{consumer} has {most} streams open, which is as many as it may have")
