"""Each call comes back exactly once, rightly, whatever the workers do."""

import numpy as np
import pytest

from mobile_worker.messages import OutputError
from p2pmoe.backbone.exchange import (
    ComputeHere,
    HeldByNobody,
    LayerDone,
    LayerFailed,
    LayerWork,
    Reason,
)
from p2pmoe.backbone.fleet import MAX_BUSY, Status
from p2pmoe.config import MissingPolicy
from p2pmoe.errors import Cancelled, ExpertsUnavailable
from tests.support.backbone import N_EMBD, DispatchRig, peer_id

# 3 tokens, k = 2, 4 experts, as fault B14 has it: six (token, slot) pairs.
ROUTED = {0: (0, 1), 1: (0, 2), 2: (1,), 3: (2,)}


def started(rig: DispatchRig, **kwargs: object) -> LayerWork:
    work = rig.work({1: ROUTED}, **kwargs)
    rig.dispatcher.start(work)
    return work


def expected(work: LayerWork) -> dict[int, np.ndarray]:
    x = work.rows.floats
    return {e: x[list(rows)] * np.float32(e + 1) for e, rows in ROUTED.items()}


def check_complete(rig: DispatchRig, work: LayerWork) -> None:
    replies = rig.replies(work)
    assert len(replies) == 1
    done = replies[0]
    assert isinstance(done, LayerDone)
    assert sum(len(rows) for rows in done.values.values()) == 3 * 2
    for expert, rows in expected(work).items():
        assert np.array_equal(done.values[expert], rows)
    assert rig.accounts.add_up()


def test_one_message_a_worker_sent_at_once() -> None:
    rig = DispatchRig({1: {0, 1}, 2: {2, 3}})
    work = rig.work({1: {0: (0,), 1: (1,)}, 2: {2: (0,), 3: (2,)}})
    rig.dispatcher.start(work)
    assert len(rig.sent) == 2
    assert not rig.replies(work)
    rig.answer(2, rig.dispatches(2)[0])
    assert not rig.replies(work)
    rig.answer(1, rig.dispatches(1)[0])
    (done,) = rig.replies(work)
    assert isinstance(done, LayerDone)
    assert sorted(done.values) == [0, 1, 2, 3]
    assert len(rig.accounts.accepted) == 2
    rig.wait(2.0)
    assert rig.dispatcher.next_time() is None


def test_a_message_holds_each_needed_row_once() -> None:
    rig = DispatchRig({1: {0, 1}})
    work = rig.work({1: {0: (2, 4), 1: (4,)}}, n_rows=6)
    rig.dispatcher.start(work)
    (dispatch,) = rig.dispatches(1)
    assert dispatch.n_rows == 2
    assert [call.rows for call in dispatch.calls] == [(0, 1), (1,)]
    rig.answer(1, dispatch)
    (done,) = rig.replies(work)
    x = work.rows.floats
    assert np.array_equal(done.values[0], x[[2, 4]])
    assert np.array_equal(done.values[1], x[[4]] * np.float32(2))


def damage(kind: str, rows: np.ndarray) -> np.ndarray:
    rows = rows.copy()
    if kind == "one row too many":
        return np.concatenate([rows, rows[:1]])
    if kind == "one row too few":
        return rows[:-1]
    if kind == "a row twice and no other":
        return np.concatenate([rows[:1], rows[:1]])
    rows[2, 5] = {"nan": np.nan, "inf": np.inf, "minus inf": -np.inf}[kind]
    return rows


@pytest.mark.parametrize(
    "kind",
    [
        "one row too many",
        "one row too few",
        "a row twice and no other",
        "nan",
        "inf",
        "minus inf",
    ],
)
def test_b14_a_wrong_answer_is_refused_and_asked_elsewhere(kind: str) -> None:
    rig = DispatchRig({1: set(ROUTED), 2: set(ROUTED)})
    work = started(rig)
    (dispatch,) = rig.dispatches(1)
    rig.answer(1, dispatch, rows=damage(kind, rig.rows_of(dispatch)))
    assert not rig.replies(work)
    assert rig.counters.refused_outputs == 1
    assert rig.fleet.workers[peer_id(1)].status is Status.DEMOTED
    (second,) = rig.dispatches(2)
    rig.answer(2, second)
    check_complete(rig, work)
    assert [s.slot.peer for s in rig.accounts.accepted] == [peer_id(2)]
    assert work.trace.traces[0].failovers == 4


