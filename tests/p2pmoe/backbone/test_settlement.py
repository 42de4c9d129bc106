"""Who may be asked: tab, prices, grant, ceiling and float, each by itself."""

import dataclasses
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import trio
import trio.testing

from ledger.grant import Grant
from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from p2pmoe.backbone import settlement as settlement_module
from p2pmoe.backbone.books import Book
from p2pmoe.backbone.servings import Means
from p2pmoe.backbone.settlement import RESTART_GAP, Settlement, SettlementTerms
from relay.keys import PeerId
from tests.support.backbone_model import (
    POCKET,
    generate,
    local_backbone,
    local_side,
    manifest_of,
    scattered_backbone,
    shards_of,
)
from tests.support.memory_worker import World
from tests.support.money import NOW_US, TAB, Money
from tests.support.trio_test import trio_test
from tests.support.vouchers import served

MONEY = Money()
WORKER = PeerId(MONEY.worker.peer_id)
PRICES = MONEY.prices()


class Rig:
    def __init__(self) -> None:
        self.now_us = NOW_US
        self.means: dict[PeerId, Means] = {}
        self.settlement = Settlement(
            SettlementTerms(
                network=MONEY.network,
                manifest_hash=MONEY.manifest_hash,
                profile=1,
                backbone=PeerId(MONEY.backbone.peer_id),
            ),
            lambda: self.now_us,
            lambda peer, means: self.means.update({peer: means}),
        )

    def open(self, **changes: object) -> Settlement:
        self.settlement.priced(PRICES)
        self.settlement.greeted(WORKER, TAB)
        self.grant(**changes)
        return self.settlement

    def grant(self, **changes: object) -> Grant:
        grant = MONEY.grant(PRICES, **changes)
        self.settlement.granted(WORKER, grant.content_hash, grant)
        return grant


def test_all_conditions_are_needed() -> None:
    rig = Rig()
    settlement = rig.settlement
    assert settlement.room(WORKER) == 0
    settlement.greeted(WORKER, TAB)
    assert settlement.number(WORKER, 1, 1) is None
    settlement.priced(PRICES)
    assert settlement.grants_to_request() == [WORKER]
    assert settlement.grants_to_request() == []  # once
    rig.grant()
    assert rig.means[WORKER] is Means.ROOM
    assert settlement.room(WORKER) == 64
    settlement.lost(WORKER)
    assert rig.means[WORKER] is Means.NONE
    settlement.greeted(WORKER, TAB)
    assert rig.means[WORKER] is Means.ROOM
    rig.now_us += 3_600_000_001
    assert settlement.room(WORKER) == 0


def test_numbers_are_used_once_and_the_float_holds() -> None:
    rig = Rig()
    settlement = rig.open(float_leaves=10)
    slots = [settlement.number(WORKER, 4, 4) for _ in range(3)]
    assert [slot.first for slot in slots if slot] == [0, 4]
    assert slots[2] is None
    assert settlement.room(WORKER) == 2
    assert slots[0] is not None
    settlement.abandon(slots[0])
    again = settlement.number(WORKER, 4, 4)
    assert again is not None
    assert again.first == 8
    settlement.receipted(WORKER, TAB, 4)
    assert settlement.room(WORKER) == 6
    assert settlement.number(WORKER, 6, 6) is not None
    assert rig.means[WORKER] is Means.FULL


def test_the_ceiling_holds_and_is_extended_before_it_is_reached() -> None:
    rig = Rig()
    settlement = rig.open(ceiling_uc=20 * 100, float_leaves=1000)
    assert settlement.grants_to_request() == []
    assert settlement.number(WORKER, 10, 60)
    assert settlement.grants_to_request() == [WORKER]
    assert settlement.number(WORKER, 10, 60)
    assert settlement.room(WORKER) == 0
    rig.grant(ceiling_uc=20 * 1000, serial=1, float_leaves=90)
    assert settlement.room(WORKER) == 70  # of the grant that is used now
    assert len(settlement.grant_names(WORKER)) == 2


