"""Find a value of a kind that its column cannot have.

SQLite stores any kind of value in any column; a ledger's file from elsewhere may hold
text where bytes belong. Reading commands do not look at each value for that: it is only
once one of them has stumbled that the whole database is searched, so that the fault is
named and no other is taken for it. PostgreSQL keeps its columns' types by itself.
"""

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Integer,
    LargeBinary,
    Table,
    and_,
    func,
    inspect,
    select,
)

from ledger.schema import METADATA

__all__ = ["MISTYPED", "wrong_cell"]

# What a value of another kind makes of the code that reads it.
MISTYPED = (AttributeError, OverflowError, TypeError, ValueError)


def wrong_cell(connection: Connection) -> str:
    """Return a sentence about a value of a wrong kind; empty if there is none."""
    if connection.dialect.name != "sqlite":
        return ""
    present = set(inspect(connection).get_table_names())
    for table in METADATA.sorted_tables:
        if table.name in present:
            for column in table.columns:
                found = _first_wrong(connection, table, column)
                if found is not None:
                    return f"{table.name}.{column.name} holds {found}"
    return ""


def _first_wrong(
    connection: Connection, table: Table, column: Column[object]
) -> str | None:
    kind = func.typeof(column)
    found: str | None = connection.execute(
        select(kind)
        .select_from(table)
        .where(and_(kind != _expected(column), kind != "null"))
        .limit(1)
    ).scalar_one_or_none()
    if found is None and not column.nullable:
        is_null = select(kind).select_from(table).where(column.is_(None)).limit(1)
        found = connection.execute(is_null).scalar_one_or_none()
    return found


def _expected(column: Column[object]) -> str:
    if isinstance(column.type, LargeBinary):
        return "blob"
    if isinstance(column.type, BigInteger | Integer):
        return "integer"
    return "text"
