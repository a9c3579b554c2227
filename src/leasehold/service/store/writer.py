"""The one connection that writes, and its claim to be the only one."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from leasehold.model.errors import InputError
from leasehold.service.store.claim import Claim


class Writer:
    """Gives out its connection to one thread at a time, for one transaction at a time."""

    def __init__(self, engine: Engine, claim: Claim) -> None:
        self._engine = engine
        self._claim = claim
        self._claimed = False
        self._turn = threading.RLock()  # a transaction within a transaction is then an error, and no silence
        self._connection: Connection | None = None

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """One transaction: committed at the end, rolled back where anything is raised."""
        with self._turn, self._surviving() as connection, connection.begin():
            yield connection

    def claim(self) -> None:
        """Be the only one who writes, until `let_go`; InputError where somebody else is."""
        with self._turn, self._surviving() as connection:
            self._take(connection)
            self._claimed = True

    def let_go(self) -> None:
        """Give connection and claim back; the next transaction opens the connection anew."""
        with self._turn:
            self._hang_up()
            self._claim.drop()
            self._claimed = False

    @contextmanager
    def _surviving(self) -> Iterator[Connection]:
        """The connection, fit for the next transaction afterwards; one that broke gives way to a new one."""
        connection = self._connected()
        try:
            yield connection
        except DBAPIError as error:
            if error.connection_invalidated:
                self._hang_up()
            else:
                connection.connection.rollback()  # SQLite keeps a transaction whose commit it refused
            raise

    def _connected(self) -> Connection:
        if self._connection is None:
            connection = self._engine.connect()
            if self._claimed:
                self._take(connection)
            self._connection = connection
        return self._connection

    def _take(self, connection: Connection) -> None:
        if not self._claim.take(connection):
            self._hang_up()
            raise InputError(self._engine.url, None, "is in use by another gateway")

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
