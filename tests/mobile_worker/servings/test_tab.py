"""The worker's account with one backbone, from dispatch to settled voucher."""

import time

import pytest

from ledger.errors import SignatureRefused
from ledger.leaf import LEAF_BYTES, Leaf, split_leaves
from ledger.ranges import count
from ledger.tally import Tally
from ledger.voucher import Voucher, sign_voucher
from mobile_worker.servings.exposure import Exposure
from mobile_worker.servings.tab import CallHashes, Refusal, Reservation, Tab
from tests.support.money import NOW_US, TAB, Money, dispatch_of

HASHES = CallHashes(x=b"x" * 16, out=b"o" * 16)


@pytest.fixture
def money() -> Money:
    return Money()


@pytest.fixture
def tab(money: Money) -> Tab:
    return opened(money)


def opened(money: Money, **grant: object) -> Tab:
    tab = Tab(money.terms(), Exposure())
    tab.allow(money.allowance(money.prices(), **grant))
    return tab


def serve(tab: Tab, first: int, n: int = 1, now: float = 0.0, **how: object) -> None:
    taken = tab.admit(dispatch_of(first, range(n), **how), NOW_US)
    assert isinstance(taken, Reservation), taken
    tab.computed(taken, [HASHES] * n, now)


def settle(tab: Tab, money: Money, now: float) -> list:
    settled = []
    for proposal in tab.propose(now, NOW_US, money.worker.sign):
        signature = sign_voucher(proposal.raw, money.backbone.sign)
        done = tab.countersigned(proposal.name, signature)
        assert done is not None
        settled.append(done)
    return settled


def test_no_grant_no_serving(money: Money) -> None:
    tab = Tab(money.terms(), Exposure())
    assert tab.admit(dispatch_of(), NOW_US) is Refusal.NO_GRANT
    tab.allow(money.allowance(money.prices(epoch=2)))
    assert tab.admit(dispatch_of(), NOW_US) is Refusal.NO_GRANT
    assert isinstance(tab.admit(dispatch_of(epoch=2), NOW_US), Reservation)


def test_an_expired_grant_is_none(money: Money) -> None:
    tab = opened(money, expiry_us=NOW_US)
    assert tab.admit(dispatch_of(), NOW_US) is Refusal.NO_GRANT
    assert isinstance(tab.admit(dispatch_of(), NOW_US - 1), Reservation)


def test_the_ceiling_holds_for_what_is_taken_and_comes_back_when_it_fails(
    money: Money,
) -> None:
    tab = opened(money, ceiling_uc=59)
    first = tab.admit(dispatch_of(0, [0, 3], rows=1), NOW_US)  # 10 + 20
    assert isinstance(first, Reservation)
    assert first.amounts_uc == (10, 20)
    assert tab.admit(dispatch_of(2, [0], rows=3), NOW_US) is Refusal.CEILING
    assert isinstance(tab.admit(dispatch_of(2, [0], rows=2), NOW_US), Reservation)
    tab.failed(first)
    assert isinstance(tab.admit(dispatch_of(3, [0], rows=3), NOW_US), Reservation)
    assert tab.admit(dispatch_of(6, [0]), NOW_US) is Refusal.CEILING


def test_a_serving_number_is_used_once(tab: Tab) -> None:
    first = tab.admit(dispatch_of(4, range(3)), NOW_US)
    assert isinstance(first, Reservation)
    tab.failed(first)
    for again in (4, 6, 2):
        assert tab.admit(dispatch_of(again, range(3)), NOW_US) is Refusal.REUSED
    assert isinstance(tab.admit(dispatch_of(7, range(3)), NOW_US), Reservation)
    assert isinstance(tab.admit(dispatch_of(1, range(3)), NOW_US), Reservation)


def test_a_second_grant_takes_over_at_the_ceiling(money: Money) -> None:
    tab = opened(money, ceiling_uc=10)
    further = money.allowance(money.prices(), serial=1)
    tab.allow(further)
    tab.allow(further)
    serve(tab, 0)
    serve(tab, 1)
    tab.accept([(0, 1)], 0.0)
    first, second = settle(tab, money, 5.0) + settle(tab, money, 10.0)
    assert first.n_leaves == second.n_leaves == 1
    assert first.raw != second.raw