def test_a_worker_that_says_no_grant_for_ever_binds_little_money() -> None:
    rig = Rig()
    settlement = rig.open()
    n_asked = 1
    for serial in range(1, 20):
        settlement.refused_for_grant(WORKER)
        if settlement.grants_to_request():
            n_asked += 1
            rig.grant(serial=serial)
    assert n_asked == settlement_module.MAX_OPEN_GRANTS
    rig.now_us += 3_600_000_001  # all of them are over
    settlement.refused_for_grant(WORKER)
    assert settlement.grants_to_request() == [WORKER]


def test_grants_of_an_earlier_run_do_not_keep_a_worker_waiting() -> None:
    rig = Rig()
    settlement = rig.open()
    for serial in range(1, 9):  # handed over by nobody, if the worker is new too
        grant = MONEY.grant(PRICES, serial=serial)
        settlement.granted(WORKER, grant.content_hash, grant, restored=True)
    settlement.refused_for_grant(WORKER)
    assert settlement.grants_to_request() == [WORKER]


def test_vouchers_tell_which_grants_are_used_up_whatever_an_earlier_run_used() -> None:
    """Else a worker without room gets no more grants: those before seem to have it."""
    rig = Rig()
    settlement = rig.open(ceiling_uc=1000)
    restored = [MONEY.grant(PRICES, ceiling_uc=1000, serial=n) for n in range(2, 12)]
    for grant in restored:
        settlement.granted(WORKER, grant.content_hash, grant, restored=True)
    of_run = []
    for serial in range(20, 20 + settlement_module.MAX_OPEN_GRANTS - 1):
        settlement.refused_for_grant(WORKER)
        assert settlement.grants_to_request() == [WORKER]
        of_run.append(MONEY.grant(PRICES, ceiling_uc=1000, serial=serial))
        settlement.granted(WORKER, of_run[-1].content_hash, of_run[-1])
    settlement.refused_for_grant(WORKER)
    assert settlement.grants_to_request() == []  # as many as may be open
    for grant in of_run:
        settlement.claimed(WORKER, grant.content_hash, 990)
    assert settlement.grants_to_request() == [WORKER]
    assert settlement.grants_of(WORKER)  # they can still be named
    stranger = MONEY.grant(PRICES, serial=99)
    settlement.claimed(WORKER, stranger.content_hash, 5)  # a final's own grant


def test_a_worker_that_greets_with_ever_new_tabs_takes_no_memory() -> None:
    rig = Rig()
    settlement = rig.open()
    for n in range(100):
        settlement.greeted(WORKER, n.to_bytes(8, "big"))
    assert len(settlement.tabs) == 1
    assert settlement.number(WORKER, 1, 1) is not None
    settlement.greeted(WORKER, TAB)
    assert len(settlement.tabs) == 2  # the used one is settled first


def test_what_was_used_goes_with_its_grant() -> None:
    rig = Rig()
    settlement = rig.open(ceiling_uc=20 * 100, float_leaves=4096)
    for serial in range(1, 50):  # two days at half a grant an hour
        rig.now_us += 3_500_000_000
        rig.grant(
            ceiling_uc=20 * 100,
            float_leaves=4096,
            serial=serial,
            expiry_us=rig.now_us + 3_600_000_000,
        )
        slot = settlement.number(WORKER, 1, 50)
        assert slot is not None
        settlement.receipted(WORKER, TAB, 1)
        assert settlement.grants_to_request() == []  # half of it would be too little
        assert len(settlement._accounts[WORKER].open) <= 2


def test_at_most_two_grants_are_reserved_at_once() -> None:
    rig = Rig()
    settlement = rig.open(ceiling_uc=20 * 100, float_leaves=4096)
    n_grants = 1
    for _ in range(100):
        assert settlement.number(WORKER, 1, 10)
        for _ in settlement.grants_to_request():
            rig.grant(ceiling_uc=20 * 100, float_leaves=4096, serial=n_grants)
            n_grants += 1
    assert n_grants <= 100 * 10 / 100 + 2
    assert len(settlement.grant_names(WORKER)) == n_grants  # vouchers name them


def test_a_grant_that_comes_before_its_prices_counts_from_then_on() -> None:
    rig = Rig()
    rig.grant()
    rig.settlement.greeted(WORKER, TAB)
    assert rig.settlement.room(WORKER) == 0
    rig.settlement.priced(PRICES)
    rig.grant()  # again: the same
    assert rig.settlement.room(WORKER) == 64
    assert len(rig.settlement._accounts[WORKER].open) == 1


