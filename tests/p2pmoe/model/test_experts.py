import numpy as np
import pytest

from p2pmoe.model.experts import ExpertCaller, ExpertsHere, Routing, WithBeside
from p2pmoe.model.local_experts import LocalExperts


def test_the_oracle_is_an_expert_caller() -> None:
    caller: type[ExpertCaller] = LocalExperts
    assert callable(caller.begin)


def test_routings_are_compared_by_identity() -> None:
    experts, weights = np.zeros((1, 1), np.int64), np.ones((1, 1), np.float32)
    routing = Routing(experts=experts, weights=weights)
    assert routing != Routing(experts=experts, weights=weights)


def test_experts_that_are_here_keep_nobody_waiting() -> None:
    rung: list[str] = []
    pending = ExpertsHere()
    pending.compute()
    assert pending.is_ready()
    pending.notify(lambda: rung.append("ready"))
    pending.abandon()
    assert rung == ["ready"]


class Noted(ExpertsHere):
    """Experts that give ones, and note what is asked of them."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def compute(self) -> None:
        self.asked.append("compute")

    def abandon(self) -> None:
        self.asked.append("abandon")

    def finish(self) -> np.ndarray:
        self.asked.append("finish")
        return np.ones((2, 3), np.float32)


@pytest.mark.parametrize("computes", [False, True])
def test_what_is_beside_experts_is_computed_once_and_added(computes: bool) -> None:
    hidden, rung = np.full((2, 3), 2, np.float32), []
    own = Noted()

    def beside(rows: np.ndarray) -> np.ndarray:
        own.asked.append("beside")
        return rows * 2

    pending = WithBeside(own, beside, hidden)
    pending.notify(lambda: rung.append("ready"))
    assert pending.is_ready()
    assert (rung, own.asked) == (["ready"], [])
    if computes:
        pending.compute()
    assert pending.finish().tolist() == [[5.0] * 3] * 2
    assert own.asked == (["beside", "compute"] if computes else ["beside"]) + ["finish"]
    pending.abandon()
    assert own.asked[-1] == "abandon"