def test_b14_bytes_that_do_not_fill_the_rows_are_refused() -> None:
    rig = DispatchRig({1: set(ROUTED), 2: set(ROUTED)})
    work = started(rig)
    (dispatch,) = rig.dispatches(1)
    rows = rig.rows_of(dispatch)
    rig.answer(1, dispatch, rows=rows, results=rows.astype("<f2").tobytes())
    assert rig.counters.refused_outputs == 1
    rig.answer(2, rig.dispatches(2)[0])
    check_complete(rig, work)


def test_b14_permuted_rows_are_caught_by_the_check_and_paid_to_nobody() -> None:
    rig = DispatchRig({1: set(ROUTED)}, check_rate=1.0)
    work = started(rig)
    (dispatch,) = rig.dispatches(1)
    rig.answer(1, dispatch, rows=rig.rows_of(dispatch)[::-1])
    (done,) = rig.replies(work)
    (ticket,) = done.checks
    assert not rig.accounts.accepted
    rig.dispatcher.checked(ticket, passed=False)
    assert rig.accounts.withheld == [peer_id(1)]
    assert rig.fleet.workers[peer_id(1)].status is Status.DROPPED
    assert not rig.accounts.accepted
    assert rig.counters.spot_checks == {"passed": 0, "failed": 1, "skipped": 0}
    assert rig.fleet.to_greet(rig.now + 1e6) == []


def test_b34_an_honest_answer_is_paid_after_its_check() -> None:
    rig = DispatchRig({1: set(ROUTED)}, check_rate=1.0)
    work = started(rig)
    rig.answer(1, rig.dispatches(1)[0])
    (done,) = rig.replies(work)
    rig.dispatcher.checked(done.checks[0], passed=True)
    assert len(rig.accounts.accepted) == 1
    assert rig.fleet.workers[peer_id(1)].passes == 1


def test_b03_an_answer_that_cannot_be_compared_is_paid_and_proves_nothing() -> None:
    rig = DispatchRig({1: set(ROUTED)}, check_rate=1.0)
    work = started(rig)
    rig.answer(1, rig.dispatches(1)[0])
    (done,) = rig.replies(work)
    rig.dispatcher.checked(done.checks[0], passed=None)
    assert len(rig.accounts.accepted) == 1
    assert rig.fleet.workers[peer_id(1)].passes == 0
    assert rig.counters.spot_checks["skipped"] == 1


def test_b34_a_workers_first_answers_are_all_checked_wherever_the_disk_is() -> None:
    rig = DispatchRig({1: set(ROUTED)}, local_allowed=False, first_passes=3)
    for n_checks in (1, 1, 1, 0):
        work = started(rig)
        rig.answer(1, rig.dispatches(1)[-1])
        (done,) = rig.replies(work)
        assert len(done.checks) == n_checks
        for ticket in done.checks:
            assert ticket.sample in ticket.calls
            rig.dispatcher.checked(ticket, passed=True)
    assert len(rig.accounts.accepted) == 4


def test_b34_three_refused_answers_end_the_business() -> None:
    rig = DispatchRig({1: set(ROUTED)})
    for _ in range(3):
        rig.revive(1)
        rig.fleet.workers[peer_id(1)].status = Status.LIVE
        work = started(rig)
        rig.answer(1, rig.dispatches(1)[-1], rows=np.zeros((1, N_EMBD), np.float32))
        assert isinstance(rig.replies(work)[0], ComputeHere)
    assert rig.fleet.workers[peer_id(1)].status is Status.DROPPED


def test_b11_two_experts_one_lost_is_never_a_partial_answer() -> None:
    rig = DispatchRig({1: {0}, 2: {1}}, local_allowed=False)
    work = rig.work({1: {0: (0,)}, 2: {1: (0,)}}, n_rows=1)
    rig.dispatcher.start(work)
    rig.answer(1, rig.dispatches(1)[0])
    rig.dispatcher.on_lost(peer_id(2))
    assert not rig.replies(work)
    rig.wait(31.0)
    (failed,) = rig.replies(work)
    assert isinstance(failed, LayerFailed)
    assert isinstance(failed.error, ExpertsUnavailable)
    assert "expert 1 " in str(failed.error)


