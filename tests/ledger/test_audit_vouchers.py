"""Audit of vouchers, filings, leaves and sums by expert."""

# ruff: noqa: S608  every part of a statement is written here
import pytest

from tests.support.audits import difference_after


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ("update voucher set final = 1 - final", "final is"),
        ("update voucher set posted_us = posted_us + 1", "posted is"),
        ("update filing set issued_us = issued_us + 1", "issued is"),
        ("update filing set leaf_file = 2 where number = 1", "beyond the end"),
        ("update filing set leaf_offset = 1 << 62 where number = 1", "beyond the end"),
        ("update filing set leaves = 1 << 40 where number = 1", "leaves at once"),
        ("update filing set rows = rows + 1 where number = 1", "rows is"),
        (
            "update filing set posted_us = 1 where voucher_id = 1 and number = 3",
            "ahead",
        ),
        ("update voucher_expert set rows = rows + 1", "sums over experts"),
        ("delete from voucher_expert where voucher_id = 1", "sums by expert is False"),
        ("delete from leaf_file", "beyond the end"),
    ],
)
def test_what_was_filed_holds(change, found):
    assert found in difference_after(change)


def test_sums_may_not_move_between_experts():
    first, last = (
        f"where voucher_id = 1 and layer = {layer} and expert = {expert}"
        for layer, expert in ((0, 0), (2, 2))
    )
    message = difference_after(
        f"update voucher_expert set rows = rows + 1 {first}",
        f"update voucher_expert set rows = rows - 1 {last}",
    )
    assert "servings, rows, sum" in message


def test_a_packed_file_has_its_digest():
    row = "insert into leaf_file_state values (1, 'packed', zeroblob(32), 1)"
    assert "digest is 00" in difference_after(row)


def test_leaves_are_not_pruned_before_their_time():
    row = "insert into leaf_file_state values (1, 'pruned', zeroblob(32), 1)"
    assert "pruned before" in difference_after(row)
