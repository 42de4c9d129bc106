"""Refused vouchers: kept once, and bounded for one sender and for all."""

import dataclasses

import pytest
from sqlalchemy import func, select

from ledger import refusals as module
from ledger.claims import Refusal, RejectReason
from ledger.database import LedgerFolder, open_writing_engine
from ledger.refusals import Refusals
from ledger.rows import Rows
from ledger.schema import rejected
from tests.support.ledger_world import World, paper_tab

LOUD, OTHER = b"f" * 32, b"g" * 32
TAB = paper_tab()
SIGNED, _ = TAB.next(0, 1)


class Keeper:
    """Groups of refusals, each written and committed."""

    def __init__(self, connection) -> None:
        self.connection = connection
        self.rows = Rows()
        self.refusals = Refusals(connection, self.rows)

    def add(self, numbers, filed_by: bytes = LOUD, *, named: bool = False) -> None:
        for n in numbers:
            signed = dataclasses.replace(SIGNED, raw=b"%d" % n)
            refusal = Refusal(
                reason=RejectReason.SIGNATURE,
                detail="x",
                signed=signed,
                voucher=TAB.previous if named else None,
                filed_by=filed_by,
            )
            self.refusals.add(refusal, 1)

    def write(self) -> int:
        self.rows.flush(self.connection)
        count = select(func.count()).select_from(rejected)
        return self.connection.execute(count).scalar_one()


@pytest.fixture
def keeper(tmp_path):
    engine = open_writing_engine(LedgerFolder(tmp_path), World().identity)
    with engine.connect() as connection, connection.begin():
        yield Keeper(connection)
    engine.dispose()


def test_each_is_kept_once(keeper):
    keeper.add([1, 1, 2])
    assert keeper.write() == 2
    keeper.add([1, 2, 3])
    assert keeper.write() == 3


def test_a_sender_has_room_for_256_and_for_16_of_no_worker(keeper):
    keeper.add(range(300))
    keeper.add(range(1000, 1300), named=True)
    assert keeper.write() == 256
    assert (
        keeper.connection.execute(
            select(func.count()).where(rejected.c.worker == b"")
        ).scalar_one()
        == 16
    )
    keeper.add(range(2000, 2300))
    keeper.add(range(3000, 3300), named=True)
    keeper.add([1], OTHER)
    assert keeper.write() == 256
    keeper.add([4000], OTHER)
    assert keeper.write() == 257


def test_all_senders_together_have_a_bound(keeper, monkeypatch):
    monkeypatch.setattr(module, "_MAX_NAMELESS", 40)
    monkeypatch.setattr(module, "_MAX_KEPT", 60)
    for sender in range(100):
        keeper.add(range(sender * 10, sender * 10 + 3), bytes([sender]) * 32)
    assert keeper.write() == 40
    for sender in range(100):
        keeper.add([5000 + sender], bytes([sender]) * 32, named=True)
    assert keeper.write() == 60
    again = Keeper(keeper.connection)
    again.add([9999], OTHER, named=True)
    assert again.write() == 60
