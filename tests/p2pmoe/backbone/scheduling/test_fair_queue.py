"""Turns: equal shares between clients, arrival order within, nobody fills the queue."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.backbone.scheduling.fair_queue import FairQueue
from p2pmoe.backbone.scheduling.sequence import SequenceState
from p2pmoe.backbone.trace import RequestTrace
from tests.support.lanes import a_request


def sequence(client: str, number: int) -> SequenceState:
    return SequenceState(
        request=a_request([1], client=client),
        trace=RequestTrace(),
        submitted=0.0,
        deadline=1.0,
        number=number,
    )


def filled(max_waiting: int, clients: str) -> FairQueue:
    queue = FairQueue(max_waiting)
    for number, client in enumerate(clients):
        queue.push(sequence(client, number))
    return queue


def take(queue: FairQueue) -> SequenceState:
    found = queue.peek()
    assert found is not None
    assert queue.remove(found)
    return found


def test_one_client_is_served_in_arrival_order() -> None:
    queue = filled(9, "aaaa")
    assert [take(queue).number for _ in range(4)] == [0, 1, 2, 3]
    assert queue.peek() is None


def test_whoever_was_served_least_is_next() -> None:
    queue = filled(9, "aaab")
    order = []
    for _ in range(4):
        found = take(queue)
        queue.runs(found.request.client)
        queue.charge(found.request.client, 10)
        order.append(found.number)
    assert order == [0, 3, 1, 2]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 50)), min_size=30))
def test_clients_that_always_wait_get_equal_shares(costs: list) -> None:
    """However many each has, counts differ by no more than the largest turn."""
    queue = filled(1000, "a" * 300 + "b" * 20 + "c" * 20)
    served: Counter[str] = Counter()
    for _, cost in costs[:20]:
        client = take(queue).request.client
        queue.charge(client, cost)
        served[client] += cost
        most = max(cost for _, cost in costs[:20])
        assert max(served.values()) - min(served[c] for c in "abc") <= 2 * most


def test_having_been_away_earns_nothing() -> None:
    queue = filled(99, "aa")
    queue.charge("a", 1000)
    queue.push(sequence("b", 5))
    assert queue.served("b") == 1000


def test_leaving_does_not_clear_a_debt() -> None:
    queue = filled(99, "ab")
    queue.charge("a", 1000)
    queue.remove(next(s for s in queue if s.request.client == "a"))
    queue.push(sequence("a", 7))
    assert queue.served("a") == 1000
    assert take(queue).request.client == "b"


def test_counts_of_absent_clients_are_bounded() -> None:
    queue = FairQueue(9)
    for i in range(5000):
        own = sequence(f"client {i}", i)
        queue.push(own)
        queue.remove(own)
        queue.runs(f"client {i}")
        queue.charge(f"client {i}", 3)
        queue.stops(f"client {i}")
    assert len(queue._served) <= 1025
    assert not queue._n_running


def test_preempted_ones_are_first_and_the_oldest_of_them() -> None:
    queue = filled(9, "ab")
    queue.push_first(sequence("c", 12))
    queue.push_first(sequence("c", 10))
    assert [take(queue).number for _ in range(4)] == [10, 12, 0, 1]


def test_a_full_queue_refuses_the_greedy_and_makes_place_for_others() -> None:
    queue = filled(4, "aaaa")
    newcomer = sequence("a", 9)
    assert queue.push(newcomer) is newcomer
    leaving = queue.push(sequence("b", 10))
    assert leaving is not None
    assert leaving.number == 3  # the newest of the client with most
    assert queue.push(sequence("b", 11)) is not None
    assert Counter(s.request.client for s in queue) == {"a": 2, "b": 2}
    last = sequence("b", 12)
    assert queue.push(last) is last
    assert queue.push(sequence("c", 13)) is not None
    assert len(queue) == 4


def test_slots_that_are_free_do_not_count() -> None:
    queue = filled(1, "a")
    assert queue.push(sequence("a", 1), 1) is None
    refused = sequence("a", 2)
    assert queue.push(refused, 1) is refused


def test_removing_what_is_not_there() -> None:
    queue = filled(3, "a")
    assert not queue.remove(sequence("a", 0))
    assert not queue.remove(sequence("b", 0))
    assert len(queue) == 1
