"""The next layer's router is asked early, and only where its answers come true."""

import numpy as np

from p2pmoe.backbone.foresight import Foresight

HIDDEN = np.zeros((2, 4), np.float32)


def routes(*experts: list[list[int]]):
    return {
        layer: lambda _, chosen=chosen: np.array(chosen)
        for layer, chosen in enumerate(experts, start=1)
    }


def test_the_next_layers_experts_come_by_number_of_rows() -> None:
    foresight = Foresight(routes([[0, 1]], [[5, 7], [7, 3]]))
    guess = foresight.guess(1, HIDDEN, np.array([[0, 1]]))
    assert guess is not None
    assert guess.layer == 2
    assert guess.experts.tolist() == [7, 3, 5]
    assert foresight.guess(2, HIDDEN, np.array([[7, 3]])) is None  # the last one


def test_what_never_comes_true_is_no_longer_guessed_but_looked_at() -> None:
    foresight = Foresight(routes([[0]], [[1]]))
    guesses = 0
    for _ in range(100):
        guesses += foresight.guess(1, HIDDEN, np.array([[0]])) is not None
        foresight.guess(2, HIDDEN, np.array([[9]]))
    assert 10 <= guesses <= 20
    assert foresight.recall()[2] < 0.5
    for _ in range(32 * 100):  # it has become right
        foresight.guess(1, HIDDEN, np.array([[0]]))
        foresight.guess(2, HIDDEN, np.array([[1]]))
    assert foresight.recall()[2] > 0.5


def test_a_layer_without_experts_has_no_next_one() -> None:
    assert Foresight({}).guess(3, HIDDEN, np.array([[0]])) is None
