"""A slow call is asked for twice: the first answer counts, the other is called off."""

import pytest

from mobile_worker.messages import OutputError
from p2pmoe.backbone.exchange import LayerDone, LayerWork
from p2pmoe.backbone.fleet import Status
from tests.support.backbone import DispatchRig, peer_id

ROUTED = {0: (0, 1), 1: (0, 2), 2: (1,), 3: (2,)}


def slow_call(
    holders: dict[int, set[int]] | None = None, **kwargs: object
) -> tuple[DispatchRig, LayerWork]:
    """Return a rig with a call to worker 1 that takes longer than its calls ever do."""
    rig = DispatchRig(holders or {1: set(ROUTED), 2: set(ROUTED)}, **kwargs)
    for n in holders or (1, 2):
        rig.measured(n, 0.020)
    rig.earn_hedges(20)
    work = rig.work({1: ROUTED})
    rig.dispatcher.start(work)
    rig.wait(0.021)
    assert not rig.dispatches(2)
    rig.wait(0.020)
    return rig, work


def check_done(rig: DispatchRig, work: LayerWork) -> None:
    (done,) = rig.replies(work)
    assert isinstance(done, LayerDone)
    x = work.rows.floats
    assert x is not None
    for expert, rows in ROUTED.items():
        assert done.values[expert].tolist() == (x[list(rows)] * (expert + 1)).tolist()


def finish(rig: DispatchRig) -> None:
    """Let all that is out come to its end, and see that the accounts add up."""
    rig.wait(40.0)
    assert rig.accounts.add_up()
    assert rig.dispatcher.next_time() is None
    assert all(w.cost.in_flight_rows == 0 for w in rig.fleet.workers.values())


def test_the_hedge_wins_and_the_slow_one_is_called_off() -> None:
    rig, work = slow_call()
    (first,), (second,) = rig.dispatches(1), rig.dispatches(2)
    assert [c.index for c in second.calls] == list(ROUTED)
    rig.answer(2, second)
    check_done(rig, work)
    assert rig.cancels(1) == [first.request]
    assert rig.counters.hedges["won"] == 1
    assert work.trace.traces[0].hedges == len(ROUTED)
    assert rig.fleet.workers[peer_id(1)].status is Status.LIVE  # slow is no failure
    assert work.trace.traces[0].failovers == 0
    finish(rig)
    assert [s.slot.peer for s in rig.accounts.accepted[20:]] == [peer_id(2)]
    assert rig.fleet.workers[peer_id(1)].cost.tail()[-1] > 1.5


def test_the_first_wins_and_the_hedge_is_called_off() -> None:
    rig, work = slow_call()
    rig.answer(1, rig.dispatches(1)[0])
    check_done(rig, work)
    assert rig.cancels(2) == [rig.dispatches(2)[0].request]
    assert rig.counters.hedges["lost"] == 1
    finish(rig)


def test_a_loser_that_was_in_time_is_paid_and_compared() -> None:
    rig, work = slow_call()
    rig.answer(2, rig.dispatches(2)[0])
    rig.now += 0.001
    rig.answer(1, rig.dispatches(1)[0])
    check_done(rig, work)
    assert {s.slot.peer for s in rig.accounts.accepted[20:]} == {peer_id(1), peer_id(2)}
    assert rig.counters.hedge_audits == {"agreed": 1, "differed": 0, "undecided": 0}
    assert rig.counters.duplicate_servings == len(ROUTED)
    rig.answer(1, rig.dispatches(1)[0])  # once more: dropped
    assert rig.counters.late_outputs == 1
    finish(rig)


def test_a_loser_that_comes_long_after_our_cancel_is_compared_and_not_paid() -> None:
    rig, work = slow_call()
    rig.answer(2, rig.dispatches(2)[0])
    rig.wait(0.100)
    rig.answer(1, rig.dispatches(1)[0])
    assert [s.slot.peer for s in rig.accounts.accepted[20:]] == [peer_id(2)]
    assert rig.counters.hedge_audits["agreed"] == 1
    assert rig.counters.unpaid_servings == len(ROUTED)
    check_done(rig, work)
    finish(rig)


@pytest.mark.parametrize("error", [OutputError.OVERDUE, OutputError.DRAINING])
def test_a_hedge_that_fails_leaves_the_first_one_out(error: OutputError) -> None:
    rig, work = slow_call()
    rig.answer(2, rig.dispatches(2)[0], error=error)
    assert not rig.replies(work)
    assert len(rig.dispatches(1)) == 1
    assert rig.counters.hedges["failed"] == 1
    rig.answer(1, rig.dispatches(1)[0])
    check_done(rig, work)
    finish(rig)


def test_b11_the_first_one_is_lost_while_its_hedge_is_out() -> None:
    rig, work = slow_call({1: set(ROUTED), 2: set(ROUTED), 3: set(ROUTED)})
    rig.dispatcher.on_lost(peer_id(1))
    assert not rig.dispatches(3)  # the hedge covers it
    rig.answer(2, rig.dispatches(2)[0])
    check_done(rig, work)
    finish(rig)


