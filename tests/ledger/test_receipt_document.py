"""A receipt as a row: amounts twice, instants in UTC, ids in hex."""

from ledger.receipt_document import receipt_document
from ledger.receipt_states import ReceiptLine, ReceiptState

LINE = ReceiptLine(
    state=ReceiptState.PENDING,
    why="window",
    detail="",
    worker=b"w" * 32,
    backbone=b"b" * 32,
    tab=b"t" * 8,
    price_epoch=7,
    number=3,
    servings=2,
    amount_uc=1_500_000,
    posted_us=1,
    due_us=2,
    voucher_hash=b"h" * 32,
)


def test_a_row_has_stable_names_and_amounts_twice():
    row = receipt_document(LINE, explained=False)
    assert list(row) == [
        *("time", "status", "reason", "worker", "backbone", "tab", "epoch", "number"),
        *("servings", "amount_uc", "amount", "voucher"),
    ]
    assert (row["amount_uc"], row["amount"]) == (1_500_000, "1.500000")
    assert row["time"] == "1970-01-01T00:00:00.000001Z"
    assert row["tab"] == "7474747474747474"


def test_it_says_why_in_a_sentence_where_asked():
    why = receipt_document(LINE, explained=True)["why"]
    assert why == (
        "closed; either side may dispute it until 1970-01-01T00:00:00.000002Z"
    )
