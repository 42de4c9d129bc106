"""Each number is accepted or abandoned, once, whatever became of its request."""

import pytest

from p2pmoe.backbone.exchange import LayerDone, LayerFailed
from p2pmoe.backbone.fleet import Status
from p2pmoe.backbone.servings import Accounts
from p2pmoe.backbone.settlement import Settlement
from tests.support.backbone import CountingAccounts, DispatchRig, peer_id


def test_the_fake_and_the_product_have_the_seams_methods() -> None:
    wanted = {name for name in vars(Accounts) if not name.startswith("_")}
    assert wanted == {
        "abandon",
        "accept",
        "number",
        "refused_for_grant",
        "room",
        "withhold",
    }
    for implementation in (Settlement, CountingAccounts):
        assert wanted <= set(dir(implementation))


def test_b20_an_answer_that_waits_for_its_check_is_paid_if_the_client_leaves() -> None:
    rig = DispatchRig({1: {0}, 2: {1}}, check_rate=1.0)
    work = rig.work({1: {0: (0,)}, 2: {1: (0,)}})
    rig.dispatcher.start(work)
    rig.answer(1, rig.dispatches(1)[0])
    rig.dispatcher.cancel(work.trace)
    assert isinstance(rig.replies(work)[0], LayerFailed)
    rig.wait(1.0)  # an answer that crosses our CANCEL would be paid
    assert [served.slot.peer for served in rig.accounts.accepted] == [peer_id(1)]
    assert [slot.peer for slot in rig.accounts.abandoned] == [peer_id(2)]
    assert rig.accounts.add_up()


@pytest.mark.parametrize("passed", [True, False])
def test_b20_a_verdict_after_the_client_left_still_counts_for_the_worker(
    passed: bool,
) -> None:
    rig = DispatchRig({1: {0}}, check_rate=1.0)
    work = rig.work({1: {0: (0,)}})
    rig.dispatcher.start(work)
    rig.answer(1, rig.dispatches(1)[0])
    (done,) = rig.replies(work)
    assert isinstance(done, LayerDone)
    rig.dispatcher.cancel(work.trace)  # before the decode thread has compared
    rig.dispatcher.checked(done.checks[0], passed=passed)
    assert rig.accounts.add_up()
    worker = rig.fleet.workers[peer_id(1)]
    assert (worker.passes, worker.status is Status.DROPPED) == (passed, not passed)
    assert rig.accounts.withheld == ([] if passed else [peer_id(1)])


def test_b20_a_thousand_cancelled_layers_leave_no_number_open() -> None:
    rig = DispatchRig({1: {0}, 2: {1}}, check_rate=0.3)
    for cycle in range(1000):
        work = rig.work({1: {0: (0,)}, 2: {1: (0,)}})
        rig.dispatcher.start(work)
        if cycle % 3:
            rig.answer(1, rig.dispatches(1)[-1])
        if cycle % 5 == 0:
            rig.answer(2, rig.dispatches(2)[-1])
        rig.dispatcher.cancel(work.trace)
        rig.sent.clear()
    rig.wait(1.0)
    assert rig.accounts.add_up()
    assert rig.dispatcher.n_open == 0
    assert rig.dispatcher.in_flight() == {}
    assert all(w.cost.in_flight_rows == 0 for w in rig.fleet.workers.values())