def test_b11_a_lost_worker_costs_one_dispatch_to_the_replica() -> None:
    rig = DispatchRig({1: set(ROUTED), 2: set(ROUTED)})
    work = started(rig)
    rig.dispatcher.on_lost(peer_id(1))
    (second,) = rig.dispatches(2)
    rig.answer(2, second)
    check_complete(rig, work)
    assert work.trace.traces[0].failovers == 4
    assert rig.counters.failovers == {"lost": 4}


def test_b11_without_a_replica_the_calls_come_home() -> None:
    rig = DispatchRig({1: set(ROUTED)})
    work = started(rig)
    rig.dispatcher.on_lost(peer_id(1))
    here, done = rig.replies(work)
    assert isinstance(here, ComputeHere)
    assert [call.expert for call in here.calls] == [0, 1, 2, 3]
    assert isinstance(done, LayerDone)
    assert not done.values


def test_b11_a_late_worker_is_cancelled_and_its_late_answer_dropped() -> None:
    rig = DispatchRig({1: set(ROUTED), 2: set(ROUTED)})
    work = started(rig)
    (first,) = rig.dispatches(1)
    assert rig.dispatcher.next_time() <= rig.now + 1.5
    rig.wait(1.6)
    assert rig.cancels(1) == [first.request]
    (second,) = rig.dispatches(2)
    rig.answer(2, second)
    rig.answer(1, first)
    rig.answer(2, second)
    check_complete(rig, work)
    assert rig.counters.late_outputs == 2
    assert len(rig.accounts.accepted) == 1


def test_b32_the_same_answer_twice_is_one_serving() -> None:
    rig = DispatchRig({1: set(ROUTED)})
    work = started(rig)
    (dispatch,) = rig.dispatches(1)
    rig.answer(1, dispatch)
    rig.answer(1, dispatch)
    check_complete(rig, work)
    assert len(rig.accounts.accepted) == 1
    assert rig.counters.late_outputs == 1


def test_b32_an_answer_from_another_worker_does_not_count() -> None:
    rig = DispatchRig({1: set(ROUTED), 2: set(ROUTED)})
    work = started(rig)
    (dispatch,) = rig.dispatches(1)
    rig.answer(2, dispatch)
    assert not rig.replies(work)
    assert rig.fleet.workers[peer_id(2)].status is Status.DEMOTED
    rig.answer(1, dispatch)
    check_complete(rig, work)


def test_arith_is_computed_here_once_and_counts_against_nobody() -> None:
    rig = DispatchRig({1: set(ROUTED), 2: set(ROUTED)})
    work = started(rig)
    rig.answer(1, rig.dispatches(1)[0], error=OutputError.ARITH)
    here, done = rig.replies(work)
    assert isinstance(here, ComputeHere)
    assert here.reason is Reason.ARITH
    assert isinstance(done, LayerDone)
    assert not rig.dispatches(2)
    assert rig.fleet.workers[peer_id(1)].status is Status.LIVE
    assert rig.accounts.add_up()


def test_b32_a_call_that_three_workers_fail_comes_here() -> None:
    rig = DispatchRig({n: set(ROUTED) for n in (1, 2, 3, 4, 5)}, local_allowed=False)
    work = started(rig)
    for _ in range(3):
        n = next(
            n
            for n in (1, 2, 3, 4, 5)
            if rig.dispatches(n) and not rig.replies(work)
            if rig.fleet.workers[peer_id(n)].status is Status.LIVE
        )
        rig.answer(n, rig.dispatches(n)[-1], error=OutputError.BAD_REQUEST)
    replies = rig.replies(work)
    assert any(isinstance(r, ComputeHere) for r in replies)
    assert sum(len(rig.dispatches(n)) for n in (1, 2, 3, 4, 5)) == 3
    failed = [n for n in (1, 2, 3, 4, 5) if rig.dispatches(n)]
    assert sorted(rig.fleet.to_greet(rig.now)) == [peer_id(n) for n in failed]
    for n in failed:  # none of them loses standing
        assert rig.fleet.workers[peer_id(n)].failures == 0
    assert rig.accounts.add_up()


