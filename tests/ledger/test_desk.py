"""The desk: one group's reads and writes, and what it forgets."""

import pytest
from sqlalchemy import func, select

from ledger import desk as module
from ledger.claims import Refusal, RejectReason
from ledger.database import LedgerFolder, open_writing_engine
from ledger.desk import Desk
from ledger.schema import rejected
from ledger.voucher import SignedVoucher
from tests.support.ledger_world import World


@pytest.fixture
def connection(tmp_path):
    engine = open_writing_engine(LedgerFolder(tmp_path), World().identity)
    with engine.connect() as connection, connection.begin():
        yield connection
    engine.dispose()


@pytest.fixture
def desk(connection, tmp_path):
    desk = Desk(connection, LedgerFolder(tmp_path), World().identity)
    yield desk
    desk.close()


def refusal(n: int, filed_by: bytes = b"f" * 32) -> Refusal:
    return Refusal(
        reason=RejectReason.SIGNATURE,
        detail="x",
        signed=SignedVoucher(
            raw=b"%d" % n, worker_signature=b"", backbone_signature=b""
        ),
        voucher=None,
        filed_by=filed_by,
    )


def test_its_time_never_goes_back(desk):
    desk.begin(100)
    desk.begin(50)
    assert desk.now_us == 100


def test_refused_vouchers_are_kept(desk, connection):
    for n in range(3):
        desk.reject(refusal(n))
    desk.flush()
    desk.committed()
    desk.reject(refusal(2))
    desk.flush()
    count = connection.execute(select(func.count()).select_from(rejected)).scalar_one()
    assert count == 3


def test_unknown_things_are_not_found(desk):
    assert desk.prices(bytes(32)) is None
    assert desk.grants.find(bytes(32)) is None
    assert desk.grants.by_serial(bytes(32), bytes(8)) is None
    assert not desk.has_filing(bytes(32))
    assert not desk.has_number(1, 1)
    assert desk.all_leaves(1) == b""
    assert desk.pair_leaves(bytes(32), bytes(32)) == 0
    desk.begin(1, [bytes(32)] * 3)
    assert not desk.has_filing(bytes(32))


def test_what_falls_out_of_the_cache_is_read_again(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_MAX_CACHED", 1)
    world = World()
    with world.open(tmp_path) as store:
        issued = store.grant(world.order()).result(60)
        tabs = [world.tab(issued, tab=b"tab-%04d" % n) for n in range(3)]
        for serving in range(4):
            for tab in tabs:
                assert tab.file(store, 2 * serving).status == 0
        for tab in tabs:
            assert tab.file(store, 1, 3, 5).status == 0
