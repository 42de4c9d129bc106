"""The next layer's router is asked early, and only where its answers come true."""

import numpy as np

from p2pmoe.backbone.foresight import BLOCK, Foresight, Trial

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
    foresight.trial.took = lambda _: None
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


def run_blocks(trial: Trial, n: int, on: float, off: float) -> list[bool]:
    """Return in which of n blocks it was on, with these times of a step."""
    found = []
    for _ in range(n):
        found.append(trial.is_on)
        for _ in range(BLOCK):
            trial.took(on if trial.is_on else off)
    return found


def test_what_is_slower_is_left_out_but_tried_again() -> None:
    trial = Trial()
    slower = run_blocks(trial, 20, on=0.2, off=0.1)
    assert slower[:2] == [True, False]
    assert 2 <= sum(slower[2:]) <= 3
    faster = run_blocks(trial, 40, on=0.05, off=0.1)  # things have changed
    assert sum(faster[-20:]) >= 17


def test_steps_alike_are_timed_and_others_are_not() -> None:
    now = [0.0]
    foresight = Foresight(routes([[0]], [[1]]), lambda: now[0])
    times: list[float] = []
    foresight.trial.took = times.append
    for seconds, n_rows in ((0, 1), (1, 1), (2, 3), (4, 3), (8, 64), (16, 64)):
        now[0] += seconds
        foresight.guess(1, HIDDEN, np.zeros((n_rows, 1), np.int64))
    assert times == [1, 4]
    foresight.trial.is_on = False
    assert foresight.guess(1, HIDDEN, np.array([[0]])) is None