def test_not_held_takes_the_experts_from_the_worker_only() -> None:
    rig = DispatchRig({1: set(ROUTED), 2: set(ROUTED)})
    started(rig)
    rig.answer(1, rig.dispatches(1)[0], error=OutputError.NOT_HELD)
    assert rig.fleet.workers[peer_id(1)].status is Status.LIVE
    assert {h.peer for h in rig.fleet.holders(1)[0]} == {peer_id(2)}


def test_no_grant_is_told_to_the_accounts() -> None:
    rig = DispatchRig({1: set(ROUTED), 2: set(ROUTED)})
    started(rig)
    rig.answer(1, rig.dispatches(1)[0], error=OutputError.NO_GRANT)
    assert rig.accounts.without_grant == [peer_id(1)]
    assert len(rig.dispatches(2)) == 1


def test_a_worker_at_its_float_is_passed_over() -> None:
    rig = DispatchRig({1: set(ROUTED), 2: set(ROUTED)})
    rig.accounts.broke.add(peer_id(1))
    work = started(rig)
    assert not rig.dispatches(1)
    rig.answer(2, rig.dispatches(2)[0])
    check_complete(rig, work)


def test_what_a_float_does_not_take_goes_elsewhere() -> None:
    rig = DispatchRig({1: set(ROUTED), 2: set(ROUTED)})
    rig.accounts.rooms[peer_id(1)] = 3
    work = started(rig)
    assert [c.index for c in rig.dispatches(1)[0].calls] == [0, 1, 2]
    assert [c.index for c in rig.dispatches(2)[0].calls] == [3]
    rig.answer(1, rig.dispatches(1)[0])
    rig.answer(2, rig.dispatches(2)[0])
    check_complete(rig, work)


def test_a_full_send_queue_sends_elsewhere() -> None:
    rig = DispatchRig({1: set(ROUTED), 2: set(ROUTED)})
    rig.full.add(peer_id(1))
    work = started(rig)
    rig.answer(2, rig.dispatches(2)[0])
    check_complete(rig, work)


def test_policy_wait_takes_a_holder_that_comes_in_time() -> None:
    rig = DispatchRig({1: {0}}, local_allowed=False)
    work = rig.work({}, stranded={2: (0,)}, n_rows=1)
    rig.dispatcher.start(work)
    rig.wait(5.0)
    assert not rig.replies(work)
    rig.place({3: {2}})
    rig.dispatcher.retry_stranded()
    rig.answer(3, rig.dispatches(3)[0])
    (done,) = rig.replies(work)
    assert isinstance(done, LayerDone)
    assert list(done.values) == [2]


def test_b20_a_cancelled_request_ends_at_once_and_another_goes_on() -> None:
    rig = DispatchRig({1: set(ROUTED)})
    work, other = started(rig), started(rig)
    mine, theirs = rig.dispatches(1)
    rig.dispatcher.cancel(work.trace)
    (failed,) = rig.replies(work)
    assert isinstance(failed, LayerFailed)
    assert isinstance(failed.error, Cancelled)
    assert rig.cancels(1) == [mine.request]
    rig.answer(1, mine)
    rig.answer(1, theirs)
    check_complete(rig, other)
    late = rig.work({1: ROUTED})
    late.trace.traces[0].cancelled = True
    rig.dispatcher.start(late)
    assert isinstance(rig.replies(late)[0], LayerFailed)
    assert len(rig.dispatches(1)) == 2


def test_busy_moves_one_request_without_a_demotion() -> None:
    rig = DispatchRig({1: set(ROUTED), 2: set(ROUTED)})
    work = started(rig)
    rig.dispatcher.on_busy(peer_id(1), rig.dispatches(1)[0].request, 200)
    assert rig.fleet.workers[peer_id(1)].status is Status.LIVE
    rig.answer(2, rig.dispatches(2)[0])
    check_complete(rig, work)


