"""The exit status of every command, and which one goes with which error; see docs/reference/exit-codes.md."""

from leasehold.model.errors import LeaseholdError

DONE = 0
ANSWER_IS_NO = 1
BAD_INPUT = 2
DEFECT = 3
UNREACHABLE = 4
INTERRUPTED = 130


def exit_code(error: LeaseholdError) -> int:
    """Give the exit status of a command that this error ended."""
    from http import HTTPStatus

    from leasehold.client.errors import Conflict, NotAllowed, NotFound, ServerFailed, TooMany, Unreachable

    if isinstance(error, Unreachable):
        return UNREACHABLE
    if isinstance(error, ServerFailed):
        return UNREACHABLE if error.problem.status == HTTPStatus.SERVICE_UNAVAILABLE else DEFECT
    if isinstance(error, NotFound) and error.problem.slug == "no-result":
        return ANSWER_IS_NO  # the job exists but has produced no result: an answer, not a mistake of the caller
    return ANSWER_IS_NO if isinstance(error, Conflict | NotAllowed | TooMany) else BAD_INPUT
