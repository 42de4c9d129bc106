"""Double entry: repeats, conflicts, cover."""

import dataclasses

import pytest
from sqlalchemy import create_engine, select

from ledger.accounts import (
    EXTERNAL_OWNER,
    AccountKind,
    Book,
    Posting,
    TransferCode,
    transfer_id,
)
from ledger.amounts import MAX_SUM_UC
from ledger.errors import InsufficientFunds, TransferConflict
from ledger.schema import METADATA, account, transfer

OWNER = b"o" * 32
FUND = Posting(
    code=TransferCode.FUND,
    key=b"one",
    debit=(EXTERNAL_OWNER, AccountKind.EXTERNAL),
    credit=(OWNER, AccountKind.CLIENT_DEPOSIT),
    amount_uc=100,
    reference=b"note",
)


@pytest.fixture
def connection():
    engine = create_engine("sqlite://")
    with engine.begin() as connection:
        METADATA.create_all(connection)
        yield connection
    engine.dispose()


def spend(amount_uc: int, key: bytes = b"spend") -> Posting:
    return Posting(
        code=TransferCode.RESERVE,
        key=key,
        debit=(OWNER, AccountKind.CLIENT_DEPOSIT),
        credit=(OWNER, AccountKind.CLIENT_RESERVED),
        amount_uc=amount_uc,
        reference=b"",
    )


def balance(book: Book, kind: AccountKind) -> int:
    found = book.find(OWNER, kind)
    return found.balance_uc if found else 0


def test_an_id_is_made_of_code_and_key():
    assert len(transfer_id(TransferCode.FUND, b"k")) == 16
    assert transfer_id(TransferCode.FUND, b"k") != transfer_id(TransferCode.EARN, b"k")


@pytest.mark.parametrize("flushed", [False, True])
def test_a_repeat_is_nothing_and_another_body_an_error(connection, flushed):
    book = Book(connection)
    assert book.post(FUND, 1)
    if flushed:
        book.flush()
        book = Book(connection)
    assert not book.post(FUND, 2)
    assert balance(book, AccountKind.CLIENT_DEPOSIT) == 100
    for changes in (
        {"amount_uc": 101},
        {"reference": b""},
        {"credit": (b"p" * 32, AccountKind.CLIENT_DEPOSIT)},
    ):
        with pytest.raises(TransferConflict):
            book.post(dataclasses.replace(FUND, **changes), 2)
    assert balance(book, AccountKind.CLIENT_DEPOSIT) == 100


def test_nothing_goes_below_zero(connection):
    book = Book(connection)
    book.post(FUND, 1)
    with pytest.raises(
        InsufficientFunds, match=r"has 0.000100 credits, needs 0.000101"
    ):
        book.post(spend(101), 1)
    for amount in (0, -1):
        with pytest.raises(InsufficientFunds):
            book.post(spend(amount), 1)
    assert book.post(spend(100), 1)
    assert balance(book, AccountKind.CLIENT_DEPOSIT) == 0
    assert balance(book, AccountKind.CLIENT_RESERVED) == 100


def test_b37_sums_stay_below_two_to_the_63(connection):
    book = Book(connection)
    book.post(dataclasses.replace(FUND, amount_uc=MAX_SUM_UC), 1)
    with pytest.raises(InsufficientFunds, match="sums pass"):
        book.post(dataclasses.replace(FUND, key=b"two", amount_uc=1), 1)
    book.flush()
    assert connection.execute(select(account.c.credits_uc)).scalars().all() == [
        0,
        MAX_SUM_UC,
    ]


def test_what_is_flushed_is_what_the_next_book_reads(connection):
    book = Book(connection)
    book.post(FUND, 1)
    book.post(spend(40, b"a"), 2)
    book.post(spend(60, b"b"), 3, is_new=True)
    book.flush()
    book.flush()
    again = Book(connection)
    assert balance(again, AccountKind.CLIENT_RESERVED) == 100
    assert again.post(dataclasses.replace(FUND, key=b"two"), 4)
    again.flush()
    rows = connection.execute(select(transfer).order_by(transfer.c.seq)).all()
    assert [row.seq for row in rows] == [1, 2, 3, 4]
    assert [row.posted_us for row in rows] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (TransferCode.SETTLE, TransferCode.REVERSE),
        (TransferCode.UNHOLD, TransferCode.FORFEIT),
        (TransferCode.PAID, TransferCode.UNPAY),
    ],
)
def test_outcomes_that_exclude_each_other_have_one_id(one, other):
    assert transfer_id(one, b"key") == transfer_id(other, b"key")
    codes = {transfer_id(code, b"key") for code in TransferCode}
    assert len(codes) == len(TransferCode) - 3
