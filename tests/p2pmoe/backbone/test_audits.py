"""Duplicates are free audits; who differs from the right answer is out of business."""

import numpy as np
import pytest

from p2pmoe.backbone.exchange import LayerDone, LayerWork
from p2pmoe.backbone.fleet import Status
from tests.support.backbone import DispatchRig, peer_id

ROUTED = {0: (0, 1), 1: (0, 2)}


def hedged(
    *, is_judged: bool = False, first_passes: tuple[int, int] = (0, 0)
) -> tuple[DispatchRig, LayerWork]:
    """Return a rig in which workers 1 and 2 are both asked for the same calls."""
    rig = DispatchRig({1: set(ROUTED), 2: set(ROUTED), 3: set(ROUTED)})
    rig.is_judged = is_judged
    for n in (1, 2, 3):
        rig.measured(n, 0.020)
    for n, passes in zip((1, 2), first_passes, strict=True):
        rig.fleet.workers[peer_id(n)].passes = passes
    rig.earn_hedges(20)
    work = rig.work({1: ROUTED})
    rig.dispatcher.start(work)
    rig.wait(0.041)
    return rig, work


def first_ruled(rig: DispatchRig) -> tuple[int, bytes]:
    """Return a dispute's number, and that its earlier side is right."""
    (dispute,) = rig.disputes
    return dispute.number, dispute.sides[0].coded


def wrong_rows(rig: DispatchRig, n: int) -> np.ndarray:
    rows = rig.rows_of(rig.dispatches(n)[0]).copy()
    rows[0, 3] += 1
    return rows


@pytest.mark.parametrize(
    ("before", "after"), [((0, 0), (0, 0)), ((200, 0), (200, 1)), ((0, 300), (1, 300))]
)
def test_agreeing_with_a_stranger_proves_nothing(
    before: tuple[int, int], after: tuple[int, int]
) -> None:
    rig, _ = hedged(first_passes=before)
    rig.answer(1, rig.dispatches(1)[0])
    rig.answer(2, rig.dispatches(2)[0])
    assert rig.counters.hedge_audits["agreed"] == 1
    assert tuple(rig.fleet.workers[peer_id(n)].passes for n in (1, 2)) == after


@pytest.mark.parametrize("liar", [1, 2])
def test_b34_a_difference_is_judged_and_ends_the_liars_business(liar: int) -> None:
    rig, work = hedged(is_judged=True)
    right = rig.rows_of(rig.dispatches(1)[0])
    rig.answer(2, rig.dispatches(2)[0], rows=wrong_rows(rig, 2) if liar == 2 else None)
    assert isinstance(rig.replies(work)[0], LayerDone)
    rig.answer(1, rig.dispatches(1)[0], rows=wrong_rows(rig, 1) if liar == 1 else None)
    (dispute,) = rig.disputes
    assert dispute.call.expert == 0
    assert [side.peer for side in dispute.sides] == [peer_id(2), peer_id(1)]
    assert len(rig.accounts.accepted) == 21  # the later one's pay is held
    n_rows = len(dispute.call.rows)
    rig.dispatcher.ruled(dispute.number, right[:n_rows].astype("<f4").tobytes())
    assert rig.accounts.withheld == [peer_id(liar)]
    assert rig.fleet.workers[peer_id(liar)].status is Status.DROPPED
    assert rig.fleet.workers[peer_id(3 - liar)].status is Status.LIVE
    assert len(rig.accounts.accepted) == (22 if liar == 2 else 21)
    assert rig.counters.hedge_audits["differed"] == 1
    rig.wait(40.0)
    assert rig.accounts.add_up()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((500, 500), (0, 0)),
        ((90, 7), (0, 0)),
        ((500, 7), (500, 0)),  # a stranger makes nobody one
        ((7, 500), (0, 500)),
    ],
)
def test_without_anybody_to_judge_both_begin_anew(
    before: tuple[int, int], after: tuple[int, int]
) -> None:
    rig, _ = hedged(first_passes=before)
    rig.answer(2, rig.dispatches(2)[0])
    rig.answer(1, rig.dispatches(1)[0], rows=wrong_rows(rig, 1))
    assert rig.counters.hedge_audits["undecided"] == 1
    assert not rig.accounts.withheld
    for n in (1, 2):
        assert rig.fleet.workers[peer_id(n)].passes == after[n - 1]
        assert rig.fleet.workers[peer_id(n)].status is Status.DEMOTED
    assert len(rig.accounts.accepted) == 21
    assert rig.accounts.add_up()


def test_the_rest_of_an_answer_that_differs_is_not_taken_on_trust() -> None:
    rig = DispatchRig({1: {0, 1}, 2: {0}, 3: {1}, 4: {0, 1}})
    rig.is_judged = True
    for n in (1, 2, 3, 4):
        rig.measured(n, 0.020 if n != 4 else 0.030)
    rig.earn_hedges(40)
    work = rig.work({1: ROUTED})
    rig.dispatcher.start(work)
    rig.wait(0.041)
    rig.answer(2, rig.dispatches(2)[0])
    rig.dispatcher.on_lost(peer_id(3))
    rig.answer(1, rig.dispatches(1)[0], rows=wrong_rows(rig, 1))
    assert len(rig.disputes) == 1
    assert not rig.replies(work)
    (again,) = rig.dispatches(4)
    assert [call.index for call in again.calls] == [1]
    rig.answer(4, again)
    assert isinstance(rig.replies(work)[-1], LayerDone)
    rig.dispatcher.ruled(*first_ruled(rig))
    rig.wait(40.0)
    assert rig.accounts.add_up()


def test_a_worker_that_is_caught_is_paid_nothing_that_it_is_still_out_for() -> None:
    rig, _ = hedged(is_judged=True)
    other = rig.work({2: {1: (0,)}})
    rig.dispatcher.start(other)
    rig.answer(1, rig.dispatches(1)[0])
    rig.answer(2, rig.dispatches(2)[0], rows=wrong_rows(rig, 2))
    rig.dispatcher.ruled(*first_ruled(rig))
    rig.answer(2, rig.dispatches(2)[1])
    assert rig.counters.late_outputs == 1
    assert {s.slot.peer for s in rig.accounts.accepted[20:]} == {peer_id(1)}
