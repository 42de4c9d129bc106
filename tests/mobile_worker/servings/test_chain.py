"""Vouchers of one tab and epoch: one grant each, late leaves, many holes."""

from ledger.leaf import Leaf
from ledger.voucher import Voucher, sign_voucher
from mobile_worker.servings.chain import MAX_LEAVES, Chain, Proposal
from tests.support.money import NOW_US, TAB, Money


def leaf(serving: int) -> bytes:
    return Leaf(
        tab=TAB,
        serving=serving,
        request=1,
        layer=1,
        expert=0,
        rows=1,
        price_epoch=1,
        x_hash=bytes(16),
        out_hash=bytes(16),
        nonce=bytes(8),
        amount_uc=10,
    ).pack()


def signed(chain: Chain, proposal: Proposal | None, money: Money) -> Voucher:
    assert proposal is not None
    chain.countersigned(proposal.name, sign_voucher(proposal.raw, money.backbone.sign))
    return Voucher.parse(proposal.raw)


def test_a_voucher_adds_leaves_of_one_grant_and_at_most_512() -> None:
    money = Money()
    chain = Chain(money.terms(), money.prices())
    one = money.allowance(money.prices(), serial=1)
    two = money.allowance(money.prices(), serial=2)
    for serving in range(600):
        chain.accepted(one if serving < 590 else two, leaf(serving), 0.0)
    vouchers = [
        signed(chain, chain.propose(NOW_US + at, money.worker.sign, 0.0), money)
        for at in range(3)
    ]
    assert [v.leaves for v in vouchers] == [MAX_LEAVES, 590, 600]
    assert [v.grant_hash for v in vouchers] == [one.name, one.name, two.name]
    assert [v.number for v in vouchers] == [1, 2, 3]
    assert chain.propose(NOW_US, money.worker.sign, 0.0) is None


def test_time_never_goes_back_between_vouchers() -> None:
    money = Money()
    chain = Chain(money.terms(), money.prices())
    grant = money.allowance(money.prices())
    chain.accepted(grant, leaf(0), 0.0)
    signed(chain, chain.propose(NOW_US, money.worker.sign, 0.0), money)
    chain.accepted(grant, leaf(1), 0.0)
    later = signed(chain, chain.propose(NOW_US - 9, money.worker.sign, 0.0), money)
    assert later.issued_us == NOW_US


def test_a_leaf_too_late_for_the_tree_is_dropped_and_counted() -> None:
    money = Money()
    chain = Chain(money.terms(), money.prices())
    grant = money.allowance(money.prices())
    for block in range(40):
        for serving in range(MAX_LEAVES):
            chain.accepted(grant, leaf(1 + block * MAX_LEAVES + serving), 0.0)
        signed(chain, chain.propose(NOW_US, money.worker.sign, 0.0), money)
    chain.accepted(grant, leaf(0), 0.0)
    chain.accepted(grant, leaf(40 * MAX_LEAVES + 1), 0.0)
    last = signed(chain, chain.propose(NOW_US, money.worker.sign, 0.0), money)
    assert chain.n_dropped == 1
    assert last.leaves == 40 * MAX_LEAVES + 1
    assert last.ranges == ((1, 40 * MAX_LEAVES + 1),)


def test_a_tab_with_thousands_of_holes_says_so() -> None:
    money = Money()
    chain = Chain(money.terms(), money.prices())
    grant = money.allowance(money.prices())
    for serving in range(0, 2 * 3100, 2):
        chain.accepted(grant, leaf(serving), 0.0)
    while not chain.is_settled:
        signed(chain, chain.propose(NOW_US, money.worker.sign, 0.0), money)
    assert chain.is_ragged
