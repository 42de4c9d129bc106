"""The audit agrees with honest books and finds what was changed, whatever it was."""

import dataclasses

import pytest

from ledger.audit import verify_ledger
from ledger.database import Reader
from ledger.errors import DifferenceFound
from tests.support.audits import difference_after, report_after
from tests.support.honest_books import copy_of_honest_books
from tests.support.ledger_world import Party, World


def test_honest_books_verify():
    counts = dataclasses.asdict(report_after())
    assert counts["earned_uc"] == 1160
    del counts["earned_uc"]
    assert counts == {
        "price_tables": 1,
        "policies": 2,
        "grants": 14,
        "vouchers": 13,
        "receipts": 52,
        "pruned_receipts": 0,
        "unread_receipts": 0,
        "pruned_files": [],
        "closings": 12,
        "disputes": 5,
        "equivocations": 2,
        "one_sided": 2,
        "beacons": 0,
        "audits": 0,
        "standby_papers": 2,
        "standby_uc": 3330,
        "rejected": 1,
        "log_entries": 12,
        "checkpoints": 5,
        "cosignatures": 2,
        "periods": 2,
        "payouts": 7,
        "transfers": 104,
        "accounts": 20,
        "paid_uc": 1770,
    }


def test_a_new_ledger_verifies_while_it_runs(tmp_path):
    world = World()
    with world.open(tmp_path) as store:
        assert verify_ledger(store.reader(), world.identity).policies == 1
        tab = world.tab(store.grant(world.order()).result(60))
        tab.file(store, 0, 1, 2, final=True)
        report = verify_ledger(store.reader(), world.identity)
    assert (report.receipts, report.closings) == (3, 1)


def test_somebody_elses_books_are_not_enough(tmp_path):
    world = copy_of_honest_books(tmp_path / "books")
    other = dataclasses.replace(world.identity, market=Party("other").id)
    with pytest.raises(DifferenceFound, match="owner"):
        verify_ledger(Reader(tmp_path / "books"), other)


@pytest.mark.parametrize(
    "change",
    [
        "update granted set signature = zeroblob(64)",
        "update granted set worker = zeroblob(32) where used_uc > 0",
        "update voucher set worker_signature = zeroblob(64)",
        "update voucher set raw = zeroblob(300)",
        "update transfer set reference = x'00' where code = 'fund'",
        "update transfer set posted_us = posted_us + 1 where seq = 1",
        "delete from transfer where seq = 3",
        "update filing set leaf_offset = 0",
        "update filing set leaves = leaves + 1 where number = 3",
        "delete from filing where number = 2",
    ],
)
def test_a_change_is_found(change):
    assert "no sense" not in difference_after(change)


def test_what_no_program_wrote_is_a_difference():
    message = difference_after("update closing set released_us = null")
    assert message.startswith("the database holds what has no sense")


def test_every_bit_of_a_leaf_counts(tmp_path):
    world = copy_of_honest_books(tmp_path / "books")
    path = tmp_path / "books/leaves/00000001.leaves"
    raw = path.read_bytes()
    for bit in range(3, 8 * 79, 97):
        changed = bytearray(raw)
        changed[bit // 8] ^= 1 << bit % 8
        path.write_bytes(changed)
        with pytest.raises(DifferenceFound, match=r"leaf|root|differs"):
            verify_ledger(Reader(tmp_path / "books"), world.identity)
    path.write_bytes(raw[:-79])
    with pytest.raises(DifferenceFound, match="needs"):
        verify_ledger(Reader(tmp_path / "books"), world.identity)


def test_how_far_it_is():
    told = []
    report_after(tell=lambda label, share: told.append((label, share)))
    assert [share for label, share in told if "vouchers" in label] == [
        n / 13 for n in range(13)
    ]
    assert {label for label, _ in told} >= {"closings", "log"}