def test_the_float_stops_serving_until_a_signature_comes(money: Money) -> None:
    tab = opened(money, float_leaves=8)
    for first in range(8):
        serve(tab, first)
    assert tab.admit(dispatch_of(8), NOW_US) is Refusal.FLOAT
    tab.accept([(0, 7)], 0.0)
    assert tab.admit(dispatch_of(8), NOW_US) is Refusal.FLOAT
    (settled,) = settle(tab, money, 0.0)
    assert settled.n_leaves == 8
    assert isinstance(tab.admit(dispatch_of(8), NOW_US), Reservation)


def test_a_backbone_that_accepts_nothing_gets_one_float_under_any_tab(
    money: Money,
) -> None:
    exposure = Exposure()
    served = 0
    for number in range(5):
        tab = Tab(money.terms(tab=bytes([number]) * 8), exposure)
        tab.allow(money.allowance(money.prices(), float_leaves=8))
        for first in range(20):
            taken = tab.admit(dispatch_of(first), NOW_US)
            if isinstance(taken, Reservation):
                tab.computed(taken, [HASHES], 0.0)
                served += 1
        tab.tick(100.0)
        tab.tick(200.0)
        tab.abandon()
    assert served == 8
    assert exposure.at_risk == 8


def test_losers_of_hedges_do_not_use_up_the_float(money: Money) -> None:
    tab = opened(money, float_leaves=32)
    now = 0.0
    for step in range(200):
        serve(tab, 16 * step, 8, now)
        tab.accept([(16 * step, 16 * step + (6 if step % 2 else 7))], now)
        settle(tab, money, now)
        now += 0.1
        tab.tick(now)
    assert tab.n_accepted == 1500


def test_a_late_accept_is_paid_until_the_leaf_is_forgotten(tab: Tab) -> None:
    serve(tab, 0, 3)
    tab.tick(2.5)
    assert tab.accept([(0, 0)], 2.5) == 1
    assert tab.n_open == 2
    tab.tick(599.0)
    assert tab.n_open == 2
    tab.tick(601.0)
    assert tab.n_open == 0
    assert tab.accept([(1, 1)], 61.0) == 0


def test_accepting_twice_or_too_much_changes_nothing(tab: Tab) -> None:
    serve(tab, 5, 3)
    assert tab.accept([(0, 2**32 - 1)], 0.0) == 3
    assert tab.accept([(0, 4), (5, 2**32 - 1)], 0.0) == 0
    assert tab.n_accepted == 3


def test_many_wide_ranges_of_an_accept_cost_little(money: Money) -> None:
    tab = opened(money, float_leaves=4096)
    for first in range(0, 4096, 64):
        serve(tab, 1 << 29 | first, 64)
    wide = [(n << 14, (n << 14) + 9000) for n in range(1 << 16)]
    before = time.process_time()
    accepted = tab.accept([r for r in wide if r[0] != 1 << 29], 0.0)
    assert accepted == 0
    assert time.process_time() - before < 1.0  # it was half a minute
    assert tab.accept(wide, 0.0) == 4096


def test_a_voucher_after_a_second_256_leaves_or_half_the_float(money: Money) -> None:
    tab = opened(money, float_leaves=1000)
    serve(tab, 0)
    tab.accept([(0, 0)], 10.0)
    assert tab.propose(10.9, NOW_US, money.worker.sign) == []
    assert len(settle(tab, money, 11.0)) == 1
    serve(tab, 1, 256)
    tab.accept([(1, 256)], 20.0)
    assert len(settle(tab, money, 20.0)) == 1
    serve(tab, 300, 250)
    serve(tab, 600, 249)
    tab.accept([(600, 610)], 30.0)
    assert settle(tab, money, 30.0) == []
    serve(tab, 900, 1)
    assert len(settle(tab, money, 30.0)) == 1


