"""Queue policy: shares, shedding, classes, ages, and that nothing vanishes."""

import heapq
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relay.frame_types import FrameClass, NackReason, Send
from relay.frames import encode_frame
from relay.keys import PeerId
from relay.queues import BulkShare, DestinationQueue, LaneCaps, QueueBudget, Shed

TARGET = PeerId(b"t" * 32)
CONTROL, INTERACTIVE, BULK = FrameClass
KIB = 1024


def source(number: int) -> PeerId:
    return PeerId(number.to_bytes(32, "big"))


def message(
    size: int, frame_class: FrameClass = INTERACTIVE, *, flow: int = 0, ttl_ms: int = 0
) -> bytes:
    return encode_frame(
        Send(
            destination=TARGET,
            payload=bytes(size - 40),
            frame_class=frame_class,
            flow=flow,
            ttl_ms=ttl_ms,
            nack=True,
        )
    )


def new_queue(budget: QueueBudget | None = None) -> DestinationQueue:
    caps = LaneCaps(control=64 * KIB, interactive=256 * KIB, bulk=256 * KIB)
    return DestinationQueue(caps, budget or QueueBudget(max_bytes=10**9))


def flows(frames: list) -> list[int]:
    return [int.from_bytes(frame.message[4:8], "big") for frame in frames]


def test_frames_leave_in_order_with_their_age() -> None:
    queue = new_queue()
    queue.push(source(1), message(100, flow=1), 10.0)
    queue.push(source(1), message(100, flow=2), 10.5)
    due, expired = queue.take(64 * KIB, 11.0)
    assert flows(due) == [1, 2]
    assert [frame.age_ms for frame in due] == [1000, 500]
    assert not expired
    assert queue.n_bytes == 0


def test_a_lone_source_may_fill_the_lane_and_sheds_its_oldest() -> None:
    queue = new_queue()
    shed: list[Shed] = []
    for flow in range(40):
        shed += queue.push(source(1), message(8 * KIB, flow=flow), 0.0) or []
    assert queue.waiting(INTERACTIVE) == 256 * KIB
    assert flows(shed) == list(range(8))
    assert {one.reason for one in shed} == {NackReason.QUEUE_FULL}


def test_caps_may_change_while_frames_wait() -> None:
    queue = new_queue()
    for flow in range(10):
        assert queue.push(source(1), message(10 * KIB, flow=flow), 0.0) is None
    queue.change_caps(LaneCaps(control=KIB, interactive=50 * KIB, bulk=KIB))
    assert queue.n_bytes == 100 * KIB
    shed = queue.push(source(1), message(10 * KIB, flow=10), 0.0)
    assert shed is not None
    assert flows(shed) == [0, 1, 2, 3, 4, 5]
    assert queue.n_bytes == 50 * KIB


def test_beside_others_a_source_keeps_to_a_quarter() -> None:
    queue = new_queue()
    queue.push(source(2), message(1 * KIB), 0.0)
    shed: list[Shed] = []
    for flow in range(20):
        shed += queue.push(source(1), message(8 * KIB, flow=flow), 0.0) or []
    assert {one.source for one in shed} == {source(1)}
    assert flows(shed) == list(range(12))
    assert queue.waiting(INTERACTIVE) == 65 * KIB


def test_a_full_lane_sheds_the_oldest_of_the_fattest() -> None:
    queue = new_queue()
    for flow in range(32):
        queue.push(source(1), message(8 * KIB, flow=flow), 0.0)
    shed = queue.push(source(2), message(8 * KIB), 0.0)
    assert shed is not None
    assert [one.source for one in shed] == [source(1)]
    assert flows(shed) == [0]


def test_the_only_frame_of_a_lane_is_never_shed() -> None:
    queue = new_queue()
    assert queue.push(source(1), message(65_575, CONTROL), 0.0) is None
    assert queue.waiting(CONTROL) == 65_575


def test_control_leaves_first() -> None:
    queue = new_queue()
    for flow, frame_class in enumerate((BULK, INTERACTIVE, CONTROL)):
        queue.push(source(1), message(100, frame_class, flow=flow), 0.0)
    assert flows(queue.take(64 * KIB, 0.0)[0]) == [2, 1, 0]


def test_bulk_gets_a_tenth_beside_interactive() -> None:
    queue = new_queue()
    for _ in range(200):
        queue.push(source(1), message(1 * KIB), 0.0)
        queue.push(source(1), message(1 * KIB, BULK), 0.0)
    due, _ = queue.take(100 * KIB, 0.0)
    kinds = Counter(frame.message[1] & 3 for frame in due)
    assert kinds == {INTERACTIVE: 90, BULK: 10}


def test_bulk_share_forgets_when_nobody_competes() -> None:
    share = BulkShare()
    share.add(900)
    assert share.is_due(100)
    assert not share.is_due(1)
    share.add(900)
    share.rest()
    assert not share.is_due(1)


def test_sources_get_equal_bytes_whatever_their_frames_size() -> None:
    queue = new_queue()
    for _ in range(60):
        queue.push(source(1), message(1 * KIB), 0.0)
    for _ in range(7):
        queue.push(source(2), message(8 * KIB), 0.0)
    due, _ = queue.take(96 * KIB, 0.0)
    sent = Counter()
    for frame in due:
        sent[frame.source] += len(frame.message)
    assert abs(sent[source(1)] - sent[source(2)]) <= 9 * KIB


