"""A worker signs a final that its backbone drafted, and never two of one number."""

import dataclasses

import pytest

from ledger.errors import ChainRefused, FormatRefused, SignatureRefused
from ledger.voucher import Voucher, voucher_hash
from mobile_worker.messages.accounts import File
from mobile_worker.servings.finals import TabMark, check_final, mark_key
from tests.support.ledger_world import Party, TabSide, paper_tab


@pytest.fixture
def tab() -> TabSide:
    return paper_tab()


def offer_of(tab: TabSide, n_skipped: int = 1) -> tuple[File, Voucher]:
    signed, block = tab.one_sided(0, 1, n_skipped=n_skipped)
    offer = File(
        voucher=signed.raw,
        worker_signature=b"",
        backbone_signature=signed.backbone_signature,
        leaves=block,
    )
    return offer, Voucher.parse(signed.raw)


def mark_of(voucher: Voucher, number: int) -> TabMark:
    mark = TabMark.of(voucher, bytes(32))
    return dataclasses.replace(mark, number=number)


def check(tab: TabSide, offer: File, voucher: Voucher, mark: TabMark | None) -> None:
    check_final(offer, voucher, tab.worker.id, tab.world.network.id, mark)


def test_a_final_above_every_number_signed_is_signed(tab: TabSide) -> None:
    offer, final = offer_of(tab)
    assert final.number == 2  # number 1 may have been proposed
    check(tab, offer, final, mark_of(final, 1))


def test_a_number_that_was_signed_is_not_signed_again(tab: TabSide) -> None:
    offer, final = offer_of(tab)
    for number in (2, 3):
        with pytest.raises(ChainRefused, match="is signed"):
            check(tab, offer, final, mark_of(final, number))
    same = TabMark.of(final, voucher_hash(offer.voucher))
    check(tab, offer, final, same)  # the very one: nothing new is signed


def test_nothing_is_signed_for_a_tab_that_we_do_not_know(tab: TabSide) -> None:
    offer, final = offer_of(tab)
    opened = TabMark.opening(tab.terms, 5)
    check(tab, offer, final, opened)
    of_another = dataclasses.replace(opened, backbone=Party("other").id)
    for mark in (None, of_another):
        with pytest.raises(ChainRefused, match="know nothing of"):
            check(tab, offer, final, mark)


def test_only_finals_of_ours_are_signed(tab: TabSide) -> None:
    offer, final = offer_of(tab)
    mark, network = mark_of(final, 1), tab.world.network.id
    with pytest.raises(ChainRefused, match="no final"):
        check_final(offer, final, Party("other").id, network, mark)
    with pytest.raises(ChainRefused, match="no final"):
        check_final(offer, final, tab.worker.id, Party("elsewhere").id, mark)
    with pytest.raises(ChainRefused, match="no final"):
        check(tab, offer, dataclasses.replace(final, final=False), mark)
    with pytest.raises(FormatRefused, match="bytes of leaves"):
        check(tab, dataclasses.replace(offer, leaves=b"x"), final, mark)
    forged = dataclasses.replace(offer, backbone_signature=bytes(64))
    with pytest.raises(SignatureRefused):
        check(tab, forged, final, mark)


def test_a_mark_comes_back_as_it_was(tab: TabSide) -> None:
    _, final = offer_of(tab)
    mark = TabMark.of(final, b"n" * 32)
    assert TabMark.parse(mark.pack()) == mark
    assert mark.key == mark_key(final)
    with pytest.raises(FormatRefused, match="mark of a tab"):
        TabMark.parse(mark.pack()[:-1])
