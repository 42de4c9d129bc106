"""The audit finds what was changed, whatever was changed."""

import dataclasses
import sqlite3

import pytest

from ledger.audit import verify_ledger
from ledger.database import Reader
from ledger.errors import DifferenceFound
from tests.support.ledger_world import Party, World


@pytest.fixture
def folder(tmp_path):
    """A ledger with two tabs, a late serving, a released grant; closed."""
    world = World()
    with world.open(tmp_path) as store:
        tab = world.tab(store.grant(world.order(ceiling_uc=5000)).result(5))
        tab.file(store, 0, 1, 2)
        tab.file(store, 5)
        tab.file(store, 4)
        other = Party("other")
        issued = store.grant(world.order(worker=other)).result(5)
        world.tab(issued, worker=other, tab=b"tab-0002").file(store, 0, 1)
        world.now_us += 80 * 3_600_000_000
        assert store.release_expired().result(5) == 2
    return tmp_path


def difference(path, identity=None) -> str:
    with pytest.raises(DifferenceFound) as caught:
        verify_ledger(Reader(path), identity or World().identity)
    assert caught.value.exit_code == 1
    return str(caught.value)


def test_an_honest_ledger_verifies(folder):
    report = verify_ledger(Reader(folder), World().identity)
    assert dataclasses.asdict(report) == {
        "price_tables": 1,
        "grants": 2,
        "vouchers": 2,
        "receipts": 7,
        "transfers": 1 + 2 + 4 + 2,
        "accounts": 5,
        "earned_uc": report.earned_uc,
    }


def test_somebody_elses_books_are_not_enough(folder):
    other = dataclasses.replace(World().identity, market=Party("other").id)
    assert "owner" in difference(folder, other)


@pytest.mark.parametrize(
    "change",
    [
        "update account set credits_uc = credits_uc + 1 where kind = 'worker_pending'",
        "update account set debits_uc = debits_uc + 1 where kind = 'external'",
        "update granted set used_uc = used_uc + 1",
        "update granted set state = 'open'",
        "update granted set expiry_us = expiry_us + 1",
        "update granted set signature = zeroblob(64)",
        "update granted set worker = zeroblob(32)",
        "update price_table set signature = zeroblob(64)",
        "update price_table set epoch = epoch + 1",
        "update voucher set amount_uc = amount_uc + 1",
        "update voucher set number = number + 1",
        "update voucher set worker_signature = zeroblob(64)",
        "update voucher set backbone_signature = zeroblob(64)",
        "update voucher set raw = zeroblob(300)",
        "update voucher set content_hash = randomblob(32)",
        "update transfer set amount_uc = amount_uc + 1 where code = 'earn'",
        "update transfer set amount_uc = amount_uc - 1 where code = 'fund'",
        "update transfer set reference = x'00' where code = 'fund'",
        "update transfer set posted_us = posted_us + 1 where seq = 1",
        "update transfer set code = 'fund' where code = 'earn'",
        "delete from transfer where seq = 3",
        "delete from transfer where code = 'release'",
        "update filing set amount_uc = amount_uc + 1 where number = 1",
        "update filing set leaf_offset = 0",
        "update filing set leaves = leaves + 1 where number = 3",
        "update filing set grant_hash = (select hash from granted order by worker)",
        "delete from filing where number = 2",
        "delete from price_table",
    ],
)
def test_every_change_is_found(folder, change):
    connection = sqlite3.connect(folder / "ledger.sqlite3")
    for table in ("transfer", "filing"):
        for action in ("update", "delete"):
            connection.execute(f"drop trigger {table}_no_{action}")
    if "grant_hash" in change:
        change = (
            "update filing set grant_hash = (select hash from granted where hash <> "
            "filing.grant_hash)"
        )
    connection.execute(change)
    connection.commit()
    connection.close()
    assert "\n" not in difference(folder)


def test_every_bit_of_a_leaf_counts(folder):
    path = folder / "leaves" / "00000001.leaves"
    raw = path.read_bytes()
    for bit in range(3, 8 * 79, 41):
        changed = bytearray(raw)
        changed[bit // 8] ^= 1 << bit % 8
        path.write_bytes(changed)
        difference(folder)
    path.write_bytes(raw[:-79])
    assert "needs" in difference(folder)
    path.write_bytes(raw)
    verify_ledger(Reader(folder), World().identity)