def test_a_new_tab_begins_anew_and_an_old_one_is_lost() -> None:
    rig = Rig()
    settlement = rig.open()
    assert settlement.number(WORKER, 4, 4)
    book = settlement.book_of(served(0, (3, (0,))).slot)
    book.accepted = ((0, 3),)
    settlement.greeted(WORKER, b"new tab!")
    assert settlement.tab_of(WORKER) == b"new tab!"
    totals = settlement.totals()
    assert (totals.accepted, totals.receipted, totals.unsigned_at_kill) == (4, 0, 4)
    slot = settlement.number(WORKER, 2, 2)
    assert slot is not None
    assert (slot.tab, slot.first) == (b"new tab!", 0)
    assert settlement.room(WORKER) == 62
    assert not settlement.is_pending()


def test_a_tab_of_an_earlier_run_is_taken_up_far_above() -> None:
    rig = Rig()
    book = Book(MONEY.terms(), PRICES)
    book.accepted = ((0, 9),)
    rig.settlement.restored(book)
    settlement = rig.open()
    assert settlement.room(WORKER) == 64 - 10  # ten are accepted and not signed
    slot = settlement.number(WORKER, 1, 1)
    assert slot is not None
    assert slot.first == 10 + RESTART_GAP


def test_a_caught_worker_is_never_payable_again() -> None:
    rig = Rig()
    settlement = rig.open()
    settlement.withhold(WORKER)
    rig.grant(serial=5)
    assert settlement.is_withheld(WORKER)
    assert settlement.room(WORKER) == 0
    assert rig.means[WORKER] is Means.NONE
    assert settlement.grants_to_request() == []


def test_a_worker_without_a_grant_pauses_until_one_comes() -> None:
    rig = Rig()
    settlement = rig.open()
    settlement.refused_for_grant(WORKER)
    assert settlement.room(WORKER) == 0
    assert settlement.grants_to_request() == [WORKER]
    rig.grant(serial=6)
    assert settlement.room(WORKER) == 64


def test_an_older_price_table_is_ignored_and_a_newer_ends_the_grants() -> None:
    rig = Rig()
    settlement = rig.open()
    settlement.priced(MONEY.prices(epoch=0))
    assert settlement.room(WORKER) == 64
    settlement.priced(MONEY.prices(epoch=2))
    assert settlement.room(WORKER) == 0
    assert settlement.grants_to_request() == [WORKER]


def test_a_tab_of_another_worker_is_not_taken() -> None:
    rig = Rig()
    settlement = rig.open()
    other = PeerId(MONEY.market.peer_id)
    settlement.greeted(other, b"others!!")
    settlement.greeted(WORKER, b"others!!")
    assert settlement.tab_of(WORKER) == TAB
    assert settlement.tabs[b"others!!"].worker == other
    assert rig.means[WORKER] is Means.ROOM
    assert settlement.number(WORKER, 1, 1)


def test_a_slot_of_older_prices_gives_nothing_back_under_newer_ones() -> None:
    rig = Rig()
    settlement = rig.open()
    old = settlement.number(WORKER, 4, 40)
    assert old is not None
    prices = MONEY.prices(epoch=2)
    settlement.priced(prices)
    grant = MONEY.grant(prices, ceiling_uc=20 * 8)
    settlement.granted(WORKER, grant.content_hash, grant)
    assert settlement.number(WORKER, 8, 8)
    settlement.abandon(old)
    assert settlement.room(WORKER) == 0  # the ceiling is reached all the same


def test_a_book_of_an_earlier_run_stays_until_its_worker_has_another_tab() -> None:
    rig = Rig()
    book = Book(MONEY.terms(), PRICES)
    rig.settlement.restored(book)
    rig.grant()  # restored too: the worker is known before its HELLO
    assert rig.settlement.complete() == []
    rig.settlement.greeted(WORKER, b"new tab!")
    assert [found for _, _, found in rig.settlement.complete()] == [book]


