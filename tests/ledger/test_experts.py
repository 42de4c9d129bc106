"""Sums by expert equal those of the leaves one by one, in any blocks."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from ledger.experts import ExpertSum, ExpertSums
from ledger.leaf import Leaf, split_leaves
from tests.support.ledger_world import paper_tab

TAB = paper_tab()
BLOCKS = st.lists(
    st.lists(
        st.builds(
            lambda serving, layer, expert, rows: TAB.leaf(
                serving,
                layer=layer,
                expert=expert,
                rows=rows,
                amount_uc=TAB.world.prices.amount(layer, expert, rows),
            ),
            st.integers(0, 2**32 - 1),
            st.sampled_from([0, 1, 65535]),
            st.sampled_from([0, 3, 65535]),
            st.integers(1, 65535),
        ),
        max_size=5,
    ).map(b"".join),
    max_size=4,
)


@given(blocks=BLOCKS)
def test_sums_equal_those_of_single_leaves(blocks):
    sums = ExpertSums()
    for block in blocks:
        sums.add(block)
    leaves = [Leaf.parse(raw) for raw in split_leaves(b"".join(blocks))]
    servings, rows, amounts = Counter(), Counter(), Counter()
    for leaf in leaves:
        servings[leaf.layer, leaf.expert] += 1
        rows[leaf.layer, leaf.expert] += leaf.rows
        amounts[leaf.layer, leaf.expert] += leaf.amount_uc
    assert list(sums.table(TAB.world.prices)) == [
        ExpertSum(*one, servings[one], rows[one], amounts[one])
        for one in sorted(servings)
    ]
