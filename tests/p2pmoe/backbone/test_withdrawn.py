"""How long the answer to a called-off dispatch is paid, and looked at."""

import numpy as np
import pytest

from p2pmoe.backbone.attempts import Attempt, Purpose
from p2pmoe.backbone.cost import CallSample, WorkerCost
from p2pmoe.backbone.outputs import CallResult
from p2pmoe.backbone.plan import ExpertRows, Tier
from p2pmoe.backbone.progress import Progress
from p2pmoe.backbone.servings import ServingSlot
from p2pmoe.backbone.withdrawn import LONGEST_TRIP_S, Withdrawals
from tests.support.backbone import DispatchRig, peer_id


def attempt(purpose: Purpose = Purpose.CALL) -> Attempt:
    calls = (ExpertRows(expert=0, rows=(0,)),)
    return Attempt(
        request=5,
        purpose=purpose,
        peer=peer_id(1),
        tier=Tier.EDGE,
        calls=calls,
        slot=ServingSlot(
            peer=peer_id(1), tab=bytes(8), first=0, n=1, n_rows=1, price_epoch=1
        ),
        nonce=bytes(8),
        sent_at=10.0,
        deadline=11.0,
        expected_s=0.02,
        n_bytes_up=900,
        progress=Progress(DispatchRig({}).work({})),
    )


def beaten(purpose: Purpose = Purpose.CALL) -> Attempt:
    """Return one of whose calls another answer was taken."""
    lost = attempt(purpose)
    lost.progress.open[0] = lost.calls[0]
    values = np.zeros((1, 32), np.float32)
    won = CallResult(call=lost.calls[0], values=values, coded=values.tobytes())
    lost.progress.take([won], lost.slot)
    return lost


def cost() -> WorkerCost:
    known = WorkerCost()
    for _ in range(20):
        known.observe(CallSample(elapsed_s=0.02, compute_s=0.0, n_rows=1, n_bytes=900))
    return known


def test_paid_for_a_round_trip_and_looked_at_until_the_deadline() -> None:
    withdrawals = Withdrawals()
    item = withdrawals.add(beaten(), cost(), 10.5)
    assert item.paid_until == pytest.approx(10.52)
    assert item.kept_until == 11.0
    assert withdrawals.get(5) is item
    assert withdrawals.of_worker(peer_id(1)) == [item]
    assert not withdrawals.of_worker(peer_id(2))
    withdrawals.remove(item)
    assert not len(withdrawals)
    assert withdrawals.get(5) is None


def test_what_nothing_can_be_compared_with_is_kept_for_its_pay() -> None:
    item = Withdrawals().add(attempt(), cost(), 10.5)
    assert item.kept_until == item.paid_until == pytest.approx(10.52)


def test_what_is_called_off_just_before_its_deadline_is_paid_as_long() -> None:
    item = Withdrawals().add(beaten(), cost(), 10.995)
    assert item.kept_until == item.paid_until == pytest.approx(11.015)


def test_a_probe_has_its_whole_time() -> None:
    item = Withdrawals().add(attempt(Purpose.PROBE), cost(), 10.5)
    assert item.paid_until == 11.0


def test_no_worker_makes_its_round_trip_as_long_as_it_likes() -> None:
    odd = WorkerCost()
    for n in range(103):  # lone outliers hardly count for a mean, the last ones do
        elapsed_s = 1.4 if n % 10 == 9 or n >= 100 else 1e-5
        odd.observe(
            CallSample(elapsed_s=elapsed_s, compute_s=0.0, n_rows=1, n_bytes=900)
        )
    assert odd.trip_s() > 100.0
    item = Withdrawals().add(attempt(), odd, 10.5)
    assert item.kept_until == item.paid_until == 10.5 + LONGEST_TRIP_S
