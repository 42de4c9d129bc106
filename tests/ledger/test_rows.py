"""Rows: what is collected, and the two shapes of a current voucher."""

from ledger.claims import Refusal, RejectReason, verify_claim
from ledger.leaf_files import LeafPlace
from ledger.rows import Rows, filing_row, rejected_row, voucher_row
from tests.support.ledger_world import paper_tab


def claims():
    tab = paper_tab()
    first, second = tab.next(0, 1), tab.next(2)
    return [verify_claim(*each, tab.backbone.id) for each in (first, second)]


def test_a_voucher_new_in_this_group_stays_an_insert():
    one, two = claims()
    rows = Rows()
    rows.set_voucher(1, voucher_row(one, 5), is_new=True)
    rows.set_voucher(1, voucher_row(two, 6), is_new=False)
    assert rows.new_vouchers[1]["number"] == 2
    assert not rows.changed_vouchers
    rows.clear()
    rows.set_voucher(1, voucher_row(two, 6), is_new=False)
    assert rows.changed_vouchers[1]["number"] == 2


def test_a_filing_is_what_a_voucher_adds():
    one, two = claims()
    place = LeafPlace(3, 79)
    first = filing_row(one, None, place, 5)
    second = filing_row(two, one.voucher, place, 6)
    for name in ("leaves", "rows", "amount_uc"):
        assert first[name] == getattr(one.voucher, name)
        assert first[name] + second[name] == getattr(two.voucher, name)
    assert (second["leaf_file"], second["leaf_offset"]) == (3, 79)


def test_a_refused_one_is_kept_as_received_but_bounded():
    one, _ = claims()
    refusal = Refusal(
        reason=RejectReason.FORMAT,
        detail="d" * 1000,
        signed=one.signed,
        voucher=None,
        filed_by=b"f" * 32,
    )
    row = rejected_row(refusal, 7)
    assert row["raw"] == one.signed.raw
    assert len(row["detail"]) == 500
    assert (row["worker"], row["amount_uc"], row["seen_us"]) == (b"", 0, 7)


def test_changes_of_a_closing_join_its_insert_while_it_waits():
    rows = Rows()
    rows.new_closings[1] = {"voucher_id": 1, "state": "closed"}
    rows.change_closing(1, {"state": "released"})
    assert rows.new_closings[1]["state"] == "released"
    assert not rows.changed_closings
    rows.clear()
    rows.change_closing(1, {"state": "released", "released_us": 5})
    assert rows.changed_closings[1] == {
        "closing_id": 1,
        "new_state": "released",
        "new_released_us": 5,
    }


def test_a_final_that_ends_drops_its_leaves_written_or_not():
    rows = Rows()
    rows.new_finals[b"h"] = {"leaves": b"x", "state": "held"}
    rows.end_final(b"h", "signed")
    assert rows.new_finals[b"h"] == {"leaves": b"", "state": "signed"}
    rows.clear()
    rows.end_final(b"h", "expired")
    assert rows.ended_finals[b"h"]["new_state"] == "expired"
