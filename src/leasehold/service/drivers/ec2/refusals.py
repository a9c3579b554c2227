"""What does it mean when EC2 says no?"""

from collections.abc import Iterator
from contextlib import contextmanager

from botocore.exceptions import ClientError

from leasehold.service.drivers.reconciler.provider import PermanentError, TransientError

_TOO_MANY = frozenset({"RequestLimitExceeded", "RequestThrottled", "Throttling", "ThrottlingException"})
_FOR_GOOD = (
    "IdempotentParameterMismatch",
    "InvalidAMIID",
    "InvalidBlockDeviceMapping",
    "InvalidGroup",
    "InvalidKeyPair",
    "InvalidParameter",
    "InvalidSubnetID",
    "InvalidUserData",
    "MissingParameter",
    "Unsupported",
)
"""How the codes begin of what was asked wrongly. All else may change: room, limits, rights, the network."""


@contextmanager
def understood() -> Iterator[None]:
    """Raise TransientError where EC2 has been asked too often; the rest goes on as it is."""
    try:
        yield
    except ClientError as error:
        if code(error) in _TOO_MANY:
            raise TransientError(f"EC2 is asked too often: {code(error)}") from error
        raise


def for_good(error: ClientError) -> bool:
    """Whether asking again in the same words gets the same answer."""
    return code(error).startswith(_FOR_GOOD)


def hopeless(error: ClientError) -> PermanentError:
    """Say for good what EC2 says."""
    return PermanentError(f"EC2 says: {code(error)}: {error.response['Error'].get('Message', '')}")


def code(error: ClientError) -> str:
    """Give the code of an answer."""
    return str(error.response["Error"].get("Code", ""))
