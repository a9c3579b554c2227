"""What the tables of the store are made of: columns that mean the same on both databases."""

from sqlalchemy import (
    REAL,
    BigInteger,
    Column,
    Double,
    ForeignKey,
    Integer,
    MetaData,
    Table,
    Text,
)
from sqlalchemy.schema import SchemaItem
from sqlalchemy.types import TypeEngine

# 64 bits on both; SQLite keys its rows by an INTEGER, and by nothing else.
WHOLE = BigInteger().with_variant(Integer(), "sqlite")
NUMBER: TypeEngine[float] = Double().with_variant(REAL(), "sqlite")

METADATA = MetaData(
    naming_convention={
        "pk": "%(table_name)s_key",
        "fk": "%(table_name)s_%(column_0_name)s_known",
        "uq": "%(table_name)s_%(column_0_name)s_once",
        "ix": "%(table_name)s_%(column_0_name)s",
    }
)


def table(name: str, *items: SchemaItem) -> Table:
    """A table in which SQLite is as strict about types as PostgreSQL."""
    return Table(name, METADATA, *items, sqlite_strict=True)


def text(name: str) -> Column[str]:
    """A text, which may be empty."""
    return Column(name, Text, nullable=False)


def text_key(name: str) -> Column[str]:
    """A text that rows are known by."""
    return Column(name, Text, primary_key=True)


def whole(name: str) -> Column[int]:
    """A whole number, which is always there."""
    return Column(name, WHOLE, nullable=False)


def whole_key(name: str) -> Column[int]:
    """A whole number that rows are known by."""
    return Column(name, WHOLE, primary_key=True, autoincrement=False)


def of_a_lease(*, nullable: bool, primary_key: bool = False) -> Column[int]:
    """The lease that a row belongs to; it may be written later within the same transaction."""
    known = ForeignKey("leases.id", deferrable=True, initially="DEFERRED")
    return Column("lease_id", WHOLE, known, nullable=nullable, primary_key=primary_key, autoincrement=False)


def of_a_job(*, primary_key: bool = False) -> Column[int]:
    """The job that a row belongs to; it may be written later within the same transaction."""
    known = ForeignKey("jobs.id", deferrable=True, initially="DEFERRED")
    return Column("job_id", WHOLE, known, nullable=False, primary_key=primary_key, autoincrement=False)
