"""An answer is results, or a reason, and its worker is known by it."""

import pytest

from mobile_worker.messages import Output, OutputError
from p2pmoe.backbone.attempts import Attempt
from p2pmoe.backbone.exchange import Reason
from p2pmoe.backbone.fleet import Status
from p2pmoe.backbone.flights import Flights
from p2pmoe.backbone.progress import Progress
from p2pmoe.backbone.verdicts import Verdicts
from tests.support.backbone import DispatchRig, peer_id


def asked() -> tuple[DispatchRig, Verdicts, Attempt]:
    rig = DispatchRig({1: {0, 1}})
    parts = rig.dispatcher._parts
    progress = Progress(rig.work({1: {0: (0,), 1: (1,)}}))
    attempt = Flights(parts).send(progress, progress.work.plan.remote[0])
    assert attempt is not None
    return rig, Verdicts(parts), attempt


def answer(rig: DispatchRig, attempt: Attempt, error: OutputError) -> Output:
    rows = rig.rows_of(rig.dispatches(1)[0])
    is_right = error is OutputError.OK
    return Output(
        request=attempt.request,
        error=int(error),
        compute_us=1000,
        n_rows_total=len(rows) if is_right else 0,
        results=rows.astype("<f4").tobytes() if is_right else b"",
    )


def test_a_right_answer_clears_the_record_and_is_timed() -> None:
    rig, verdicts, attempt = asked()
    rig.fleet.workers[peer_id(1)].failures = 2
    rig.now += 0.5
    output = answer(rig, attempt, OutputError.OK)
    results = verdicts.read(attempt, output)
    assert not isinstance(results, Reason)
    assert [r.call for r in results] == list(attempt.calls)
    verdicts.observe(attempt, output, 100)
    assert rig.fleet.workers[peer_id(1)].failures == 0
    assert rig.fleet.workers[peer_id(1)].cost.rtt_s == pytest.approx(0.499)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (OutputError.ARITH, Status.LIVE),
        (OutputError.NOT_HELD, Status.LIVE),
        (OutputError.NO_GRANT, Status.DEMOTED),
        (OutputError.OVERDUE, Status.DEMOTED),
        (OutputError.BAD_REQUEST, Status.DEMOTED),
        (OutputError.DRAINING, Status.GONE),
    ],
)
def test_what_an_error_says_of_its_worker(error: OutputError, status: Status) -> None:
    rig, verdicts, attempt = asked()
    reason = verdicts.read(attempt, answer(rig, attempt, error))
    assert reason is (Reason.ARITH if error is OutputError.ARITH else Reason.ERROR)
    assert rig.fleet.workers[peer_id(1)].status is status


def test_three_refused_answers_are_hopeless() -> None:
    rig, verdicts, attempt = asked()
    wrong = Output(
        request=attempt.request, error=0, compute_us=1, n_rows_total=1, results=b"x" * 8
    )
    for n in range(3):
        assert verdicts.is_hopeless(peer_id(1)) is (n >= 3)
        assert verdicts.read(attempt, wrong) is Reason.REFUSED
    assert verdicts.is_hopeless(peer_id(1))
    assert rig.counters.refused_outputs == 3
