"""Bring a ledger database to the current schema, one numbered step at a time.

Contract: a new database gets the tables of `ledger.schema` at once; an older one gets
the steps it lacks, in order, each in the transaction of the caller; a newer one is
refused rather than guessed at. A step is never edited once released.
"""

from collections.abc import Callable, Mapping

from sqlalchemy import Connection, insert, inspect, select, update

from ledger.errors import StoreUnavailable
from ledger.schema import METADATA, SCHEMA_VERSION, schema_version
from ledger.schema_beacon import BEACON_TABLES
from ledger.schema_closing import CLOSING_TABLES
from ledger.schema_standby import STANDBY_TABLES

__all__ = ["STEPS", "migrate", "stored_version"]


def _add_closing(connection: Connection) -> None:
    METADATA.create_all(connection, tables=CLOSING_TABLES)


def _add_standby(connection: Connection) -> None:
    METADATA.create_all(connection, tables=STANDBY_TABLES)


def _add_beacon(connection: Connection) -> None:
    METADATA.create_all(connection, tables=BEACON_TABLES)


# Version reached -> what takes a database there from the version before.
STEPS: Mapping[int, Callable[[Connection], None]] = {
    2: _add_closing,
    3: _add_standby,
    4: _add_beacon,
}


def stored_version(connection: Connection) -> int:
    """Return the schema version of a database, 0 when it has no tables yet.

    Raises:
        StoreUnavailable: the version is not one whole number.
    """
    if not inspect(connection).has_table(schema_version.name):
        return 0
    found: list[object] = list(
        connection.execute(select(schema_version.c.version).limit(2)).scalars()
    )
    if len(found) != 1 or not isinstance(found[0], int) or found[0] < 1:
        raise StoreUnavailable(f"the database says that its schema is {found}"[:200])
    return found[0]


def migrate(connection: Connection) -> None:
    """Create or upgrade the tables within the caller's transaction.

    Raises:
        StoreUnavailable: the database was written by a newer program.
    """
    version = stored_version(connection)
    if version > SCHEMA_VERSION:
        raise StoreUnavailable(
            f"ledger schema {version} is newer than this program's {SCHEMA_VERSION}"
        )
    if version == 0:
        METADATA.create_all(connection)
        connection.execute(insert(schema_version).values(version=SCHEMA_VERSION))
        return
    for number in range(version + 1, SCHEMA_VERSION + 1):
        STEPS[number](connection)
        connection.execute(update(schema_version).values(version=number))
