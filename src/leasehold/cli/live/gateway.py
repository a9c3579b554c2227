"""The gateway that the commands speak to, and what to do where that does not work."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leasehold.client import Client, RetryPolicy
    from leasehold.client.access import Access


def patience() -> "RetryPolicy":
    """Connect once, so that a gateway that does not run is reported at once; retry requests that were sent."""
    from leasehold.client import RetryPolicy

    return RetryPolicy(connect_tries=1)


@contextmanager
def gateway(timeout_s: float = 30.0) -> "Iterator[Client]":
    """Connect to the configured gateway; errors inside also say what to do about them."""
    from leasehold.client import Client

    with Client(retry=patience(), timeout_s=timeout_s) as client, advising(client.access):
        yield client


@contextmanager
def advising(access: "Access") -> Iterator[None]:
    """Add to an error what a person at a terminal can do."""
    from leasehold.client import Lost, NotSignedIn, Unreachable

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
    """Give the advice where no gateway answers for this reason."""
    from leasehold.client.access import data_folder

    if "certificate" in why.lower():
        return "LEASEHOLD_CA names a file with the certificate of the authority to trust, or its own"
    advice = "`leasehold serve` starts one, LEASEHOLD_URL names another"
    if "LEASEHOLD_URL" not in os.environ and "LEASEHOLD_DATA" in os.environ and not data_folder().is_dir():
        return f"{advice}; LEASEHOLD_DATA names {data_folder()}, which does not exist"
    return advice
