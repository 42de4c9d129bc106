"""Statements by what they begin with."""

import pytest

from p2pmoe.payouts.errors import StatementBroken
from p2pmoe.payouts.statement import read_statement
from tests.support.bank_statements import camt053, entry, transaction
from tests.support.payout_orders import order


def test_the_format_is_told_by_the_first_character(tmp_path):
    path = tmp_path / "statement"
    path.write_bytes(b"\xef\xbb\xbf \n" + camt053(entry(transaction(order(1))))[38:])
    (xml,) = read_statement(path)
    path.write_text(
        f"end_to_end_id,amount,currency,date\n{order(1).key},-12.34,EUR,2026-12-03\n"
    )
    (table,) = read_statement(path)
    assert xml.end_to_end_id == table.end_to_end_id
    assert (xml.amount_minor, xml.date) == (table.amount_minor, table.date)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(StatementBroken, match="there is no file"):
        read_statement(tmp_path / "none")
    with pytest.raises(StatementBroken, match="directory"):
        read_statement(tmp_path)
