import numpy as np

from p2pmoe.model.experts import ExpertCaller, ExpertsHere, Routing
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
