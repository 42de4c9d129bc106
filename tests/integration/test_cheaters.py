"""B34: workers that cheat are caught within the stated number of servings, unpaid.

A backbone checks every one of a worker's first 8 answers, then 5 % until 200 have
passed, 1 % until 2,000, then 0.2 %. So who is always wrong is caught by its first
answer, and who is wrong once in 50 is paid for 20 wrong answers on the mean.
"""

from collections.abc import Callable
from random import Random

import numpy as np
import pytest

from mobile_worker.messages import CheckOutcome, Dispatch, OutputError
from p2pmoe.backbone.exchange import ComputeHere, LayerDone
from p2pmoe.backbone.fleet import Status
from p2pmoe.backbone.spot_checks import SpotChecks
from tests.support.backbone import LAYER, N_EMBD, DispatchRig, peer_id

FIRST = 8  # Tuning.first_passes
CHECKS = SpotChecks(first_passes=FIRST)
EXPERTS = range(1, 8)  # of the rig: expert e gives (e + 1) times the row
MAX_SERVINGS = 20_000

Rows = np.ndarray
Cheat = Callable[[Dispatch, Rows, Rows], Rows]  # dispatch, input, right results


def zeros(_dispatch: Dispatch, _x: Rows, right: Rows) -> Rows:
    return np.zeros_like(right)


def echo(_dispatch: Dispatch, x: Rows, _right: Rows) -> Rows:
    return x.copy()


def another_rows(_dispatch: Dispatch, _x: Rows, right: Rows) -> Rows:
    return right + 7


def noise(_dispatch: Dispatch, _x: Rows, right: Rows) -> Rows:
    return (right * np.float32(1.01)).astype(np.float32)


def cached() -> Cheat:
    """The first result of each expert, for ever."""
    known: dict[int, Rows] = {}

    def cheat(dispatch: Dispatch, _x: Rows, right: Rows) -> Rows:
        return known.setdefault(dispatch.calls[0].index, right + 1)

    return cheat


def instant(_dispatch: Dispatch, _x: Rows, right: Rows) -> Rows:
    """Faster than memory can be read: nothing was computed."""
    return np.ones_like(right)


class Play:
    """One worker, one call after the other, until it is dropped."""

    def __init__(self, cheat: Cheat, *, seed: int, every: int = 1) -> None:
        self.rig = DispatchRig({1: set(range(8))}, hedging=False)
        audits = self.rig.dispatcher._audits
        audits._checks, audits._random = CHECKS, Random(seed)
        self.cheat, self.every = cheat, every
        self.random = Random(seed)
        self.n_servings = self.n_wrong = 0
        self.wrong: set[int] = set()  # serving numbers

    @property
    def is_dropped(self) -> bool:
        return self.rig.fleet.workers[peer_id(1)].status is Status.DROPPED

    @property
    def n_wrong_paid(self) -> int:
        return sum(s.slot.first in self.wrong for s in self.rig.accounts.accepted)

    def run(self) -> "Play":
        while not self.is_dropped and self.n_servings < MAX_SERVINGS:
            self.serve()
        return self

    def serve(self) -> None:
        rig = self.rig
        expert = self.random.choice(EXPERTS)
        work = rig.work({1: {expert: (0,)}}, n_rows=1)
        rig.dispatcher.start(work)
        dispatch = rig.dispatches(1)[-1]
        right = rig.rows_of(dispatch)
        x = np.frombuffer(dispatch.floats, "<f4").reshape(-1, N_EMBD)
        self.n_servings += 1
        lies = self.n_servings % self.every == 0
        rows = self.cheat(dispatch, x, right) if lies else right
        if lies:
            self.n_wrong += 1
            self.wrong.add(dispatch.first_serving)
        rig.answer(1, dispatch, rows=rows)
        rig.sent.clear()
        for reply in rig.replies(work):
            for ticket in reply.checks if isinstance(reply, LayerDone) else ():
                given = reply.values[ticket.sample.expert].tobytes()
                rig.dispatcher.checked(ticket, passed=given == right.tobytes())


@pytest.mark.parametrize(
    "cheat",
    [zeros, echo, another_rows, noise, cached(), instant],
    ids=["zeros", "echo", "another", "noise", "cached", "instant"],
)
def test_b34_who_is_always_wrong_is_caught_by_its_first_answer(cheat: Cheat) -> None:
    for seed in range(20):
        play = Play(cheat, seed=seed).run()
        assert play.is_dropped
        assert play.n_servings == 1
        assert play.n_wrong_paid == 0
        assert play.rig.accounts.withheld == [peer_id(1)]
        (report,) = play.rig.dispatcher._parts.reports.take(0.0, bytes(32))
        assert report.outcome == CheckOutcome.FAILED
        assert [(e.layer, n) for e, n in report.counts] == [(LAYER, 1)]


