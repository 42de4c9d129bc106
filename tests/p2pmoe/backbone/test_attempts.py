"""The message of an attempt, its size, and the order of deadlines."""

from mobile_worker.messages import encode_message
from p2pmoe.backbone.attempts import Deadlines, payload_bytes
from tests.support.backbone import DispatchRig


def test_deadlines_come_out_in_order() -> None:
    deadlines = Deadlines()
    for at, request in ((3.0, 1), (1.0, 2), (2.0, 3)):
        deadlines.add(at, request)
    assert deadlines.next == 1.0
    assert deadlines.due(0.5) == []
    assert deadlines.due(2.0) == [2, 3]
    assert deadlines.due(9.0) == [1]
    assert deadlines.next is None


def test_the_estimate_of_bytes_is_near_the_messages_own() -> None:
    rig = DispatchRig({1: {0, 1, 2}})
    work = rig.work({1: {0: (0, 1), 1: (1,), 2: (2,)}})
    rig.dispatcher.start(work)
    (dispatch,) = rig.dispatches(1)
    true = len(encode_message(dispatch))
    guess = payload_bytes(work, work.plan.remote[0].calls)
    assert abs(true - guess) < 120
    assert work.trace.traces[0].bytes_up == guess


def test_serving_numbers_and_deadline_are_in_the_message() -> None:
    rig = DispatchRig({1: {0, 1}})
    for _ in range(2):
        rig.dispatcher.start(rig.work({1: {0: (0,), 1: (1,)}}))
    first, second = rig.dispatches(1)
    assert (first.first_serving, second.first_serving) == (0, 2)
    assert second.request > first.request
    assert first.nonce != second.nonce
    assert 0 < first.deadline_ms <= 1501