def test_half_the_float_is_that_of_the_grant_in_use(money: Money) -> None:
    tab = opened(money, float_leaves=64)
    tab.allow(money.allowance(money.prices(), float_leaves=1000, serial=1))
    serve(tab, 0, 32)  # at 64 the backbone stops: it uses the older grant up first
    tab.accept([(0, 31)], 10.0)
    assert len(settle(tab, money, 10.0)) == 1


def test_vouchers_hold_exactly_the_accepted_leaves(tab: Tab, money: Money) -> None:
    serve(tab, 0, 4, rows=2)
    tab.accept([(2, 3)], 0.0)
    (first,) = settle(tab, money, 5.0)
    tab.accept([(0, 0)], 6.0)
    (second,) = settle(tab, money, 10.0)
    tally = Tally(money.terms(), money.prices())
    for settled in (first, second):
        tally.add(settled.leaves)
    voucher = Voucher.parse(second.raw)
    tally.check(voucher)
    assert voucher.ranges == ((0, 0), (2, 3))
    assert voucher.number == 2
    assert voucher.amount_uc == 2 * (10 + 10 + 20)
    assert count(voucher.ranges) == voucher.leaves == 3
    leaf = Leaf.parse(split_leaves(second.leaves)[0])
    assert (leaf.tab, leaf.serving, leaf.rows, leaf.layer) == (TAB, 0, 2, 1)
    assert (leaf.x_hash, leaf.out_hash) == (b"x" * 16, b"o" * 16)


def test_b39_an_unanswered_voucher_is_sent_again_as_the_same_bytes(
    tab: Tab, money: Money
) -> None:
    serve(tab, 0, 2)
    tab.accept([(0, 0)], 0.0)
    (first,) = tab.propose(1.0, NOW_US, money.worker.sign)
    tab.accept([(1, 1)], 1.5)
    assert tab.propose(2.0, NOW_US, money.worker.sign) == []
    (again,) = tab.propose(4.0, NOW_US + 3, money.worker.sign)
    assert again is first
    assert len(again.leaves) == LEAF_BYTES
    times = [at for at in range(5, 200) if tab.propose(at, NOW_US, money.worker.sign)]
    assert times == [8, 16, 32, 62, 92, 122, 152, 182]  # with growing pauses


def test_b39_only_the_backbones_signature_over_these_bytes_counts(
    tab: Tab, money: Money
) -> None:
    serve(tab, 0)
    tab.accept([(0, 0)], 0.0)
    (proposal,) = tab.propose(1.0, NOW_US, money.worker.sign)
    assert tab.countersigned(b"?" * 32, bytes(64)) is None
    for bad in (
        bytes(64),
        sign_voucher(proposal.raw, money.worker.sign),
        sign_voucher(proposal.raw + b"x", money.backbone.sign),
        money.backbone.sign(proposal.raw),
    ):
        with pytest.raises(SignatureRefused):
            tab.countersigned(proposal.name, bad)
    good = sign_voucher(proposal.raw, money.backbone.sign)
    assert tab.countersigned(proposal.name, good) is not None
    assert tab.countersigned(proposal.name, good) is None


def test_closing_ends_with_one_final_voucher(tab: Tab, money: Money) -> None:
    serve(tab, 0, 2)
    tab.accept([(0, 0)], 0.0)
    settle(tab, money, 2.0)
    tab.close()
    assert tab.admit(dispatch_of(9), NOW_US) is Refusal.CLOSED
    assert settle(tab, money, 3.0) == []
    assert not tab.is_settled
    tab.accept([(1, 1)], 3.5)
    (last,) = settle(tab, money, 3.5)
    assert Voucher.parse(last.raw).final
    assert tab.is_settled
    assert tab.propose(50.0, NOW_US, money.worker.sign) == []


def test_closing_writes_off_what_nobody_accepts(tab: Tab, money: Money) -> None:
    serve(tab, 0, 2)
    tab.accept([(0, 0)], 0.0)
    settle(tab, money, 2.0)
    tab.close()
    tab.write_off()
    (last,) = settle(tab, money, 3.0)
    voucher = Voucher.parse(last.raw)
    assert (voucher.final, voucher.leaves, last.leaves) == (True, 1, b"")


