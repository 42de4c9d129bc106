"""Copy a ledger's database, row by row, between SQLite and PostgreSQL.

Contract: everything the source holds at one moment goes into an empty target in one
transaction, table after table in the order of their foreign keys; then the target is
read back and every table compared by count and by a digest over its rows in the order
of their keys. A target that holds anything is refused, and one that differs is not
committed. Leaf files and log are files and not touched here. Rows are streamed: memory
does not grow with the ledger.
"""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256

from sqlalchemy import Connection, Engine, Table, insert, select

from ledger.errors import DifferenceFound, StoreUnavailable, TargetNotEmpty
from ledger.migrations import migrate, stored_version
from ledger.schema import METADATA, SCHEMA_VERSION, schema_version

__all__ = ["CopyReport", "TableDigest", "copy_database", "table_digest"]

_BATCH = 1000
Tell = Callable[[str, float], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDigest:
    """A table's rows: how many, and SHA-256 over them in the order of their keys."""

    name: str
    rows: int
    digest: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyReport:
    """What was copied and found equal."""

    tables: tuple[TableDigest, ...]

    @property
    def rows(self) -> int:
        """Rows of all tables."""
        return sum(table.rows for table in self.tables)


def copy_database(
    source: Connection, target: Engine, tell: Tell | None = None
) -> CopyReport:
    """Copy every row and compare.

    Args:
        source: one read transaction on a ledger of the current schema.
        target: a database without tables, or with empty ones.
        tell: told the table at work and the share done.

    Raises:
        StoreUnavailable: the source is of another schema, or the target not empty.
        DifferenceFound: the copy reads back differently; nothing was committed.
    """
    version = stored_version(source)
    if version != SCHEMA_VERSION:
        raise StoreUnavailable(
            f"ledger schema {version} is not copied, only {SCHEMA_VERSION}"
        )
    tables = [table for table in METADATA.sorted_tables if table is not schema_version]
    tell = tell or _silence
    with target.begin() as connection:
        _make_ready(connection, tables)
        digests = []
        for n, table in enumerate(tables):
            tell(table.name, n / len(tables))
            written = _copy_table(source, connection, table)
            found = table_digest(connection, table)
            if found != written:
                raise DifferenceFound(
                    f"table {table.name}: {written.rows} rows were copied, "
                    f"{found.rows} read back, or otherwise"
                )
            digests.append(found)
    return CopyReport(tables=tuple(digests))


def table_digest(connection: Connection, table: Table) -> TableDigest:
    """Return a table's count and digest; the same on every kind of database."""
    digest, n_rows = sha256(), 0
    for row in _rows(connection, table):
        digest.update(_encoded(row))
        n_rows += 1
    return TableDigest(name=table.name, rows=n_rows, digest=digest.digest())


def _make_ready(connection: Connection, tables: list[Table]) -> None:
    migrate(connection)
    for table in tables:
        if connection.execute(select(table).limit(1)).first() is not None:
            raise TargetNotEmpty(f"the target has rows in its table {table.name}")


def _copy_table(source: Connection, target: Connection, table: Table) -> TableDigest:
    digest, n_rows = sha256(), 0
    names = [column.name for column in table.columns]
    rows = _rows(source, table)
    while batch := list(itertools.islice(rows, _BATCH)):
        for row in batch:
            digest.update(_encoded(row))
        n_rows += len(batch)
        values = [dict(zip(names, row, strict=True)) for row in batch]
        target.execute(insert(table), values)
    return TableDigest(name=table.name, rows=n_rows, digest=digest.digest())


def _rows(connection: Connection, table: Table) -> Iterator[tuple[object, ...]]:
    """Yield a table's rows in an order that its keys and values alone decide."""
    order = list(table.primary_key.columns) or list(table.columns)
    statement = select(table).order_by(*order)
    for row in connection.execute(statement, execution_options={"yield_per": _BATCH}):
        yield tuple(row)


def _encoded(row: tuple[object, ...]) -> bytes:
    """Return a row's bytes, each value with its kind and length before it."""
    parts = []
    for value in row:
        if value is None:
            parts.append(b"n")
            continue
        if isinstance(value, bytes):
            kind, raw = b"b", value
        elif isinstance(value, str):
            kind, raw = b"t", value.encode("utf-8", "surrogatepass")
        elif isinstance(value, int):
            kind, raw = b"i", str(int(value)).encode("ascii")
        else:
            raise DifferenceFound(f"a value of type {type(value).__name__} in a row")
        parts.append(kind + len(raw).to_bytes(8, "big") + raw)
    return b"".join(parts)


def _silence(_: str, __: float) -> None:
    """Tell nobody."""
