"""The queue of dispatches."""

from dataclasses import replace

from mobile_worker.expert_id import ExpertId
from mobile_worker.messages.serving import CodedTensor, Dispatch
from mobile_worker.serve.jobs import MERGED_MACS, Job, JobQueue
from mobile_worker.servings.exposure import Exposure
from mobile_worker.servings.tab import Reservation, Tab
from relay.keys import PeerId
from tests.support.money import NOW_US, Money, dispatch_of
from tests.support.small_model import small_model

PEER, OTHER = PeerId(b"p" * 32), PeerId(b"o" * 32)
MONEY = Money()
TAB = Tab(MONEY.terms(), Exposure())
WEIGHTS = [small_model().held()[1].weights[ExpertId(1, e)] for e in range(4)]
TAB.allow(MONEY.allowance(MONEY.prices(), float_leaves=1000))


def job(first: int, rows: int = 1, received_at: float = 0.0) -> Job:
    dispatch = dispatch_of(first, rows=rows)
    taken = TAB.admit(dispatch, NOW_US)
    assert isinstance(taken, Reservation)
    return Job(
        peer=PEER,
        dispatch=dispatch,
        weights=(),
        tab=TAB,
        taken=taken,
        received_at=received_at,
    )


def test_first_come_first_served() -> None:
    queue = JobQueue()
    jobs = [job(first) for first in range(3)]
    for each in jobs:
        queue.push(each)
    assert len(queue) == 3
    assert [queue.pop() for _ in range(4)] == [*jobs, None]


def test_full_by_number_and_by_bytes() -> None:
    queue = JobQueue(max_jobs=2, max_bytes=1000)
    queue.push(job(10))
    assert not queue.is_full
    queue.push(job(11))
    assert queue.is_full
    queue.pop()
    assert not queue.is_full
    queue.push(job(12, rows=30))
    assert queue.is_full


def test_row_indices_count_as_bytes() -> None:
    one, many = job(100).n_bytes, job(101, rows=30).n_bytes
    assert many >= 30 * one
    assert one > 32


def test_only_what_waits_can_be_cancelled() -> None:
    queue = JobQueue(max_bytes=40)
    one = job(20)
    queue.push(one)
    assert queue.cancel(OTHER, one.dispatch.request) is None
    assert queue.cancel(PEER, one.dispatch.request + 1) is None
    assert queue.cancel(PEER, one.dispatch.request) is one
    assert queue.cancel(PEER, one.dispatch.request) is None
    assert not queue.is_full
    assert queue.pop() is None


def asking(first: int, experts: tuple[int, ...], rows: int = 1) -> Job:
    weights = [WEIGHTS[expert] for expert in experts]
    one = job(first, rows)
    calls = tuple(replace(one.dispatch.calls[0], index=e) for e in experts)
    dispatch = replace(one.dispatch, calls=calls)
    n_macs = MERGED_MACS * rows * len(calls)
    return replace(one, weights=weights, dispatch=dispatch, n_macs=n_macs)


def test_small_experts_go_one_by_one() -> None:
    queue = JobQueue()
    jobs = [replace(own, n_macs=own.n_macs - 1) for own in (asking(400, (0,)),) * 2]
    for each in jobs:
        queue.push(each)
    assert [queue.pop_together() for _ in range(2)] == [[jobs[0]], [jobs[1]]]


def test_with_the_oldest_go_those_that_ask_for_its_experts() -> None:
    queue = JobQueue()
    jobs = [
        asking(200, (0, 1)),
        asking(210, (2,)),
        asking(220, (1, 3)),
        asking(230, (0,), rows=70),  # large: it is cheap enough by itself
        asking(240, (3,)),
        asking(250, (0,), rows=30),
        asking(260, (1,), rows=40),  # one too many beside the others
    ]
    for each in jobs:
        queue.push(each)
    taken = [queue.pop_together() for _ in range(6)]
    places = [[jobs.index(each) for each in own] for own in taken]
    assert places == [[0, 2, 4, 5], [1], [3], [6], [], []]  # 4 by way of 2
    assert len(queue) == 0
    assert not queue.is_full


def test_rows_that_no_expert_gets_hold_up_nobody_elses() -> None:
    queue = JobQueue()
    padded = asking(500, (0,))
    padded = replace(padded, dispatch=with_more_rows(padded.dispatch, 64))
    jobs = [asking(510, (0,)), padded, asking(520, (0,)), padded, asking(530, (0,))]
    for each in jobs:
        queue.push(each)
    taken = [queue.pop_together() for _ in range(3)]
    assert taken == [[jobs[0], jobs[2], jobs[4]], [padded], [padded]]


def with_more_rows(dispatch: Dispatch, n_rows: int) -> Dispatch:
    assert dispatch.coded is not None
    times = n_rows // dispatch.n_rows
    coded = CodedTensor(
        codes=dispatch.coded.codes * times, scales=dispatch.coded.scales * times
    )
    return replace(dispatch, coded=coded, n_rows=n_rows)


def test_what_went_with_another_cannot_be_cancelled() -> None:
    queue = JobQueue(max_bytes=1)
    one, other = asking(300, (0,)), asking(310, (0,))
    queue.push(one)
    queue.push(other)
    assert queue.pop_together() == [one, other]
    assert queue.cancel(PEER, other.dispatch.request) is None
    assert not queue.is_full


def test_b28_a_deadline_counts_from_receipt() -> None:
    waiting = job(30, received_at=100.0)
    assert not waiting.is_overdue(105.0)
    assert waiting.is_overdue(105.01)
