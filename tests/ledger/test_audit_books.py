"""Notes of an audit: what is compared, and which transfers must be there."""

import pytest

from ledger.accounts import AccountKind, TransferCode
from ledger.audit_books import Books, holds, naming, same
from ledger.errors import DifferenceFound, FormatRefused
from tests.support.ledger_world import World

SIDES = (
    (bytes(32), AccountKind.WORKER_PENDING),
    (bytes(32), AccountKind.WORKER_AVAILABLE),
)


def test_what_differs_is_shown_short():
    same("grant", "used", 5, 5)
    with pytest.raises(DifferenceFound, match=r"^grant: used is 5, re-derived 6$"):
        same("grant", "used", 5, 6)
    with pytest.raises(DifferenceFound) as caught:
        same("voucher", "sides", (b"\xab" * 32, "fee"), [b"\xcd" * 32, 7])
    sides = f"({'ab' * 8}, fee), re-derived ({'cd' * 8}, 7)"
    assert str(caught.value) == f"voucher: sides is {sides}"
    with pytest.raises(DifferenceFound) as caught:
        same("tile", "content", b"\xab" * 500, b"")
    assert str(caught.value).startswith("tile: content is 500 bytes of hash")
    with pytest.raises(DifferenceFound, match=r"^grant: not so: it is open$"):
        holds("grant", "it is open", False)
    holds("grant", "it is open", True)


def test_wrong_bytes_are_a_difference_of_what_they_belong_to():
    with (
        pytest.raises(DifferenceFound, match=r"^grant 12: 3 bytes$"),
        naming("grant 12"),
    ):
        raise FormatRefused("3 bytes")


def test_a_transfer_has_one_reason():
    books = Books(World().identity)
    books.expect(TransferCode.SETTLE, b"voucher", SIDES, 0, b"voucher")
    assert not books.due  # nothing moves for nothing
    books.expect(TransferCode.SETTLE, b"voucher", SIDES, 5, b"voucher", posted_us=3)
    (due,) = books.due.values()
    assert (due.code, due.amount_uc, due.posted_us) == ("settle", 5, 3)
    with pytest.raises(DifferenceFound, match="two reasons"):  # they exclude each other
        books.expect(TransferCode.REVERSE, b"voucher", SIDES, 5, b"voucher")