def test_a_worker_that_is_always_busy_is_left_alone_for_a_while() -> None:
    rig = DispatchRig({1: {0}, 2: {0}})
    for is_busy in [True] * (MAX_BUSY - 1) + [False] + [True] * MAX_BUSY:
        assert rig.fleet.workers[peer_id(1)].status is Status.LIVE
        rig.dispatcher.start(rig.work({1: {0: (0,)}}))
        if is_busy:
            rig.dispatcher.on_busy(peer_id(1), rig.dispatches(1)[-1].request, 50)
        rig.answer(2 if is_busy else 1, rig.dispatches(2 if is_busy else 1)[-1])
    assert rig.fleet.workers[peer_id(1)].status is Status.DEMOTED
    assert rig.accounts.add_up()


def test_a_new_deadline_is_heard_of_behind_those_of_answered_requests() -> None:
    rig = DispatchRig({1: set(ROUTED)})
    heard: list[float | None] = []
    rig.dispatcher.on_sooner = lambda: heard.append(rig.dispatcher.next_time())
    started(rig)
    rig.answer(1, rig.dispatches(1)[0])
    first = rig.dispatcher.next_time()
    rig.now += 0.1
    started(rig)
    assert first is not None
    assert rig.dispatcher.next_time() == first  # the timer looks again by then
    assert heard == [first]


def test_in_flight_is_counted_by_worker() -> None:
    rig = DispatchRig({1: set(ROUTED)})
    started(rig)
    assert rig.dispatcher.in_flight() == {peer_id(1): 1}
    assert rig.fleet.workers[peer_id(1)].cost.in_flight_rows == 6
    rig.answer(1, rig.dispatches(1)[0])
    assert rig.dispatcher.in_flight() == {}
    assert rig.fleet.workers[peer_id(1)].cost.in_flight_rows == 0


def test_patience_ends_a_layer_and_names_the_rows_that_waited() -> None:
    rig = DispatchRig({1: {0}}, local_allowed=False)
    work = rig.work({1: {0: (0,)}}, stranded={2: (1,), 3: (2,)}, patience_s=1.0)
    rig.dispatcher.start(work)
    assert rig.dispatcher.next_time() == rig.now + 0.25
    rig.wait(0.9)
    assert rig.dispatcher.next_time() == pytest.approx(rig.now + 0.1)
    assert not rig.replies(work)
    rig.wait(0.1)
    (failed,) = rig.replies(work)
    assert isinstance(failed.error, ExpertsUnavailable)
    assert failed.error.rows == (1, 2)


@pytest.mark.parametrize("policy", [MissingPolicy.FAIL, MissingPolicy.DROP])
def test_calls_that_nobody_holds_come_back_under_a_policy_that_does_not_wait(
    policy: MissingPolicy,
) -> None:
    rig = DispatchRig({1: {0, 1}, 2: {1}}, local_allowed=False)
    work = rig.work({1: {0: (0,), 1: (1,)}}, n_rows=2, missing=policy)
    rig.dispatcher.start(work)
    rig.dispatcher.on_lost(peer_id(1))
    (missing,) = rig.replies(work)
    assert isinstance(missing, HeldByNobody)
    assert [call.expert for call in missing.calls] == [0]
    rig.answer(2, rig.dispatches(2)[0])
    (done,) = rig.replies(work)
    assert isinstance(done, LayerDone)
    assert list(done.values) == [1]
    assert rig.accounts.add_up()


def test_a_holder_without_room_is_waited_for_under_any_policy() -> None:
    rig = DispatchRig({1: {0}}, local_allowed=False)
    rig.full.add(peer_id(1))
    rig.accounts.broke.add(peer_id(1))
    work = rig.work({1: {0: (0,)}}, n_rows=1, missing=MissingPolicy.FAIL)
    rig.dispatcher.start(work)
    assert not rig.replies(work)
    rig.full.clear()
    rig.accounts.broke.clear()
    rig.wait(0.3)
    rig.answer(1, rig.dispatches(1)[0])
    (done,) = rig.replies(work)
    assert isinstance(done, LayerDone)


def test_stopping_a_step_cancels_none_of_its_requests() -> None:
    rig = DispatchRig({1: set(ROUTED)})
    work = started(rig)
    rig.dispatcher.cancel(work.trace)
    assert work.trace.cancelled
    assert not work.trace.traces[0].cancelled
