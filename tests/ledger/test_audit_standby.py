"""Audit of standby pay: papers, their turn, their rows, who is paid how much."""

import pytest

from ledger.audit import verify_ledger
from ledger.database import Reader
from ledger.errors import DifferenceFound
from tests.support.audits import difference_after, report_after, second_opinion_after
from tests.support.cook import Cook
from tests.support.honest_books import copy_of_honest_books
from tests.support.independent import independent


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ("update standby_paper set signature = zeroblob(64)", "does not verify"),
        ("update standby_paper set hash = zeroblob(32) where seq = 1", "hash is 00"),
        ("update standby_paper set seq = 3 where seq = 2", "number is 3"),
        ("update standby_paper set booked_us = 1 where seq = 2", "after the one ahead"),
        ("update standby_paper set booked_us = 1", "epoch was over"),
        ("update standby_paper set booked_us = 1 << 60", "not long ago"),
        ("update standby_paper set policy_hash = zeroblob(32)", "no such policy"),
        (
            "update standby_paper set policy_hash = (select hash from policy "
            "where seq = 1)",
            "its policy held then",
        ),
        ("update price_row set multiplier = 1 where expert = 3", "scarcity is"),
        ("delete from price_row where paper = 2", "scarcity is"),
        ("update holding set amount_uc = amount_uc + 1", "holdings is"),
        ("update holding set share = share - 1", "holdings is"),
        ("delete from holding where paper = 1", "holdings is"),
        ("update standby_pay set amount_uc = amount_uc + 1", "pay is"),
        ("update standby_pay set replicas = 1", "pay is"),
        ("update standby_pay set state = 'unknown' where state = 'paid'", "not known"),
        ("update standby_pay set state = 'paid' where state = 'unknown'", "was known"),
        ("update price_epoch set pot_uc = pot_uc + 1", "epoch's row is"),
        ("update price_epoch set epoch = 1 where paper = 1", "epoch's row is"),
        ("insert into price_row values (9, 1, 1, 1, 1, 1, 1)", "table price_row"),
        ("delete from transfer where code = 'standby'", "number is"),
        ("update transfer set code = 'earn' where code = 'standby'", "code is earn"),
        ("update transfer set amount_uc = 1 where code = 'endow'", "below zero"),
        ("update transfer set id = zeroblob(16) where code = 'endow'", "unexplained"),
        ("update transfer set reference = x'30' where code = 'allot'", "unexplained"),
        ("update payout_standby set amount_uc = amount_uc + 1", "amount is"),
        ("update payout_standby set worker = zeroblob(32)", "of nothing"),
        ("update payout_standby set payout_id = zeroblob(16) where rowid = 1", "of"),
    ],
)
def test_a_paper_holds(change, found):
    assert found in difference_after(change)


def test_what_was_found_right():
    report = report_after()
    assert (report.standby_papers, report.standby_uc) == (2, 3330)


def test_a_second_opinion_on_the_pot():
    change = "update transfer set reference = x'30' where code = 'allot'"
    with pytest.raises(independent.Difference, match="explains allot"):
        second_opinion_after(change)


def test_a_quick_audit_leaves_out_the_rows_but_counts_them_and_checks_the_pay(tmp_path):
    world = copy_of_honest_books(tmp_path / "books")
    changes = ("update price_row set demand = demand + 1", "delete from holding")
    for change, found in zip(changes, (None, "table holding"), strict=True):
        with Cook(tmp_path / "books", world) as cook:
            cook.sql(change)
        reader = Reader(tmp_path / "books")
        if found is None:
            report = verify_ledger(reader, world.identity, is_full=False)
            assert report.standby_uc == 3330
            continue
        with pytest.raises(DifferenceFound, match=found):
            verify_ledger(reader, world.identity, is_full=False)
