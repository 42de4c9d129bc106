"""How much of a token missing experts are, and which tokens cannot do without."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.backbone.missing import missing_share, rows_over
from p2pmoe.model.experts import Routing


def routing_of(experts: list[list[int]], weights: list[list[float]]) -> Routing:
    return Routing(
        experts=np.array(experts, np.int64), weights=np.array(weights, np.float32)
    )


def test_a_share_is_of_the_tokens_own_weight() -> None:
    routing = routing_of([[0, 3], [1, 3], [0, 1]], [[1, 3], [2, 2], [5, 5]])
    assert missing_share(routing, {3}).tolist() == [0.75, 0.5, 0.0]
    assert missing_share(routing, {0, 1, 3}).tolist() == [1.0, 1.0, 1.0]
    assert rows_over(routing, {3}, 0.5) == [0]
    assert rows_over(routing, {3}, 0.75) == []
    assert rows_over(routing, {3}, 0.0) == [0, 1]


def test_weights_of_zero_or_below_are_no_way_round_the_bound() -> None:
    routing = routing_of([[0, 1], [0, 1]], [[0, 0], [-3, 1]])
    assert missing_share(routing, {0}).tolist() == [0.0, 0.75]


@given(
    st.lists(
        st.lists(st.floats(0, 10, width=32), min_size=3, max_size=3),
        min_size=1,
        max_size=5,
    ),
    st.sets(st.integers(0, 3)),
)
def test_shares_are_shares_and_nothing_missing_is_over_no_bound(
    weights: list[list[float]], experts: set[int]
) -> None:
    routing = routing_of([[0, 1, 2]] * len(weights), weights)
    shares = missing_share(routing, experts)
    assert ((shares >= 0) & (shares <= 1)).all()
    assert rows_over(routing, experts, 1.0) == []
    assert rows_over(routing, {7}, 0.0) == []
