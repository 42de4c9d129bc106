"""A voucher is countersigned only if it says what our own leaves say."""

import pytest

from ledger.leaf import Leaf, split_leaves
from ledger.voucher import sign_voucher
from mobile_worker.arithmetic.coding import ExpertInput, quantize_rows
from mobile_worker.servings.hashes import out_hash, x_hash
from p2pmoe.backbone.books import Book, block_ranges, build_leaves
from p2pmoe.errors import VoucherRefused
from tests.support.vouchers import (
    GRANTS,
    MONEY,
    PRICES,
    TERMS,
    TabWorker,
    X,
    served,
)


def block() -> bytes:
    return build_leaves(served(4, (3, (0, 2)), (5, (1,))), PRICES)


def test_leaves_are_built_from_what_was_sent_and_came_back() -> None:
    first, second = (Leaf.parse(raw) for raw in split_leaves(block()))
    assert (first.serving, first.expert, first.rows) == (4, 3, 2)
    assert first.amount_uc == 2 * 20  # expert 3 of layer 1 costs double
    assert (second.serving, second.amount_uc) == (5, 10)
    rows = ExpertInput(coded=quantize_rows(X[[0, 2]]))
    assert first.x_hash == x_hash(rows)
    assert first.out_hash == out_hash(b"\x03" * 16)
    assert block_ranges(block()) == ((4, 5),)


def test_a_true_voucher_is_committed_and_the_next_extends_it() -> None:
    book, worker = Book(TERMS, PRICES), TabWorker()
    assert book.accept(block()) == ((4, 5),)
    examined = book.examine(*worker.voucher(block()), GRANTS)
    assert examined.leaves == block()
    assert book.n_receipted == 0
    book.commit(examined, b"s" * 64)
    assert (book.n_accepted, book.n_receipted, book.unsigned) == (2, 2, ())
    more = build_leaves(served(6, (7, (0,))), PRICES)
    book.accept(more)
    assert book.unsigned == ((6, 6),)
    book.commit(book.examine(*worker.voucher(more), GRANTS), b"s" * 64)
    assert book.n_receipted == 3
    assert not book.is_closed


def test_repeats_of_leaves_change_nothing() -> None:
    book, worker = Book(TERMS, PRICES), TabWorker()
    book.accept(block())
    book.accept(block())
    book.commit(book.examine(*worker.voucher(block()), GRANTS), b"s" * 64)
    book.accept(block())
    assert (book.n_accepted, book.unsigned) == (2, ())


@pytest.mark.parametrize(
    "changes",
    [
        {"amount_uc": 51},
        {"rows": 4},
        {"root": bytes(32)},
        {"price_table_hash": bytes(32)},
        {"profile": 0},
        {"tab": b"another!"},
        {"backbone": bytes(32)},
        {"ranges": ((4, 4), (9, 9))},
        {"number": 2, "previous": b"p" * 32, "grant_hash": bytes(32)},
    ],
)
def test_b34_whatever_differs_from_our_leaves_is_refused(
    changes: dict[str, object],
) -> None:
    book, worker = Book(TERMS, PRICES), TabWorker()
    book.accept(block())
    with pytest.raises(VoucherRefused):
        book.examine(*worker.voucher(block(), **changes), GRANTS)
    assert book.last is None


def test_servings_never_accepted_are_refused_by_number() -> None:
    book, worker = Book(TERMS, PRICES), TabWorker()
    book.accept(split_leaves(block())[0])
    with pytest.raises(VoucherRefused, match=r"never accepted: 5\.\.5"):
        book.examine(*worker.voucher(block()), GRANTS)


def test_foreign_signatures_grants_and_bytes_are_refused() -> None:
    book, worker = Book(TERMS, PRICES), TabWorker()
    book.accept(block())
    raw, signature = worker.voucher(block())
    for bad in ((raw, bytes(64)), (raw[:-1], signature), (b"", signature)):
        with pytest.raises(VoucherRefused):
            book.examine(*bad, GRANTS)
    with pytest.raises(VoucherRefused, match="unknown grant"):
        book.examine(raw, signature, frozenset())
    other = TabWorker().voucher(block(), sign=MONEY.market)
    with pytest.raises(VoucherRefused):
        book.examine(*other, GRANTS)


def test_a_final_of_our_own_covers_everything_and_skips_a_number() -> None:
    book, worker = Book(TERMS, PRICES), TabWorker()
    book.accept(block())
    grant = next(iter(GRANTS))
    first = book.draft_final(grant, 7)
    assert (first.voucher.number, first.voucher.final) == (2, True)
    assert first.voucher.previous != bytes(32)  # there may have been a number 1
    book.commit(book.examine(*worker.voucher(block()), GRANTS), b"s" * 64)
    book.accept(build_leaves(served(6, (7, (0,))), PRICES))
    final = book.draft_final(grant, 9)
    assert (final.voucher.number, final.voucher.leaves) == (3, 3)
    assert final.n_leaves == 1
    assert book.examine_final(final.raw).raw == final.raw
    assert book.sealed is None
    book.seal(final, b"s" * 64)
    signature = sign_voucher(final.raw, MONEY.worker.sign)
    examined = book.examine(final.raw, signature, GRANTS)
    assert examined.worker_signature == signature
    with pytest.raises(VoucherRefused, match="does not verify"):
        book.examine(final.raw, bytes(64), GRANTS)
    with pytest.raises(VoucherRefused, match="closed by our final 3"):
        book.examine(*worker.voucher(b""), GRANTS)
    book.commit(examined, b"s" * 64)
    assert book.is_closed
    assert book.n_receipted == 3