@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
def test_arith_of_one_is_not_the_word_of_the_other(order: tuple[int, int]) -> None:
    rig, work = slow_call()
    first, second = order
    rig.answer(first, rig.dispatches(first)[0], error=OutputError.ARITH)
    assert not rig.replies(work)
    rig.answer(second, rig.dispatches(second)[0])
    check_done(rig, work)
    finish(rig)


def test_arith_of_both_brings_the_call_home() -> None:
    rig, work = slow_call()
    for n in (2, 1):
        rig.answer(n, rig.dispatches(n)[0], error=OutputError.ARITH)
    here, done = rig.replies(work)
    assert [c.expert for c in here.calls] == list(ROUTED)
    assert isinstance(done, LayerDone)
    finish(rig)


def test_a_hedge_in_two_parts() -> None:
    holders = {1: set(ROUTED), 2: {0, 1}, 3: {2, 3}}
    rig = DispatchRig(holders)
    for n in holders:
        rig.measured(n, 0.020)
    rig.earn_hedges(40)
    work = rig.work({1: ROUTED})
    rig.dispatcher.start(work)
    rig.wait(0.041)
    rig.answer(2, rig.dispatches(2)[0])
    assert not rig.replies(work)
    rig.answer(1, rig.dispatches(1)[0])  # brings 2 and 3, and 0 and 1 once more
    check_done(rig, work)
    assert rig.cancels(3) == [rig.dispatches(3)[0].request]
    assert rig.counters.hedges == {"won": 1, "lost": 1, "failed": 0, "probe": 0}
    assert rig.counters.hedge_audits["agreed"] == 1
    assert rig.counters.duplicate_servings == 2
    finish(rig)


def test_nobody_else_holds_all_of_it() -> None:
    rig, work = slow_call({1: set(ROUTED), 2: {0, 1, 2}})
    assert not rig.dispatches(2)
    rig.answer(1, rig.dispatches(1)[0])
    check_done(rig, work)


def test_moments_that_never_matter_are_not_kept() -> None:
    rig = DispatchRig({1: set(ROUTED), 2: set(ROUTED)})
    for n in range(103):  # stalls alone hardly count for a mean
        rig.measured(1, 1.4 if n % 10 == 9 or n >= 100 else 1e-5, 1)
    cost = rig.fleet.workers[peer_id(1)].cost
    assert cost.p95() is not None
    assert cost.p95() * cost.measured_s(1, 900) > 1000.0
    for _ in range(50):
        rig.dispatcher.start(rig.work({1: ROUTED}))
        rig.answer(1, rig.dispatches(1)[-1])
    rig.wait(31.0)
    assert rig.dispatcher.next_time() is None


def test_without_budget_a_slow_call_is_waited_for_until_there_is_some() -> None:
    rig = DispatchRig({1: set(ROUTED), 2: set(ROUTED)})
    for n in (1, 2):
        rig.measured(n, 0.020)
    work = rig.work({1: ROUTED})
    rig.dispatcher.start(work)
    rig.wait(0.041)
    assert not rig.dispatches(2)
    rig.earn_hedges(20)
    rig.wait(0.030)
    assert len(rig.dispatches(2)) == 1
    rig.answer(2, rig.dispatches(2)[0])
    check_done(rig, work)


def test_a_step_that_is_cancelled_calls_both_off_and_pays_who_was_in_time() -> None:
    rig, work = slow_call()
    rig.dispatcher.cancel(work.trace)
    assert rig.cancels(1)
    assert rig.cancels(2)
    rig.answer(1, rig.dispatches(1)[0])
    assert [s.slot.peer for s in rig.accounts.accepted[20:]] == [peer_id(1)]
    assert rig.counters.hedges["failed"] == 1
    assert len(rig.replies(work)) == 1
    finish(rig)


def test_a_slow_worker_is_probed_besides() -> None:
    rig = DispatchRig({n: set(ROUTED) for n in (1, 2, 3)})
    for n, seconds in ((1, 0.020), (2, 0.020), (3, 0.500)):
        rig.measured(n, seconds)
    rig.fleet.relax(rig.now)
    rig.earn_hedges(20)
    rig.now += 1.0
    work = rig.work({1: ROUTED})
    rig.dispatcher.start(work)
    (probe,) = rig.dispatches(3)
    assert [call.index for call in probe.calls] == [0]
    rig.answer(1, rig.dispatches(1)[0])
    check_done(rig, work)
    assert not rig.cancels(3)  # it is not waited for, but wanted
    rig.now += 0.3
    rig.answer(3, probe)
    assert rig.counters.hedges["probe"] == 1
    assert rig.counters.hedge_audits["agreed"] == 1
    assert rig.fleet.workers[peer_id(3)].cost.rtt_s < 0.45
    finish(rig)
