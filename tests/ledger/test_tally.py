"""The tally: both ends and the ledger sum alike, whatever the order."""

import dataclasses
import random

import pytest

from ledger.errors import AmountRefused, ChainRefused, FormatRefused, OutOfWindow
from ledger.leaf import Leaf
from ledger.merkle import Node, leaf_hash
from ledger.tally import TabTerms, Tally
from tests.support.ledger_world import paper_tab
from tests.support.merkle import tree_root


def test_any_order_gives_the_same_totals():
    tab = paper_tab()
    servings = [n for n in range(600) if n % 7]
    blocks = [tab.leaf(n) for n in servings]
    expected = tree_root([Node(leaf_hash(b), Leaf.parse(b).amount_uc) for b in blocks])
    rng = random.Random(1)
    order = sorted(servings, key=lambda n: n + rng.random() * 100)
    tally = Tally(tab.terms, tab.world.prices)
    at = 0
    while at < len(order):
        group = order[at : at + rng.randrange(1, 40)]
        at += len(group)
        tally.add(b"".join(tab.leaf(n) for n in group))
    assert tally.root == expected.hash
    assert tally.amount_uc == expected.sum_uc
    assert tally.leaves == len(servings)
    assert tally.rows == sum(Leaf.parse(b).rows for b in blocks)
    assert tally.ranges[:2] == ((1, 6), (8, 13))
    tally.check(tally.draft(None, grant_hash=bytes(32), issued_us=1))


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"amount_uc": 11}, AmountRefused),
        ({"tab": b"another!"}, FormatRefused),
        ({"price_epoch": 8}, FormatRefused),
        ({"serving": 3}, FormatRefused),  # twice in the block
        ({"serving": 1}, FormatRefused),  # taken before
    ],
)
def test_a_refused_block_changes_nothing(changes, error):
    tab = paper_tab()
    tab.serve(0, 1, 2)
    before = (tab.tally.root, tab.tally.ranges, tab.tally.rows, tab.tally.amount_uc)
    with pytest.raises(error):
        tab.tally.add(tab.leaf(3) + tab.leaf(4, **changes))
    with pytest.raises(FormatRefused):
        tab.tally.add(tab.leaf(3)[:-1])
    tab.tally.add(b"")
    after = (tab.tally.root, tab.tally.ranges, tab.tally.rows, tab.tally.amount_uc)
    assert after == before


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"tab": b"another!"}, "leaf 5 is of another version, tab or epoch"),
        ({"amount_uc": 1, "rows": 3}, "leaf 5: 1 for 3 rows at 10"),
    ],
)
def test_the_first_wrong_leaf_is_named(changes, named):
    tab = paper_tab()
    good = [tab.leaf(n) for n in range(5)]
    wrong = [tab.leaf(n, **changes) for n in (5, 6)]
    with pytest.raises((FormatRefused, AmountRefused), match=named):
        tab.tally.add(b"".join(good + wrong))


def test_a_leaf_of_no_rows_is_refused():
    tab = paper_tab()
    leaf = bytearray(tab.leaf(1, amount_uc=0))
    leaf[25:27] = b"\0\0"  # where a packed leaf has its rows
    with pytest.raises(AmountRefused, match="leaf 1: 0 for 0 rows at"):
        tab.tally.add(bytes(leaf))


def test_sums_stay_exact_in_json_readers():
    tab = paper_tab()
    world = tab.world
    prices = dataclasses.replace(world.prices, base_uc=2**51, multipliers={})
    tally = Tally(tab.terms, prices)
    leaves = [tab.leaf(n, rows=1, amount_uc=2**51) for n in range(4)]
    tally.add(b"".join(leaves[:3]))
    with pytest.raises(AmountRefused):
        tally.add(leaves[3])


def test_a_copy_is_independent_and_far_back_is_refused():
    tab = paper_tab()
    tally = Tally(tab.terms, tab.world.prices, window=256)
    tally.add(b"".join(tab.leaf(n) for n in range(1, 1500)))
    twin = tally.copy()
    with pytest.raises(OutOfWindow):
        tally.add(tab.leaf(0))
    assert (tally.root, tally.ranges) == (twin.root, twin.ranges)
    tally.add(tab.leaf(1500))
    assert twin.leaves == 1499


def test_a_voucher_of_other_leaves_is_named():
    tab = paper_tab()
    tab.serve(0, 1, 2)
    voucher = tab.draft()
    assert TabTerms.of(voucher) == tab.terms
    for changes in (
        {"root": bytes(32)},
        {"rows": voucher.rows + 1},
        {"price_epoch": 1},
        {"amount_uc": voucher.amount_uc + 1},
        {"ranges": ((0, 1), (3, 3))},
        {"price_table_hash": bytes(32)},
        {"profile": 0},
    ):
        with pytest.raises(ChainRefused):
            tab.tally.check(dataclasses.replace(voucher, **changes))


def test_a_clock_that_is_put_back_does_not_break_the_chain():
    tab = paper_tab()
    tab.serve(0)
    first = tab.draft()
    tab.world.now_us -= 10**9
    tab.serve(1)
    assert tab.draft().issued_us == first.issued_us
