"""Types of columns: those that a database gets for the types of Arrow, and what Arrow calls those it has."""

import sys
from typing import Any

import pyarrow as pa
import sqlalchemy as sa

_TYPES: dict[pa.DataType, type[sa.types.TypeEngine[Any]]] = {
    pa.date32(): sa.Date,
    pa.string(): sa.Text,
    pa.int32(): sa.Integer,
    pa.int64(): sa.BigInteger,
    pa.float64(): sa.Double,
    pa.bool_(): sa.Boolean,
}
# The first that fits: a SMALLINT is an Integer too, a DOUBLE PRECISION a Float.
_KINDS: tuple[tuple[type[sa.types.TypeEngine[Any]], pa.DataType], ...] = (
    (sa.SmallInteger, pa.int16()),
    (sa.BigInteger, pa.int64()),
    (sa.Integer, pa.int32()),
    (sa.REAL, pa.float32()),
    (sa.Float, pa.float64()),
    (sa.Boolean, pa.bool_()),
    (sa.Date, pa.date32()),
    (sa.String, pa.string()),
)
_WHOLE_NUMBERS = {"snowflake": (38, 0)}  # all that such a database has for them, whatever they were made as

_TEXTS = {"snowflake": 2**24, "redshift": 256}  # how long TEXT is where it has a length


def sql_type(kind: pa.DataType) -> sa.types.TypeEngine[Any]:
    """The type of a column for a released type of Arrow."""
    if pa.types.is_decimal(kind):
        return sa.Numeric(kind.precision, kind.scale)
    return _TYPES[kind]()


def sql_column(field: "pa.Field[Any]", **more: Any) -> "sa.Column[Any]":
    """A column for a field of Arrow, with its comment."""
    return sa.Column(
        field.name, sql_type(field.type), nullable=field.nullable, comment=comment_of(field), **more
    )


def comment_of(field: "pa.Field[Any]") -> str | None:
    """The comment in a field's metadata."""
    comment = (field.metadata or {}).get(b"comment")
    return None if comment is None else comment.decode()


def arrow_type(
    found: sa.types.TypeEngine[Any], wanted: pa.DataType | None, dialect: sa.Dialect
) -> pa.DataType:
    """The type of Arrow that a column of a database has.

    Args:
        found: its type, as the database tells it.
        wanted: the type that it should have; databases that have one type for several give it back.
        dialect: of the database.
    """
    if wanted is not None and _is_same(found, wanted, dialect):
        return wanted
    for kind, arrow in _KINDS:
        if isinstance(found, kind) and not _is_bounded(found, dialect):
            return arrow
    if isinstance(found, sa.Numeric) and found.precision is not None and 1 <= found.precision <= 38:
        return pa.decimal128(found.precision, found.scale or 0)
    return pa.opaque(pa.binary(), type(found).__name__, dialect.name)


def _is_bounded(found: sa.types.TypeEngine[Any], dialect: sa.Dialect) -> bool:
    """Whether a text is refused, cut or filled up there: of a length, of given words, a CHAR."""
    if isinstance(found, sa.Enum | sa.CHAR | sa.NCHAR):
        return True
    longest = _TEXTS.get(dialect.name, sys.maxsize)
    return isinstance(found, sa.String) and found.length is not None and found.length < longest


def _is_same(found: sa.types.TypeEngine[Any], wanted: pa.DataType, dialect: sa.Dialect) -> bool:
    if pa.types.is_integer(wanted) and dialect.name in _WHOLE_NUMBERS and isinstance(found, sa.Numeric):
        return (found.precision, found.scale or 0) == _WHOLE_NUMBERS[dialect.name]
    try:
        return found.compile(dialect) == sql_type(wanted).compile(dialect)
    except sa.exc.SQLAlchemyError:  # a type that SQLAlchemy does not know
        return False
