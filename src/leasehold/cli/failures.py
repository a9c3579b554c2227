"""Which exit code goes with which error."""

from leasehold.cli.exit_codes import ANSWER_IS_NO, BAD_INPUT, DEFECT, UNREACHABLE
from leasehold.client.errors import Conflict, NotAllowed, ServerFailed, TooMany, Unreachable
from leasehold.model.errors import LeaseholdError

_UNAVAILABLE = 503


def exit_code(error: LeaseholdError) -> int:
    """Say how a command ends that this error ended."""
    if isinstance(error, Unreachable):
        return UNREACHABLE
    if isinstance(error, ServerFailed):
        return UNREACHABLE if error.problem.status == _UNAVAILABLE else DEFECT
    return ANSWER_IS_NO if isinstance(error, Conflict | NotAllowed | TooMany) else BAD_INPUT
