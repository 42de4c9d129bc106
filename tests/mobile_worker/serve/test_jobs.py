"""The queue of dispatches."""

from mobile_worker.serve.jobs import Job, JobQueue
from mobile_worker.servings.exposure import Exposure
from mobile_worker.servings.tab import Reservation, Tab
from relay.keys import PeerId
from tests.support.money import NOW_US, Money, dispatch_of

PEER, OTHER = PeerId(b"p" * 32), PeerId(b"o" * 32)
MONEY = Money()
TAB = Tab(MONEY.terms(), Exposure())
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


def test_b28_a_deadline_counts_from_receipt() -> None:
    waiting = job(30, received_at=100.0)
    assert not waiting.is_overdue(105.0)
    assert waiting.is_overdue(105.01)
