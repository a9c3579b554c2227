"""A table is declared by the dataclass of its rows; columns, SQL and the codec derive from that declaration.

``int``, ``str`` and ``float`` are columns of that type, ``X | None`` may be NULL, ``bool`` is 0 or 1, an
enumeration is its value. Everything else is JSON in a text. A part of a row, a dataclass within it, is
flattened: its own fields are the columns. Fields of the same name in two parts share one column.

Rows are written through the driver, with positional parameters and statements that are compiled once:
compiling and checking them for each of thousands of rows a second would cost more than writing them. For the same
reason one expression is compiled for each table that makes its record of a row: a restart reads hundreds of
thousands.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import Enum
from functools import lru_cache, partial
from operator import attrgetter
from types import UnionType
from typing import Annotated, Any, Generic, TypeVar, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter
from sqlalchemy import (
    REAL,
    BigInteger,
    Column,
    Dialect,
    Double,
    ForeignKey,
    Integer,
    MetaData,
    Select,
    Table,
    Text,
    and_,
    bindparam,
    delete,
    or_,
    select,
    text,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql import ClauseElement
from sqlalchemy.types import TypeEngine

from leasehold.model.request import LEASE_TYPES, LeaseType

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

R = TypeVar("R")
Values = Sequence[Any]
"""The values of a row, in the order of its columns."""


@dataclass(frozen=True, slots=True)
class Sql:
    """What the database is to know of a field besides its type; stands in its annotation.

    ``references``  the column that has the same value, as ``leases.id``: it may be written later within the
                    same transaction
    """

    key: bool = False
    index: bool = False
    unique: bool = False
    references: str = ""


KEY = Sql(key=True)
INDEXED = Sql(index=True)
UNIQUE = Sql(unique=True)
_NONE = Sql()


@dataclass(frozen=True, slots=True)
class _Codec:
    """How a value is written into its column, and read from there."""

    kind: TypeEngine[Any]
    encode: Callable[[Any], Any] | None = None
    decode: Callable[[Any], Any] | None = None
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class _Field:
    """One column: where in the record its value is, and how it is written."""

    path: str
    codec: _Codec


TABLES: "dict[type, RecordTable[Any]]" = {}
"""Tables by the class of their rows."""


class RecordTable(Generic[R]):
    """The table whose rows are objects of ``kind``.

    ``parts``    paths of the fields that are flattened, as ``lease.request``
    ``names``    columns whose name is not that of the field, by its path
    ``without``  paths of fields that are kept elsewhere, and have a default
    ``sql``      what the database is to know of a column, where no annotation says so
    ``extra``    columns that the database fills in, and no record has

    ``key`` gives that of a record: the values of its primary key, or of its unique column; ``record`` makes the record
    of a row.
    """

    def __init__(
        self,
        name: str,
        kind: type[R],
        *extra: Column[Any],
        parts: Iterable[str] = (),
        names: Mapping[str, str] | None = None,
        without: Iterable[str] = (),
        sql: Mapping[str, Sql] | None = None,
    ) -> None:
        self.kind = kind
        TABLES[kind] = self
        self._columns: dict[str, Column[Any]] = {}
        self._fields: list[_Field] = []
        self._parts, self._names, self._without = frozenset(parts), names or {}, frozenset(without)
        self._sql = sql or {}
        self._called: dict[str, Any] = {}
        expression = self._call(kind, "")
        self.record: Callable[[Values], R] = eval(f"lambda row: {expression}", self._called)  # noqa: S307 - our own
        self.table = Table(name, METADATA, *extra, *self._columns.values(), sqlite_strict=True)
        self.c = self.table.c
        self.names = tuple(self._columns)
        self._get = attrgetter(*(each.path for each in self._fields))
        self._encoded = [(number, each.codec.encode) for number, each in enumerate(self._fields) if each.codec.encode]
        primary = tuple(name for name, column in self._columns.items() if column.primary_key)
        self.key_columns = primary or tuple(name for name, column in self._columns.items() if column.unique)
        self.key = attrgetter(*(self._fields[self.names.index(name)].path for name in self.key_columns))

    def select(self) -> Select[Any]:
        """Ask for rows as `record` reads them."""
        return select(*(self.c[name] for name in self.names))

    def values(self, record: R) -> tuple[Any, ...]:
        """Give the row of a record."""
        return _encoded(self._get, self._encoded, record)

    def reader_of(self, columns: Iterable[str]) -> Callable[[R], tuple[Any, ...]]:
        """Give what reads the values of some columns, two or more, from a record."""
        fields = [self._fields[self.names.index(name)] for name in columns]
        get = attrgetter(*(each.path for each in fields))
        encoders = [(number, each.codec.encode) for number, each in enumerate(fields) if each.codec.encode]
        return partial(_encoded, get, encoders) if encoders else get

    def _call(self, kind: type, path: str) -> str:
        """Note the columns of a dataclass, and write the call that makes an object of it of the values of a ``row``."""
        hints = get_type_hints(kind, include_extras=True)
        arguments: list[str] = []
        for each in fields(kind):
            where = f"{path}{each.name}"
            if not each.init:
                continue
            if where in self._parts:
                arguments.append(f"{each.name}={self._call(hints[each.name], f'{where}.')}")
            elif where not in self._without:
                number = self._note(self._names.get(where, each.name), where, hints[each.name])
                decode = self._fields[number].codec.decode
                value = f"row[{number}]"
                arguments.append(f"{each.name}={value if decode is None else f'{self._name(decode)}({value})'}")
        is_positional = len(arguments) == len(fields(kind)) and not any(each.kw_only for each in fields(kind))
        if is_positional:
            arguments = [argument.partition("=")[2] for argument in arguments]
        return f"{self._name(kind)}({', '.join(arguments)})"

    def _name(self, called: Callable[..., Any]) -> str:
        """Give the name by which the expression calls something."""
        name = f"call_{len(self._called)}"
        self._called[name] = called
        return name

    def _note(self, name: str, path: str, hint: Any) -> int:  # noqa: ANN401 - any annotation
        """Note a column, and give the number of its value in a row."""
        if name in self._columns:
            return list(self._columns).index(name)
        hint, sql = _unmarked(hint)
        sql = self._sql.get(name, sql)
        codec = _codec(hint)
        known = ForeignKey(sql.references, deferrable=True, initially="DEFERRED") if sql.references else None
        self._columns[name] = Column(
            name,
            codec.kind,
            *([known] if known is not None else []),
            primary_key=sql.key,
            autoincrement=False,
            nullable=codec.nullable,
            index=sql.index or None,
            unique=sql.unique or None,
        )
        self._fields.append(_Field(path, codec))
        return len(self._fields) - 1


def _encoded(
    get: Callable[[Any], tuple[Any, ...]], encoders: Iterable[tuple[int, Callable[[Any], Any]]], record: object
) -> tuple[Any, ...]:
    """Read values from a record, and encode those that are written otherwise."""
    values = list(get(record))
    for number, encode in encoders:
        values[number] = encode(values[number])
    return tuple(values)


class Statements:
    """SQL text for the driver of one dialect; parameters are positional, in the order of a table's names."""

    def __init__(self, dialect: Dialect) -> None:
        self.is_sqlite = dialect.name == "sqlite"
        # psycopg takes %s, and SQLite ?
        positional: Any = type(dialect)
        self._dialect: Dialect = positional(paramstyle="qmark" if self.is_sqlite else "format")
        self._made: dict[tuple[Any, ...], str] = {}

    def insert(self, table: RecordTable[Any]) -> str:
        """Insert a row."""
        return self._once(("insert", table), lambda: self._compiled(table.table.insert().inline(), table.names))

    def upsert(self, table: RecordTable[Any]) -> str:
        """Insert a row, or put it in the place of the one with its key."""

        def make() -> str:
            insert = (sqlite if self.is_sqlite else postgresql).insert(table.table)
            key = [column.name for column in table.table.primary_key.columns]
            rest = {name: insert.excluded[name] for name in table.names if name not in key}
            statement = insert.on_conflict_do_update(index_elements=key, set_=rest)
            return self._compiled(statement, table.names)

        return self._once(("upsert", table), make)

    def update(self, table: RecordTable[Any], key: str, columns: tuple[str, ...]) -> str:
        """Set these columns of the row with this key; the key is the last parameter."""

        def make() -> str:
            values: dict[str, Any] = {name: bindparam(f"new_{name}") for name in columns}
            statement = update(table.table).where(table.c[key] == bindparam("of_key")).values(values)
            return self._compiled(statement)

        return self._once(("update", table, key, columns), make)

    def delete(self, table: RecordTable[Any], columns: tuple[str, ...]) -> str:
        """Delete the rows of which these columns have these values."""

        def make() -> str:
            return self._compiled(delete(table.table).where(*(table.c[name] == bindparam(name) for name in columns)))

        return self._once(("delete", table, columns), make)

    def select_by_keys(self, table: RecordTable[Any], count: int) -> str:
        """Ask for the rows with one of so many keys, each of several columns; the parameters are key after key."""

        def make() -> str:
            columns = [table.c[name] for name in table.key_columns]
            keys = [and_(*(column == bindparam(f"{column.name}_{n}") for column in columns)) for n in range(count)]
            return self._compiled(table.select().where(or_(*keys)))

        return self._once(("select by keys", table, count), make)

    def text(self, words: str) -> str:
        """Take SQL as it is written, with parameters as ``:name`` in their order."""
        return self._once(("text", words), lambda: self._compiled(text(words)))

    def _once(self, key: tuple[Any, ...], make: Callable[[], str]) -> str:
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    def _compiled(self, statement: ClauseElement, names: Sequence[str] | None = None) -> str:
        return str(statement.compile(dialect=self._dialect, column_keys=None if names is None else list(names)))


