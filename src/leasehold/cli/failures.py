"""Which exit code goes with which error."""

from leasehold.cli.exit_codes import ANSWER_IS_NO, BAD_INPUT, DEFECT, UNREACHABLE
from leasehold.client.errors import Conflict, NotAllowed, NotFound, ServerFailed, TooMany, Unreachable
from leasehold.model.errors import LeaseholdError

_UNAVAILABLE = 503
_NO_RESULT = "no-result"
"""The job is there, and nothing has come of it: that is an answer, and no mistake of who asks."""


def exit_code(error: LeaseholdError) -> int:
    """Say how a command ends that this error ended."""
    if isinstance(error, Unreachable):
        return UNREACHABLE
    if isinstance(error, ServerFailed):
        return UNREACHABLE if error.problem.status == _UNAVAILABLE else DEFECT
    if isinstance(error, NotFound) and error.problem.slug == _NO_RESULT:
        return ANSWER_IS_NO
    return ANSWER_IS_NO if isinstance(error, Conflict | NotAllowed | TooMany) else BAD_INPUT
