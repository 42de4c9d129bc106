"""Own receipts against the ledger's books: every way in which they may differ."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.claims import FiledStatus
from ledger.errors import FormatRefused
from ledger.voucher import SignedVoucher, voucher_hash
from mobile_worker.servings.own_copy import OwnReceipt
from p2pmoe.receipts.comparison import Comparison, check_own, compare, parse_rows
from tests.support.ledger_world import TabSide, paper_tab

BEGAN_US = 1_793_491_200_000_000
TIME = "2026-11-01T00:00:01.000000Z"


def own_of(signed: SignedVoucher, **changes: object) -> OwnReceipt:
    receipt = OwnReceipt(
        signed=signed, status=FiledStatus.STORED, reason="", answered_us=BEGAN_US
    )
    return dataclasses.replace(receipt, **changes)


def row_of(tab: TabSide, signed: SignedVoucher, amount_uc: int, **changes) -> dict:
    voucher = signed.verified()
    return {
        "time": TIME,
        "status": "pending",
        "reason": "open",
        "worker": voucher.worker.hex(),
        "backbone": voucher.backbone.hex(),
        "tab": voucher.tab.hex(),
        "epoch": voucher.price_epoch,
        "number": voucher.number,
        "servings": 1,
        "amount_uc": amount_uc,
        "voucher": voucher_hash(signed.raw).hex(),
        **changes,
    }


@pytest.fixture(scope="module")
def made() -> tuple[TabSide, list[SignedVoucher], list[dict]]:
    """Three vouchers of one tab, and the ledger's rows of them."""
    tab = paper_tab()
    signed = [tab.next(2 * n, 2 * n + 1)[0] for n in range(3)]
    sums = [0, *(each.verified().amount_uc for each in signed)]
    rows = [
        row_of(tab, each, after - before)
        for each, before, after in zip(signed, sums, sums[1:], strict=False)
    ]
    return tab, signed, rows


def differences(own: list[OwnReceipt], rows: list[dict], tab: TabSide) -> list[str]:
    checked, wrong = check_own(own, tab.worker.id)
    compared = compare(checked, parse_rows({"vouchers": rows}))
    return [each.what for each in (*wrong, *compared.differences)]


def test_books_that_agree(made):
    tab, signed, rows = made
    checked, wrong = check_own(map(own_of, signed), tab.worker.id)
    newest = signed[-1].verified()
    assert wrong == []
    assert compare(checked, parse_rows({"vouchers": rows})) == Comparison(
        receipts=3,
        servings=6,
        amount_uc=newest.amount_uc,
        older=0,
        differences=(),
    )


def test_b33_each_difference_is_named(made):
    tab, signed, rows = made
    own = list(map(own_of, signed))
    assert differences(own, rows[:2], tab) == ["acknowledged to us, not in the ledger"]
    refused = [*rows[:2], rows[2] | {"status": "rejected", "reason": "ceiling"}]
    assert differences(own, refused, tab) == [
        "acknowledged to us, rejected in the ledger: ceiling"
    ]
    less = [*rows[:2], rows[2] | {"amount_uc": 1}]
    (what,) = differences(own, less, tab)
    assert what.endswith("1 in the ledger")
    assert differences(own[:2], rows, tab) == [
        "pending in the ledger, not in this copy"
    ]
    moved = [*rows[:2], rows[2] | {"number": 9}]
    assert "the ledger has it under another tab or number" in differences(
        own, moved, tab
    )


def test_a_refused_one_is_no_difference_while_the_ledger_says_so_too(made):
    tab, signed, rows = made
    own = list(map(own_of, signed[:2]))
    own.append(own_of(signed[2], status=FiledStatus.REJECTED, reason="grant"))
    assert differences(own, rows[:2], tab) == []
    refused = rows[2] | {"status": "rejected", "reason": "grant"}
    assert differences(own, [*rows[:2], refused], tab) == []
    assert differences(own, rows, tab) == ["refused to us, pending in the ledger"]


def test_what_a_later_voucher_covers_need_not_be_told(made):
    tab, signed, rows = made
    whole = rows[2] | {"amount_uc": signed[2].verified().amount_uc}
    assert differences(list(map(own_of, signed)), [whole], tab) == []