_STATEMENTS: dict[str, Statements] = {}


def statements_for(dialect: Dialect) -> Statements:
    """The statements of all stores of one dialect: each is compiled once in a process."""
    if dialect.name not in _STATEMENTS:
        _STATEMENTS[dialect.name] = Statements(dialect)
    return _STATEMENTS[dialect.name]


# --- codecs ------------------------------------------------------------------------------------------------


def _unmarked(hint: Any) -> tuple[Any, Sql]:  # noqa: ANN401 - any annotation
    if get_origin(hint) is Annotated:
        kind, *marks = get_args(hint)
        return kind, next((mark for mark in marks if isinstance(mark, Sql)), _NONE)
    return hint, _NONE


def _codec(hint: Any) -> _Codec:  # noqa: ANN401 - any annotation
    inner = _unless_none(hint)
    if inner in _PLAIN:
        return _Codec(_PLAIN[inner], nullable=inner is not hint)
    if hint is bool:
        return _Codec(WHOLE, int, bool)
    if hint is LeaseType:
        return _Codec(Text(), attrgetter("label"), LEASE_TYPES.__getitem__)
    if isinstance(inner, type) and issubclass(inner, Enum):
        members = {one.value: one for one in inner}
        if inner is hint:
            return _Codec(Text(), attrgetter("value"), members.__getitem__)
        return _Codec(Text(), lambda one: None if one is None else one.value, members.get, nullable=True)
    return _json(hint)


def _unless_none(hint: Any) -> Any:  # noqa: ANN401 - any annotation
    """Give X for ``X | None``, and anything else as it is."""
    options = [one for one in get_args(hint) if one is not type(None)] if get_origin(hint) is UnionType else ()
    return options[0] if len(options) == 1 else hint


_PLAIN: dict[Any, TypeEngine[Any]] = {int: WHOLE, str: Text(), float: NUMBER}


def _json(hint: Any) -> _Codec:  # noqa: ANN401 - any annotation
    """Write values as JSON, None as an empty text; what is the same in many rows is read and written once."""
    adapter: TypeAdapter[Any] = TypeAdapter(hint, config=None)

    def encode(value: Any) -> str:  # noqa: ANN401 - of the annotated type
        return "" if value is None else adapter.dump_json(value).decode()

    def decode(written: str) -> Any:  # noqa: ANN401 - of the annotated type
        return adapter.validate_json(written) if written else None

    if get_origin(hint) in {dict, list, Mapping}:
        return _Codec(Text(), encode, decode)
    return _Codec(Text(), lru_cache(1024)(encode), lru_cache(1024)(decode))
