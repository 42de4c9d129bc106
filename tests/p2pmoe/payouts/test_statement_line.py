"""One line of a statement: a plain value."""

from p2pmoe.payouts.statement_line import StatementLine


def test_lines_of_the_same_values_are_equal():
    values = {
        "end_to_end_id": "a",
        "amount_minor": 1,
        "currency": "EUR",
        "is_debit": True,
        "date": "",
        "reference": "",
    }
    assert StatementLine(**values) == StatementLine(**values)
