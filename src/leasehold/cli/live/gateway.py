"""The gateway that the commands speak to, and what to do where that does not work."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from leasehold.client import Client, Lost, NotSignedIn, RetryPolicy, Unreachable
from leasehold.client.access import Access
from leasehold.client.local_gateway import data_folder

RETRY = RetryPolicy(connect_tries=1)
"""A person wants to know at once that nobody is there; but what was sent is asked after."""


@contextmanager
def gateway() -> Iterator[Client]:
    """Speak to the gateway that is meant; errors inside also say what to do about them."""
    with Client(retry=RETRY) as client, advising(client.access):
        yield client


@contextmanager
def advising(access: Access) -> Iterator[None]:
    """Say beside an error what a person at a terminal can do."""
    try:
        yield
    except Lost:
        raise
    except Unreachable as error:
        advice = _advice(error.why)
        raise Unreachable(error.url, f"{error.why} ({advice})") from error
    except NotSignedIn as error:
        origin = access.token.origin
        advice = f"the token is from {origin}" if origin else "there was none: LEASEHOLD_TOKEN may hold one"
        detail = f"{error.problem.detail or error} ({advice})"
        raise NotSignedIn(error.problem.model_copy(update={"detail": detail})) from error


def _advice(why: str) -> str:
    """Say what a person can do where no gateway answers for this reason."""
    if "certificate" in why.lower():
        return "LEASEHOLD_CA names a file with the certificate of the authority to trust, or its own"
    advice = "`leasehold serve` starts one, LEASEHOLD_URL names another"
    if "LEASEHOLD_URL" not in os.environ and "LEASEHOLD_DATA" in os.environ and not data_folder().is_dir():
        return f"{advice}; LEASEHOLD_DATA names {data_folder()}, which does not exist"
    return advice