def test_fifty_sources_at_one_destination_are_served_fairly() -> None:
    queue = new_queue()
    sent: Counter[PeerId] = Counter()
    for _ in range(400):
        for number in range(50):
            for _ in range(1 + number % 3):
                queue.push(source(number), message(2 * KIB), 0.0)
        for frame in queue.take(64 * KIB, 0.0)[0]:
            sent[frame.source] += len(frame.message)
    shares = [sent[source(number)] for number in range(50)]
    jain = sum(shares) ** 2 / (50 * sum(share**2 for share in shares))
    assert jain >= 0.95


@pytest.mark.parametrize("sizes", [(8 * KIB,), (1 * KIB, 8 * KIB)])
def test_eager_sources_and_small_frames_push_nobody_out(sizes: tuple[int, ...]) -> None:
    """Fifty frames of 8 KiB are more than the lane: who is shed must take turns.

    Each source offers two to six times its part of a megabyte a second, evenly.
    """
    queue, n, sent = new_queue(), 50, Counter[PeerId]()
    frames = [message(sizes[number % len(sizes)]) for number in range(n)]
    every_s = [
        len(frame) * n / 1e6 / (2 + number % 5) for number, frame in enumerate(frames)
    ]
    events = [(every_s[number] * number / n, number) for number in range(n)]
    events.append((0.0, -1))  # the reader
    heapq.heapify(events)
    now = 0.0
    while now < 6.0:
        now, number = heapq.heappop(events)
        if number >= 0:
            queue.push(source(number), frames[number], now)
            heapq.heappush(events, (now + every_s[number], number))
            continue
        size = 0
        for frame in queue.take(64 * KIB, now)[0]:
            size += len(frame.message)
            if now > 1.0:
                sent[frame.source] += len(frame.message)
        heapq.heappush(events, (now + max(size, 1000) / 1e6, -1))
    shares = [sent[source(number)] for number in range(n)]
    assert sum(shares) ** 2 / (n * sum(share**2 for share in shares)) >= 0.95


def test_what_a_source_was_served_is_forgotten_with_the_crowd() -> None:
    queue = new_queue()
    for number in range(60):
        queue.push(source(number % 6), message(8 * KIB), 0.0)
    lane = queue._lanes[INTERACTIVE]
    assert lane.served == {}
    queue.take(64 * KIB, 0.0)
    assert sum(lane.served.values()) >= 64 * KIB
    queue.take(10**9, 0.0)
    assert lane.served is None


def test_a_frame_too_old_is_shed_when_its_turn_comes() -> None:
    queue = new_queue()
    queue.push(source(1), message(100, flow=1, ttl_ms=500), 0.0)
    queue.push(source(1), message(100, flow=2, ttl_ms=0), 0.0)  # 0: 2 s
    queue.push(source(1), message(100, flow=3, ttl_ms=65_535), 0.0)  # at most 60 s
    due, expired = queue.take(64 * KIB, 1.0)
    assert flows(due) == [2, 3]
    assert flows(expired) == [1]
    assert expired[0].reason is NackReason.EXPIRED
    queue.push(source(1), message(100, flow=4, ttl_ms=65_535), 0.0)
    assert flows(queue.take(64 * KIB, 60.5)[1]) == [4]


def test_a_tight_budget_halves_the_caps_and_an_empty_one_takes_nothing() -> None:
    budget = QueueBudget(max_bytes=150 * KIB)
    queue = new_queue(budget)
    for flow in range(16):
        assert not queue.push(source(1), message(8 * KIB, flow=flow), 0.0)
    assert budget.is_tight
    assert queue.push(source(1), message(8 * KIB), 0.0)
    assert queue.waiting(INTERACTIVE) <= 128 * KIB
    other = new_queue(budget)
    shed = other.push(source(1), message(60 * KIB), 0.0)
    assert shed is not None
    assert len(shed) == 1
    assert other.n_bytes == 0


def test_what_waits_is_given_back_when_the_destination_is_gone() -> None:
    budget = QueueBudget(max_bytes=10**6)
    queue = new_queue(budget)
    for frame_class in FrameClass:
        queue.push(source(1), message(100, frame_class), 0.0)
    shed = queue.empty()
    assert [one.reason for one in shed] == [NackReason.GONE] * 3
    assert queue.n_bytes == budget.n_bytes == 0


pushes = st.tuples(
    st.integers(0, 3), st.sampled_from(FrameClass), st.integers(40, 65_575)
)


@settings(max_examples=200)
@given(st.lists(st.one_of(pushes, st.integers(1, 200_000)), max_size=60))
def test_conservation(steps: list) -> None:
    """Every frame pushed is taken, shed or still waiting: exactly once."""
    budget = QueueBudget(max_bytes=400 * KIB)
    queue = new_queue(budget)
    pushed: list[bytes] = []
    settled: list[bytes] = []
    for number, step in enumerate(steps):
        if isinstance(step, int):
            due, expired = queue.take(step, number * 0.3)
            settled += [frame.message for frame in due + expired]
        else:
            sender, frame_class, size = step
            frame = message(size, frame_class, flow=number)
            pushed.append(frame)
            shed = queue.push(source(sender), frame, number * 0.3)
            settled += [one.message for one in shed or []]
        assert queue.n_bytes == budget.n_bytes <= 400 * KIB
        assert queue.n_bytes == sum(queue.waiting(each) for each in FrameClass)
    settled += [one.message for one in queue.empty()]
    assert Counter(settled) == Counter(pushed)
    assert budget.n_bytes == 0


@pytest.mark.parametrize("max_bytes", [1, 100, 10**6])
def test_take_gives_at_least_one_frame(max_bytes: int) -> None:
    queue = new_queue()
    queue.push(source(1), message(5000), 0.0)
    assert len(queue.take(max_bytes, 0.0)[0]) == 1
