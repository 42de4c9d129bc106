"""Servings summed by expert."""

from hypothesis import given
from hypothesis import strategies as st

from ledger.explanation import Explanation, LeafLine, Step, by_expert

LEAVES = st.lists(
    st.builds(
        LeafLine,
        serving=st.integers(0, 2**32 - 1),
        request=st.just(1),
        layer=st.integers(0, 2),
        expert=st.integers(0, 2),
        rows=st.integers(1, 65535),
        unit_price_uc=st.just(10),
        amount_uc=st.integers(0, 2**53 - 1),
    )
)


@given(LEAVES)
def test_sums_by_expert_are_the_sum_of_all(leaves):
    found = by_expert(leaves)
    for name in ("rows", "amount_uc"):
        assert sum(getattr(line, name) for line in found) == sum(
            getattr(leaf, name) for leaf in leaves
        )
    assert sum(line.servings for line in found) == len(leaves)
    names = [(line.layer, line.expert) for line in found]
    assert names == sorted(set(names))


def test_steps_come_in_order():
    told = Explanation()
    told.add("voucher", number=1)
    told.add("grant", worker="aa")
    assert told.steps == [
        Step("voucher", {"number": 1}),
        Step("grant", {"worker": "aa"}),
    ]
