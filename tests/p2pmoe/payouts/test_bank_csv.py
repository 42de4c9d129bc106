"""A statement as CSV: signed amounts, columns in any order, faults with their line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.payouts.bank_csv import parse_bank_csv
from p2pmoe.payouts.errors import StatementBroken

CSV = b"""date,end_to_end_id,amount,currency,reference,text
2026-12-03,abc,-12.34,EUR,B-1,"a, b"
2026-12-03,abc,+12.34,EUR,,
2026-12-03,,5,JPY,,
"""


@pytest.mark.parametrize("raw", [CSV, b"\xef\xbb\xbf" + CSV.replace(b"\n", b"\r\n")])
def test_minus_is_money_that_left(raw):
    lines = parse_bank_csv(raw)
    assert [(line.amount_minor, line.is_debit) for line in lines] == [
        (1234, True),
        (1234, False),
        (5, False),
    ]
    assert (lines[0].reference, lines[0].date) == ("B-1", "2026-12-03")


def test_semicolons_and_missing_columns():
    (line,) = parse_bank_csv(b"end_to_end_id;currency;amount\nabc;EUR;-0.01\n")
    assert (line.amount_minor, line.reference, line.date) == (1, "", "")


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "has no column end_to_end_id, amount, currency"),
        (b"\xff", "neither XML nor UTF-8"),
        (b"end_to_end_id,amount,currency\na,1\n", "line 2: no currency"),
        (b"end_to_end_id,amount,currency\na,1,eur\n", "line 2: no currency"),
        (b"end_to_end_id,amount,currency\na,1.234,EUR\n", "line 2: 1.234 EUR"),
        (b'end_to_end_id,amount,currency\na,"1,23",EUR\n', "line 2: no amount"),
        (b"end_to_end_id,amount,currency\na,--1,EUR\n", "line 2: no amount"),
        (b"end_to_end_id,amount,currency\na,1e9,EUR\n", "line 2: no amount"),
        (b"end_to_end_id,amount,currency\na,+-1,EUR\n", "line 2: no amount"),
        (b"end_to_end_id,currency,amount\na,EUR,-1,23\n", "line 2 has more cells"),
        (b"end_to_end_id,amount,currency,amount\n", "two columns of one name"),
        (b'end_to_end_id,amount,currency\n"a,1,EUR\n', "is no CSV"),
        (b"end_to_end_id,amount,currency\n" + b"a" * 3000 + b",1,EUR", "cannot be"),
    ],
)
def test_what_is_refused(raw, reason):
    with pytest.raises(StatementBroken, match=reason):
        parse_bank_csv(raw)


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(raw):
    for text in (raw, b"end_to_end_id,amount,currency\n" + raw):
        try:
            parse_bank_csv(text)
        except StatementBroken:
            continue
