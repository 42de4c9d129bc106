"""Chances follow what is used; distances follow chances and where the steps are."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mobile_worker.expert_id import ExpertId
from p2pmoe.backbone.next_use import NextUse

N_LAYER, N_EXPERT = 3, 8


def rows(*experts: int) -> np.ndarray:
    return np.array([experts], np.int64)


def test_what_the_last_token_used_is_nearer_than_what_was_used_before() -> None:
    use = NextUse(N_LAYER, N_EXPERT)
    use.add(1, rows(2))
    use.add(1, rows(3))
    distances = use.distances()[1]
    assert distances[3] < distances[2] < distances[4]


def test_what_is_used_often_outlives_what_was_used_last() -> None:
    use = NextUse(N_LAYER, N_EXPERT)
    for _ in range(40):
        use.add(1, rows(2))
    use.add(1, rows(5))
    for _ in range(4):
        use.add(1, rows(6))
    distances = use.distances()[1]
    assert distances[2] < distances[5]


def test_equal_chances_differ_by_the_way_to_their_layer() -> None:
    use = NextUse(N_LAYER, N_EXPERT)
    assert use.distances()[:, 0].tolist() == sorted(use.distances()[:, 0])
    use.add(0, rows(7))  # the next layer is 1
    assert use.distances()[1, 0] < use.distances()[2, 0] < use.distances()[0, 0]


def test_what_is_foreseen_is_as_near_as_its_layer_until_that_has_come() -> None:
    use = NextUse(N_LAYER, N_EXPERT)
    use.add(0, rows(1))
    use.foresee(1, np.array([4]))
    assert use.distances()[1, 4] == 1
    use.add(1, rows(0))
    assert use.distances()[1, 4] > 100


def test_a_chunk_of_rows_counts_as_its_tokens_one_by_one() -> None:
    many, single = NextUse(N_LAYER, N_EXPERT), NextUse(N_LAYER, N_EXPERT)
    routing = np.array([[0, 1], [1, 2], [1, 3]])
    many.add(1, routing)
    for row in routing:
        single.add(1, row[None])
    assert np.allclose(many._slow, single._slow)


def test_earlier_counts_say_where_to_begin() -> None:
    use = NextUse(N_LAYER, N_EXPERT)
    counts = np.zeros((N_LAYER, N_EXPERT))
    counts[1, :2] = 30, 10
    use.restore(counts)
    assert use.chance(ExpertId(1, 0)) == pytest.approx(0.5 / 1.2)
    assert use.chance(ExpertId(1, 0)) > use.chance(ExpertId(1, 1)) > 0
    assert use.chance(ExpertId(2, 0)) == 0


@given(
    st.lists(
        st.tuples(
            st.integers(0, N_LAYER - 1),
            st.lists(st.integers(0, N_EXPERT - 1), min_size=1, max_size=4),
        ),
        max_size=30,
    )
)
def test_chances_are_chances_and_distances_at_least_one(
    steps: list[tuple[int, list[int]]],
) -> None:
    use = NextUse(N_LAYER, N_EXPERT)
    for layer, experts in steps:
        use.add(layer, np.array([sorted(set(experts))], np.int64))
    assert (use.distances() >= 1).all()
    assert np.isfinite(use.distances()).all()
    for layer in range(N_LAYER):
        for index in range(N_EXPERT):
            assert 0 <= use.chance(ExpertId(layer, index)) <= 1
    use.add(0, np.zeros((0, 2), np.int64))  # a step without rows changes nothing


def test_the_mean_chance_is_that_of_a_layers_experts() -> None:
    use = NextUse(2, 4)
    assert use.mean_chance(1) == 0.0
    for index in (0, 1, 1, 2):
        use.add(1, np.array([[index]], np.int64))
    chances = [use.chance(ExpertId(1, index)) for index in range(4)]
    assert use.mean_chance(1) == pytest.approx(sum(chances) / 4)
    assert use.mean_chance(0) == 0.0