def test_an_unused_tab_closes_without_a_voucher(tab: Tab, money: Money) -> None:
    tab.close()
    assert tab.propose(5.0, NOW_US, money.worker.sign) == []
    assert tab.is_settled


def test_a_newer_price_epoch_closes_the_older_chain(tab: Tab, money: Money) -> None:
    serve(tab, 0)
    tab.accept([(0, 0)], 0.0)
    tab.allow(money.allowance(money.prices(epoch=2, base_uc=7), serial=2))
    serve(tab, 1, epoch=2)
    tab.accept([(1, 1)], 0.0)
    settled = settle(tab, money, 2.0)
    vouchers = [Voucher.parse(each.raw) for each in settled]
    assert [(v.price_epoch, v.number, v.final) for v in vouchers] == [
        (1, 1, True),
        (2, 1, False),
    ]
    assert [v.amount_uc for v in vouchers] == [10, 7]
    assert tab.admit(dispatch_of(2), NOW_US) is Refusal.NO_GRANT


def test_abandoning_gives_up_what_was_never_signed(money: Money) -> None:
    exposure = Exposure(signed=800)
    tab = Tab(money.terms(), exposure)
    tab.allow(money.allowance(money.prices()))
    serve(tab, 0, 3)
    tab.accept([(0, 1)], 0.0)
    tab.propose(5.0, NOW_US, money.worker.sign)
    tab.abandon()
    assert (exposure.live, exposure.overdue, exposure.at_risk) == (0, 3, 0)
    assert tab.is_settled


def test_a_voucher_refused_again_and_again_ends_the_tab(tab: Tab, money: Money) -> None:
    serve(tab, 0)
    tab.accept([(0, 0)], 0.0)
    (proposal,) = tab.propose(1.0, NOW_US, money.worker.sign)
    assert not tab.refused(b"?" * 32, 1.0)
    assert tab.refused(proposal.name, 1.0)
    assert tab.propose(10.0, NOW_US, money.worker.sign) == []
    assert tab.propose(13.0, NOW_US, money.worker.sign) == [proposal]
    assert tab.refused(bytes(32), 13.0)
    assert not tab.is_closed
    assert tab.refused(proposal.name, 30.0)
    assert tab.is_closed
    assert tab.is_settled
    assert tab.propose(99.0, NOW_US, money.worker.sign) == []


def test_an_epoch_that_is_over_goes_once_nothing_of_it_is_open(
    tab: Tab, money: Money
) -> None:
    serve(tab, 0, 2)
    tab.accept([(0, 0)], 0.0)
    tab.allow(money.allowance(money.prices(epoch=2), serial=2))
    settle(tab, money, 2.0)
    tab.tick(2.0)
    assert tab.n_open == 1  # serving 1 may still be accepted
    tab.accept([(1, 1)], 2.5)
    (final,) = settle(tab, money, 3.0)
    assert Voucher.parse(final.raw).final
    tab.tick(4.0)
    assert tab.is_settled
    assert tab.signed_up_to(1) == Voucher.parse(final.raw).number == 2
    assert tab.admit(dispatch_of(2), NOW_US) is Refusal.NO_GRANT
    assert isinstance(tab.admit(dispatch_of(2, epoch=2), NOW_US), Reservation)
    tab.tick(5.0)
    assert tab.signed_up_to(2) == 0


def test_a_hundred_epochs_leave_little_behind(tab: Tab, money: Money) -> None:
    for epoch in range(2, 102):
        table = money.prices(epoch=epoch)
        tab.allow(money.allowance(table, serial=epoch))
        serve(tab, epoch, epoch=epoch)
        tab.accept([(epoch, epoch)], 0.0)
        settle(tab, money, 2.0 * epoch)
        tab.tick(2.0 * epoch)
    assert len(tab._chains) <= 2
    assert len(tab._allowances) <= 2
