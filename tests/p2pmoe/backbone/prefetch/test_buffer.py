"""The buffer of one pass: what is in it, and that it never takes more than its room."""

from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from mobile_worker.expert_id import ExpertId
from p2pmoe.backbone.prefetch.buffer import Ahead

WEIGHTS = SimpleNamespace()


def test_what_was_put_is_at_hand_in_its_layer() -> None:
    ahead = Ahead({3: (1, 2)}, max_bytes=100)
    assert ahead.put(ExpertId(3, 1), WEIGHTS, 60)
    assert ahead.layer(3) == {1: WEIGHTS}
    assert ahead.layer(4) == {}
    assert not ahead.put(ExpertId(3, 1), WEIGHTS, 10), "it is there already"
    assert not ahead.put(ExpertId(3, 2), WEIGHTS, 41), "there is no room"
    assert ahead.n_bytes == 60


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, 50))))
def test_it_never_holds_more_than_its_room(puts: list[tuple[int, int, int]]) -> None:
    ahead = Ahead({}, max_bytes=100)
    kept: dict[ExpertId, int] = {}
    for layer, index, n_bytes in puts:
        expert = ExpertId(layer, index)
        if ahead.put(expert, WEIGHTS, n_bytes):
            kept[expert] = n_bytes
    assert ahead.n_bytes == sum(kept.values()) <= 100
    for layer in range(4):
        assert set(ahead.layer(layer)) == {e.index for e in kept if e.layer == layer}


def test_nothing_outlives_the_pass() -> None:
    ahead = Ahead({}, max_bytes=100)
    ahead.put(ExpertId(3, 1), WEIGHTS, 60)
    ahead.end()
    assert (ahead.layer(3), ahead.n_bytes, ahead.max_bytes) == ({}, 0, 0)
