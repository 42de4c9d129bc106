"""Fault B11 with its values: 0.75 y1 + 0.25 y2 or an error, never a part of it."""

from collections.abc import Callable

import numpy as np
import pytest

from mobile_worker.arithmetic.coding import Floats
from mobile_worker.messages import Dispatch, OutputError
from p2pmoe.backbone.exchange import LayerDone, LayerFailed, LayerWork
from p2pmoe.errors import ExpertsUnavailable
from p2pmoe.model.combine import combine
from p2pmoe.model.experts import Routing
from tests.support.backbone import DispatchRig, peer_id

ROUTING = Routing(
    experts=np.array([[0, 1]], np.int64),
    weights=np.array([[0.75, 0.25]], np.float32),
)
ROW = np.array([0], np.int64)


def sleeps(rig: DispatchRig, asked: Dispatch) -> None:
    rig.wait(30.0)


def sleeps_and_answers_after_the_replica(rig: DispatchRig, asked: Dispatch) -> None:
    rig.wait(2.0)
    rig.answer(3, rig.dispatches(3)[0])
    rig.answer(2, asked)


def closes(rig: DispatchRig, asked: Dispatch) -> None:
    rig.dispatcher.on_lost(peer_id(2))


def answers_for_another_token(rig: DispatchRig, asked: Dispatch) -> None:
    rig.answer(2, asked, rows=np.concatenate([rig.rows_of(asked)] * 2))


def has_an_error(rig: DispatchRig, asked: Dispatch) -> None:
    rig.answer(2, asked, error=OutputError.OVERDUE)


def is_beaten_by_a_hedge(rig: DispatchRig, asked: Dispatch) -> None:
    rig.wait(0.045)
    assert rig.dispatches(3)
    rig.answer(3, rig.dispatches(3)[0])
    rig.answer(2, asked)


TROUBLES = [
    sleeps,
    sleeps_and_answers_after_the_replica,
    closes,
    answers_for_another_token,
    has_an_error,
    is_beaten_by_a_hedge,
]


def mixed(work: LayerWork, done: LayerDone) -> Floats:
    return combine(ROUTING, {e: (ROW, values) for e, values in done.values.items()})


def asked_of_two(holders: dict[int, set[int]]) -> tuple[DispatchRig, LayerWork]:
    """Ask worker 1 for expert 0, which it answers, and worker 2 for expert 1."""
    rig = DispatchRig(holders, local_allowed=False)
    for n in holders:
        rig.measured(n, 0.020)
    rig.earn_hedges(20)
    work = rig.work({1: {0: (0,)}, 2: {1: (0,)}}, n_rows=1, deadline_s=60.0)
    rig.dispatcher.start(work)
    rig.answer(1, rig.dispatches(1)[0])
    return rig, work


@pytest.mark.parametrize("trouble", TROUBLES)
def test_b11_with_a_replica_the_sum_is_whole_to_the_bit(
    trouble: Callable[[DispatchRig, Dispatch], None],
) -> None:
    rig, work = asked_of_two({1: {0}, 2: {1}, 3: {1}})
    trouble(rig, rig.dispatches(2)[0])
    if rig.dispatches(3):
        rig.answer(3, rig.dispatches(3)[0])
    (done,) = rig.replies(work)
    assert isinstance(done, LayerDone)
    x = work.rows.floats
    assert x is not None
    whole = np.float32(0.75) * x + np.float32(0.25) * (x * np.float32(2))
    assert np.array_equal(mixed(work, done), whole)
    rig.wait(100.0)
    assert rig.accounts.add_up()


@pytest.mark.parametrize("trouble", [sleeps, closes, answers_for_another_token])
def test_b11_without_one_the_request_fails_and_nothing_is_mixed(
    trouble: Callable[[DispatchRig, Dispatch], None],
) -> None:
    rig, work = asked_of_two({1: {0}, 2: {1}})
    trouble(rig, rig.dispatches(2)[0])
    rig.wait(61.0)
    (failed,) = rig.replies(work)
    assert isinstance(failed, LayerFailed)
    assert isinstance(failed.error, ExpertsUnavailable)
    rig.wait(100.0)
    assert rig.accounts.add_up()
