import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mobile_worker.expert_id import ExpertId
from p2pmoe.backbone.experts_at_hand import choose_hot
from p2pmoe.backbone.placement import (
    PassShape,
    Placement,
    from_both_ends,
    round_trips_per_token,
    whole_layers,
    worth_of,
)

N_LAYER, N_EXPERT = 5, 8  # layer 0 is dense
SIZES = {ExpertId(layer, i): 10 for layer in range(1, 5) for i in range(N_EXPERT)}
TOTAL = 10 * len(SIZES)
SHAPE = PassShape(top_k=2)


def skewed() -> np.ndarray:
    use = np.zeros((N_LAYER, N_EXPERT))
    use[1:] = 1000.0 / np.arange(1, N_EXPERT + 1)
    return use


def test_a_layer_without_misses_never_waits() -> None:
    assert round_trips_per_token([0.0, 0.0], SHAPE) == 0.0


def test_without_drafts_a_is_the_chance_that_a_row_misses() -> None:
    plain = PassShape(top_k=2, n_drafts=0)
    assert round_trips_per_token([0.5, 1.0], plain) == pytest.approx(0.75 + 1.0)


def test_the_measured_case_of_half_the_experts() -> None:
    """Spread evenly 2.4 was measured; with three layers whole the ends cost fewest."""
    pocket = PassShape(top_k=4)
    spread = round_trips_per_token([0.365] * 7, pocket)
    first = round_trips_per_token([0.0] * 3 + [0.78] * 4, pocket)
    ends = round_trips_per_token([0.0, 0.78, 0.78, 0.78, 0.78, 0.0, 0.0], pocket)
    assert 2.2 < spread < 2.9
    assert 1.5 < first < 1.9
    assert 1.3 < ends < first


def test_a_layer_of_a_deeper_model_is_less_of_the_whole() -> None:
    plain = PassShape(top_k=4)
    few = round_trips_per_token([0.4] * 7, plain) / 7
    many = round_trips_per_token([0.4] * 70, plain) / 70
    assert abs(many / few - 1.0) < 0.1


def test_the_ends_come_first() -> None:
    assert from_both_ends([1, 2, 3, 4, 5, 6, 7]) == [7, 1, 6, 2, 5, 3, 4]
    assert from_both_ends([3, 9]) == [9, 3]
    assert from_both_ends([]) == []


def test_half_the_experts_make_whole_layers() -> None:
    whole = whole_layers(skewed(), SIZES, TOTAL // 2, SHAPE)
    assert whole
    assert whole == tuple(sorted(from_both_ends(range(1, N_LAYER))[: len(whole)]))
    chosen = choose_hot(worth_of(skewed(), whole), SIZES, TOTAL // 2)
    for layer in whole:
        assert {ExpertId(layer, i) for i in range(N_EXPERT)} <= set(chosen)


def test_no_room_for_a_layer_spreads() -> None:
    assert whole_layers(skewed(), SIZES, 79, SHAPE) == ()
    assert worth_of(skewed(), ()).tolist() == skewed().tolist()


def test_use_that_a_few_experts_take_is_spread() -> None:
    """Where a quarter of each layer takes nearly all, whole layers waste room."""
    use = np.zeros((N_LAYER, N_EXPERT))
    use[1:, :2] = 1e5
    assert whole_layers(use, SIZES, TOTAL // 4, SHAPE) == ()


def test_few_tokens_are_no_reason_to_believe_the_rest_unused() -> None:
    use = np.zeros((N_LAYER, N_EXPERT))
    use[1:, :4] = 1.0
    assert whole_layers(use, SIZES, TOTAL // 2, SHAPE)
    assert not whole_layers(1e5 * use, SIZES, TOTAL // 2, SHAPE)


def test_a_choice_stays() -> None:
    placement = Placement(SIZES, TOTAL // 2, SHAPE)
    use = skewed()
    assert placement.worth(use).tolist() == use.tolist()
    placement.settle(use)
    chosen = placement.whole
    assert chosen
    other = np.zeros((N_LAYER, N_EXPERT))
    other[1:, :2] = 1.0
    placement.settle(other)
    assert placement.whole == chosen


@given(
    st.lists(
        st.floats(0.0, 1e6), min_size=N_LAYER * N_EXPERT, max_size=N_LAYER * N_EXPERT
    ),
    st.integers(0, TOTAL),
    st.integers(0, 16),
)
def test_whole_layers_fit_and_are_the_ends(
    counts: list[float], budget: int, n_drafts: int
) -> None:
    use = np.array(counts).reshape(N_LAYER, N_EXPERT)
    shape = PassShape(top_k=2, n_drafts=n_drafts)
    whole = whole_layers(use, SIZES, budget, shape)
    assert 10 * N_EXPERT * len(whole) <= budget
    assert whole == tuple(sorted(from_both_ends(range(1, N_LAYER))[: len(whole)]))
    worth = worth_of(use, whole)
    assert np.isfinite(worth).all()
    if whole:
        assert worth[list(whole)].min() > use.max()
