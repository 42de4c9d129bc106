import heapq
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.market import rank_queue
from p2pmoe.market.rank_queue import RankQueue


def test_an_empty_queue_has_no_first() -> None:
    queue: RankQueue[tuple[float, int]] = RankQueue()
    assert queue.top() is None
    assert queue.pop() is None
    queue.push((1.0, 1))
    assert (queue.pop(), len(queue), queue.top()) == ((1.0, 1), 0, None)


@given(
    st.integers(0, 2**32), st.sampled_from([1, 1000, 10**6]), st.sampled_from([4, 1024])
)
def test_the_order_is_that_of_one_heap(seed: int, steps: int, beside: int) -> None:
    """Urgencies that are coarse lie together in a bucket, fine ones apart."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rank_queue, "_MOST_BESIDE", beside)
        _compare_with_a_heap(random.Random(seed), steps)


def _compare_with_a_heap(rng: random.Random, steps: int) -> None:
    heap: list[tuple[float, int]] = []
    queue = RankQueue(heap)
    for number in range(300):
        if heap and rng.random() < 0.45:
            assert queue.top() == heap[0]
            popped = heapq.heappop(heap)
            assert queue.pop() == popped
            if rng.random() < 0.2:  # looked at and given back
                heapq.heappush(heap, popped)
                queue.push(popped)
        else:
            entry = (rng.randrange(4 * steps) / steps, number)
            heapq.heappush(heap, entry)
            queue.push(entry)
        assert len(queue) == len(heap)
    while heap:
        assert queue.pop() == heapq.heappop(heap)
    assert queue.top() is None
