"""What a store can answer instead of what it was asked for, apart from defects (`InvariantBroken`)."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import exc

from leasehold.model.errors import InvariantBroken, LeaseholdError


class StoreUnavailable(LeaseholdError):
    """The store cannot serve now: its disk is full, its server is away, its file is locked for too long.

    Raised while writing, it means that the transaction must not be counted on. Only a connection that
    broke during the commit itself leaves open whether it was made; a caller that continues reads the store again.
    """


@contextmanager
def translated(store: object) -> Iterator[None]:
    """Let what the database raises leave as an error of Leasehold's own, which names the store."""
    try:
        yield
    except (exc.DataError, exc.IntegrityError, exc.ProgrammingError) as error:
        raise InvariantBroken(f"{store}: {_message(error)}") from error
    except exc.DBAPIError as error:
        raise StoreUnavailable(f"{store}: {_message(error)}") from error
    except exc.TimeoutError as error:
        raise StoreUnavailable(f"{store}: too many are reading at once") from error


def _message(error: exc.DBAPIError) -> str:
    """The database's own first line: without the statement, and so without the values in it."""
    return str(error.orig).strip().partition("\n")[0]