@pytest.mark.parametrize("closed", [True, False])
def test_complete_books_are_forgotten_but_counted(closed: bool) -> None:
    rig = Rig()
    settlement = rig.open()
    book = settlement.book_of(served(0, (3, (0,))).slot)
    book.accepted = ((0, 3),)
    if not closed:
        assert settlement.complete() == []
        settlement.greeted(WORKER, b"new tab!")
        assert settlement.complete() == []  # four servings may still be signed
        book.accepted = ()
    else:
        settlement.greeted(WORKER, b"new tab!")
        book.accepted = ()
    ((tab, epoch, found),) = settlement.complete()
    assert (tab, epoch, found) == (TAB, PRICES.epoch, book)
    settlement.forget(tab, epoch)
    assert settlement.totals().accepted == 0
    assert settlement.complete() == []


@trio_test
async def test_a_worn_tab_is_replaced_and_everything_in_it_is_signed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settlement_module, "WORN_SERVINGS", 100)
    world = World(manifest_of(POCKET), tmp_path)
    side = local_side(POCKET, hot_share=0.0)
    everything = set(side.all_experts())
    prompt = tuple(range(5, 25))
    async with local_backbone(side) as alone:
        expected, _ = await generate(alone, prompt, 6)
    async with world.services(), AsyncExitStack() as stack:
        worker = await stack.enter_async_context(
            world.worker(NumpyKernel(), shards_of(POCKET, everything))
        )
        backbone = await stack.enter_async_context(scattered_backbone(world, side))
        await backbone.covers(everything)
        settlement = backbone.joined.settlement
        first = settlement.tab_of(worker.identity.peer_id)
        with trio.fail_after(20):
            # How much goes to a newcomer is bounded by what it has not signed yet; what
            # does not is read from disk. So more is asked until its tab is worn.
            while settlement.tab_of(worker.identity.peer_id) == first:
                tokens, _ = await generate(backbone, prompt, 6)
                assert tokens == expected
        assert len(settlement.tabs) >= 2
        assert await backbone.joined.side.drain(8)
        with trio.fail_after(5):
            # Until the final vouchers of all but the last are filed.
            while any(tab.books and not tab.live for tab in settlement.tabs.values()):
                await trio.testing.wait_all_tasks_blocked(0.01)
        totals = settlement.totals()
        assert totals.unsigned_at_kill == 0
        assert totals.accepted == totals.receipted == world.ledger.n_receipts


def test_an_answer_counts_at_its_price_once_it_is_known() -> None:
    """At the dearest until then: expert 3 costs twice what the others do."""
    rig = Rig()
    settlement = rig.open(ceiling_uc=100)
    slot = settlement.number(WORKER, 1, 2)
    assert slot is not None
    assert settlement.grants_to_request() == []
    second = settlement.number(WORKER, 1, 2)
    assert second is not None
    assert settlement.grants_to_request() == [WORKER]  # 80 of 100 may be used
    settlement.ungranted(WORKER)
    for number, taken in enumerate((slot, second)):
        answer = served(number, (5, (0, 1)))
        settlement.costed(dataclasses.replace(answer, slot=taken))
    assert settlement.grants_to_request() == []  # 40 are


def test_what_no_open_book_needs_is_forgotten() -> None:
    rig = Rig()
    settlement = rig.open()
    settlement.claimed(WORKER, MONEY.grant(PRICES).content_hash, 5)
    later = [MONEY.prices(epoch=epoch) for epoch in range(2, 6)]
    settlement.priced(later[0])
    assert settlement.grant_names(WORKER)
    assert PRICES.content_hash in settlement.prune()
    for table in later[1:]:
        settlement.priced(table)
    names = {table.content_hash for table in later[1:]}
    assert settlement.prune() == names
    assert not settlement.grant_names(WORKER)


def test_an_open_book_keeps_its_prices_and_grants() -> None:
    rig = Rig()
    settlement = rig.open()
    slot = settlement.number(WORKER, 1, 1)
    assert slot is not None
    settlement.book_of(slot)
    for epoch in range(2, 7):
        settlement.priced(MONEY.prices(epoch=epoch))
    assert PRICES.content_hash in settlement.prune()
    assert settlement.grant_names(WORKER)
    settlement.forget(TAB, PRICES.epoch)
    assert PRICES.content_hash not in settlement.prune()