def test_a_tabs_beginning_may_lie_before_what_is_told(made):
    tab, signed, rows = made
    assert differences([own_of(signed[2])], [rows[2]], tab) == []
    more = rows[2] | {"amount_uc": signed[2].verified().amount_uc + 1}
    assert len(differences([own_of(signed[2])], [more], tab)) == 1


def test_what_a_later_voucher_covers_need_not_be_in_the_copy(made):
    """Its backbone filed each alone, we filed two as one."""
    tab, signed, rows = made
    own = [own_of(signed[0]), own_of(signed[2])]
    assert differences(own, rows, tab) == []
    (what,) = differences(own, [rows[0], rows[1] | {"amount_uc": 1}, rows[2]], tab)
    assert what.startswith("adds ")
    assert differences([own_of(signed[0])], rows, tab) == [
        "pending in the ledger, not in this copy",
        "pending in the ledger, not in this copy",
    ]


def test_rows_from_before_this_copy_are_older_not_different(made):
    tab, signed, rows = made
    early = rows[0] | {"time": "2026-10-01T00:00:00.000000Z"}
    checked, _ = check_own(map(own_of, signed[1:]), tab.worker.id)
    compared = compare(checked, parse_rows({"vouchers": [early, *rows[1:]]}))
    assert (compared.older, compared.differences) == (1, ())


def test_a_final_that_waits_for_our_signature_is_not_in_our_copy(made):
    tab, signed, rows = made
    held = rows[2] | {"status": "held", "reason": "one-sided"}
    assert differences(list(map(own_of, signed[:2])), [*rows[:2], held], tab) == []


def test_own_receipts_are_checked_by_themselves(made):
    tab, signed, _ = made
    flipped = bytearray(signed[0].backbone_signature)
    flipped[3] ^= 1
    forged = dataclasses.replace(signed[0], backbone_signature=bytes(flipped))
    _, wrong = check_own([own_of(forged)], tab.worker.id)
    assert [each.what.split(":")[0] for each in wrong] == ["no good in this copy"]
    bare = dataclasses.replace(
        signed[0], worker_signature=bytes(64), backbone_signature=bytes(64)
    )
    assert len(check_own([own_of(bare)], tab.worker.id)[1]) == 1
    _, wrong = check_own([own_of(signed[0])], tab.backbone.id)
    assert [each.what for each in wrong] == ["a voucher of another worker"]


def test_b39_two_vouchers_of_one_number_are_named():
    tab, twin = paper_tab(), paper_tab()
    one, other = tab.next(0)[0], twin.next(0, 1)[0]
    _, wrong = check_own([own_of(one), own_of(other)], tab.worker.id)
    assert [each.what for each in wrong] == ["another voucher has its number"]


def test_the_same_receipt_twice_is_one(made):
    tab, signed, rows = made
    own = [own_of(signed[0]), own_of(signed[0], status=FiledStatus.DUPLICATE)]
    assert differences(own, rows[:1], tab) == []


@pytest.mark.parametrize(
    "change",
    [
        {"worker": "00"},
        {"worker": None},
        {"tab": "zz" * 8},
        {"number": -1},
        {"number": True},
        {"amount_uc": 1.5},
        {"amount_uc": 1 << 63},
        {"status": 1},
        {"time": "x" * 1001},
    ],
)
def test_rows_are_read_strictly(made, change):
    _, _, rows = made
    with pytest.raises(FormatRefused, match="a receipt"):
        parse_rows({"vouchers": [rows[0] | change]})


@pytest.mark.parametrize(
    "document", [None, [], {}, {"vouchers": {}}, {"vouchers": [1]}]
)
def test_what_is_no_list_of_receipts(document):
    with pytest.raises(FormatRefused):
        parse_rows(document)


@given(
    document=st.recursive(
        st.none() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=10,
    )
)
def test_any_json_is_rows_or_refused(document):
    for each in (document, {"vouchers": document}, {"vouchers": [document]}):
        try:
            parse_rows(each)
        except FormatRefused:
            continue