def test_b34_nan_is_refused_and_the_third_ends_the_business() -> None:
    def nan(_dispatch: Dispatch, _x: Rows, right: Rows) -> Rows:
        return np.full_like(right, np.nan)

    play = Play(nan, seed=1)
    for n in range(1, 4):
        play.rig.revive(1)
        play.rig.fleet.workers[peer_id(1)].status = Status.LIVE
        play.serve()
        assert play.is_dropped == (n == 3)
    assert play.n_wrong_paid == 0


def test_b34_one_wrong_in_fifty_over_a_real_dispatcher() -> None:
    plays = [Play(noise, seed=seed, every=50).run() for seed in range(5)]
    assert all(play.is_dropped for play in plays)
    assert all(play.rig.accounts.add_up() for play in plays)
    paid = [play.n_wrong_paid for play in plays]
    assert sum(paid) / len(paid) <= 40  # five seeds of a mean of 20
    print(f"wrong answers paid before the catch: {paid}")


def caught_after(every: int, random: Random) -> tuple[int, int]:
    """Return servings, and wrong ones that were paid, until the first catch."""
    passes = n_wrong = 0
    for n in range(1, 10**7):
        lies = n % every == 0
        if random.random() < CHECKS.share(passes):
            if lies:
                return n, n_wrong
            passes += 1
        n_wrong += lies
    raise AssertionError("never caught")


@pytest.mark.parametrize(
    ("every", "most_paid", "most_servings"),
    [(1, 0, 1), (2, 0, 2), (10, 20, 250), (50, 25, 1_300)],
)
def test_b34_what_a_cheat_is_paid_on_the_mean(
    every: int, most_paid: int, most_servings: int
) -> None:
    random = Random(34)
    runs = [caught_after(every, random) for _ in range(300)]
    servings = sum(n for n, _ in runs) / len(runs)
    paid = sum(n for _, n in runs) / len(runs)
    print(f"one wrong in {every}: caught after {servings:.0f}, {paid:.1f} paid")
    assert paid <= most_paid
    assert servings <= most_servings


def test_b34_an_answer_that_nobody_checked_raises_no_standing() -> None:
    """So standing falls with wrong answers, whatever the rate: they only ever fail."""
    play = Play(zeros, seed=1, every=10**9)
    for _ in range(FIRST):
        play.serve()
    play.every = 1
    play.rig.dispatcher._audits._checks = SpotChecks(
        rate=0.0, newcomer_rate=0.0, first_passes=FIRST
    )
    for _ in range(100):
        play.serve()
    assert play.rig.fleet.workers[peer_id(1)].passes == FIRST


def test_an_honest_worker_is_never_dropped() -> None:
    play = Play(lambda _d, _x, right: right, seed=3)
    for _ in range(2_000):
        play.serve()
    assert not play.is_dropped
    assert len(play.rig.accounts.accepted) == 2_000
    passes = play.rig.fleet.workers[peer_id(1)].passes
    reports = play.rig.dispatcher._parts.reports.take(0.0, bytes(32))
    assert [r.outcome for r in reports] == [CheckOutcome.PASSED]
    assert sum(n for _, n in reports[0].counts) == passes


def test_silence_is_reported_apart() -> None:
    play = Play(zeros, seed=1)
    work = play.rig.work({1: {3: (0,), 4: (0,)}}, n_rows=1)
    play.rig.dispatcher.start(work)
    play.rig.wait(60.0)
    (report,) = play.rig.dispatcher._parts.reports.take(0.0, bytes(32))
    assert report.outcome == CheckOutcome.SILENT
    assert [(e.index, n) for e, n in report.counts] == [(3, 1), (4, 1)]
    assert not play.is_dropped


def test_b32_a_job_that_three_workers_fail_is_on_nobodys_record() -> None:
    rig = DispatchRig({n: {1, 2} for n in range(1, 6)}, hedging=False)
    work = rig.work({1: {1: (0,)}}, n_rows=1)
    rig.dispatcher.start(work)
    for _ in range(3):
        n = next(n for n in range(1, 6) if rig.dispatches(n))
        dispatch = rig.dispatches(n)[-1]
        rig.sent.clear()
        rig.answer(n, dispatch, error=OutputError.BAD_REQUEST)
    assert any(isinstance(reply, ComputeHere) for reply in rig.replies(work))
    assert rig.dispatcher._parts.reports.take(0.0, bytes(32)) == []
    workers = rig.fleet.workers.values()
    assert all(worker.failures == worker.passes == 0 for worker in workers)
