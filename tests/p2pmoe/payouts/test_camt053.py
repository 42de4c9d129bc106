"""camt.053: booked movements, batches taken apart, hostile files refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.payouts import camt053 as camt053_module
from p2pmoe.payouts.camt053 import parse_camt053
from p2pmoe.payouts.errors import StatementBroken
from p2pmoe.payouts.statement_line import StatementLine
from tests.support.bank_statements import camt053, entry, transaction
from tests.support.payout_orders import order


def test_a_payment_by_itself():
    (line,) = parse_camt053(camt053(entry(transaction(order(1), ref="T-1"))))
    assert line == StatementLine(
        end_to_end_id=order(1).key,
        amount_minor=1234,
        currency="EUR",
        is_debit=True,
        date="2026-12-03",
        reference="T-1",
    )


def test_a_batch_is_one_line_for_each_payment():
    parts = [transaction(order(n), amount=f"{n}.00") for n in (1, 2, 3)]
    lines = parse_camt053(camt053(entry(*parts, amount="6.00")))
    assert [line.amount_minor for line in lines] == [100, 200, 300]
    assert [line.end_to_end_id for line in lines] == [order(n).key for n in (1, 2, 3)]
    assert {line.reference for line in lines} == {""}  # the entry's is of them all


def test_what_is_not_booked_is_not_there_yet():
    pending = entry(transaction(order(1)), status="<Cd>PDNG</Cd>")
    old = entry(transaction(order(2)), status="BOOK")
    lines = parse_camt053(camt053(pending, old))
    assert [line.end_to_end_id for line in lines] == [order(2).key]


def test_other_business_has_no_id():
    none = transaction(order(1)).replace(order(1).key, "NOTPROVIDED")
    lines = parse_camt053(camt053(entry(direction="CRDT"), entry(none)))
    assert [(line.end_to_end_id, line.is_debit) for line in lines] == [
        ("", False),
        ("", True),
    ]


BOMB = b"""<?xml version="1.0"?>
<!DOCTYPE lolz [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>
<BkToCstmrStmt>&b;</BkToCstmrStmt>"""
ENTITY = b"""<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]>
<BkToCstmrStmt>&e;</BkToCstmrStmt>"""


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "is no XML"),
        (b"<a>", "is no XML"),
        (b"\x00\x01", "is no XML"),
        (b"<?xml version='1.0' encoding='none-such'?><a/>", "is no XML"),
        (b"<?xml version='1.0' encoding='utf-7'?><a/>", "is no XML"),
        (b"<?xml version='1.0' encoding='shift_jis'?><a/>", "is no XML"),
        (b"<a/>", "is no camt.053"),
        (BOMB, "document type declaration"),
        (ENTITY, "document type declaration"),
        (b"<a>" * 50, "nested deeper than 40"),
        (b"<a>" + b"x" * 3000 + b"</a>", "over 2000 characters"),
        (camt053(entry(amount="12,34")), "entry 1: no amount"),
        (camt053(entry(amount="-1")), "entry 1: no amount"),
        (camt053(entry(), entry(amount="0.001")), "entry 2: 0.001 EUR is a fraction"),
        (camt053(entry(direction="BOTH")), "neither credits nor debits"),
        (
            camt053(
                entry(
                    transaction(order(1), amount=None),
                    transaction(order(2), amount=None),
                )
            ),
            "without an amount",
        ),
    ],
)
def test_what_is_refused(raw, reason):
    with pytest.raises(StatementBroken, match=reason):
        parse_camt053(raw)


@given(st.binary(max_size=60), st.integers(0, 900))
def test_a_damaged_statement_is_read_or_refused(noise, at):
    good = camt053(entry(transaction(order(1))))
    at %= len(good)
    for raw in (noise, good[:at] + noise + good[at:], good[:at]):
        try:
            parse_camt053(raw)
        except StatementBroken:
            continue


def test_an_entry_is_bounded(monkeypatch):
    monkeypatch.setattr(camt053_module, "_MAX_NODES", 50)
    monkeypatch.setattr(camt053_module, "_MAX_LINES", 20)
    small = [entry(transaction(order(n))) for n in range(20)]
    assert len(parse_camt053(camt053(*small))) == 20
    with pytest.raises(StatementBroken, match="over 20 lines"):
        parse_camt053(camt053(*small, entry()))
    parts = [transaction(order(n)) for n in range(10)]
    with pytest.raises(StatementBroken, match="entry 2 is too large"):
        parse_camt053(camt053(entry(), entry(*parts)))


def test_a_large_statement_takes_no_large_memory():
    """Entries are dropped as they are read: their elements are gone at the end."""
    raw = camt053(*[entry(transaction(order(n))) for n in range(2000)])
    assert len(parse_camt053(raw)) == 2000
