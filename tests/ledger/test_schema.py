"""The tables: integers and bytes only, histories that cannot be edited."""

import pytest
from sqlalchemy import (
    BigInteger,
    Integer,
    LargeBinary,
    Text,
    create_engine,
    insert,
    select,
)
from sqlalchemy.exc import IntegrityError

from ledger.database import LedgerFolder, Reader, open_writing_engine
from ledger.schema import METADATA, Line, account, rejected, transfer
from tests.support.ledger_world import World


def test_b37_no_floating_point_column():
    for table in METADATA.tables.values():
        for column in table.columns:
            kind = column.type.dialect_impl(create_engine("sqlite://").dialect)
            kind = kind.impl_instance if isinstance(kind, Line) else kind
            assert isinstance(kind, BigInteger | Integer | LargeBinary | Text), column


def test_b37_the_database_itself_has_no_real_column():
    engine = create_engine("sqlite://")
    METADATA.create_all(engine)
    with engine.connect() as connection:
        for table in METADATA.tables:
            rows = connection.exec_driver_sql(f"pragma table_info({table})").all()
            kinds = {row[2] for row in rows}
            assert rows
            assert kinds <= {"INTEGER", "BIGINT", "BLOB", "TEXT"}, (table, kinds)
    engine.dispose()


@pytest.mark.parametrize(
    "change", ["delete from transfer", "update transfer set seq=9"]
)
def test_transfers_are_append_only(change):
    engine = create_engine("sqlite://")
    METADATA.create_all(engine)
    with engine.begin() as connection:
        for number in (1, 2):
            connection.execute(
                insert(account).values(
                    id=number,
                    owner=b"o%d" % number,
                    kind="external",
                    opened_us=0,
                    debits_uc=0,
                    credits_uc=0,
                )
            )
        connection.execute(
            insert(transfer).values(
                seq=1,
                id=b"i",
                debit_id=1,
                credit_id=2,
                amount_uc=1,
                code="fund",
                reference=b"",
                posted_us=0,
            )
        )
        with pytest.raises(IntegrityError, match="append-only"):
            connection.exec_driver_sql(change)
    engine.dispose()


def test_no_account_but_external_goes_below_zero():
    engine = create_engine("sqlite://")
    METADATA.create_all(engine)
    with engine.begin() as connection:
        statement = insert(account).values(
            id=1,
            owner=b"",
            kind="worker_pending",
            opened_us=0,
            debits_uc=1,
            credits_uc=0,
        )
        with pytest.raises(IntegrityError):
            connection.execute(statement)
    engine.dispose()


def test_any_text_is_stored_and_any_bytes_come_back_as_bytes(ledger_database):
    ledger_database.mkdir(exist_ok=True)
    engine = open_writing_engine(LedgerFolder(ledger_database), World().identity)
    raw = bytes(range(256))
    row = {c.name: raw for c in rejected.columns if isinstance(c.type, LargeBinary)}
    row |= {"reason": "nul \0 and half \ud800 a pair", "detail": "é\n"}
    with engine.begin() as connection:
        connection.execute(
            insert(rejected).values(**row, amount_uc=2**63 - 1, seen_us=0)
        )
    engine.dispose()
    with Reader(ledger_database).session() as connection:
        found = connection.execute(select(rejected)).mappings().one()
    assert found["reason"] == "nul \ufffd and half \ufffd\ufffd\ufffd a pair"
    assert found["detail"] == "é\n"
    assert found["amount_uc"] == 2**63 - 1
    assert all(type(v) in {bytes, str, int} for v in found.values())
    assert found["raw"] == raw
