"""Cutting and assembling: order, precedence, bounds."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mobile_worker.errors import ProtocolBreach, SendQueueFull
from mobile_worker.messages.classes import MessageClass
from mobile_worker.messages.envelope import MAX_MESSAGE_BYTES
from mobile_worker.session.flow import Flow
from mobile_worker.session.packets import (
    MAX_BULK_PIECE_BYTES,
    MAX_PIECE_BYTES,
    PIECE_HEAD,
    STREAM_HEAD,
    FrameKind,
)
from mobile_worker.session.pieces import (
    MAX_QUEUED_BYTES,
    Assembly,
    Outbox,
    Piece,
    Shelf,
    Waiting,
)

BULK = MessageClass.BULK


def wide_flow() -> Flow:
    flow = Flow()
    for sending in flow.sending:
        sending.limit = 1 << 40
    return flow


def frames_of(outbox: Outbox, flow: Flow) -> list[bytes]:
    found = []
    while (cut := outbox.next_frame(flow)) is not None:
        found.append(cut[1])
    return found


def piece_of(frame: bytes) -> Piece:
    _, message_class, _, number, total, at = PIECE_HEAD.unpack_from(frame)
    content = memoryview(frame)[PIECE_HEAD.size :]
    return Piece(MessageClass(message_class), number, total, at, content)


@given(st.integers(1, 400_000), st.sampled_from(MessageClass), st.randoms())
def test_a_message_comes_together_in_any_order(n, message_class, rng):
    message = random.Random(n).randbytes(n)
    outbox, assembly = Outbox(), Assembly()
    outbox.add(message, message_class)
    frames = frames_of(outbox, wide_flow())
    largest = MAX_BULK_PIECE_BYTES if message_class is BULK else MAX_PIECE_BYTES
    assert outbox.n_bytes == 0
    if len(frames) == 1:
        assert frames[0][0] == FrameKind.WHOLE
        assert frames[0][STREAM_HEAD.size :] == message
        return
    rng.shuffle(frames)
    results = [assembly.add(piece_of(frame)) for frame in frames]
    assert results[-1] == message
    assert results[:-1] == [None] * (len(frames) - 1)
    assert max(map(len, frames)) <= largest + PIECE_HEAD.size


def test_control_goes_before_work_and_work_before_bulk():
    outbox, flow = Outbox(), wide_flow()
    outbox.add(bytes(40_000), BULK)
    assert outbox.next_frame(flow)[0] is BULK
    outbox.add(b"work", MessageClass.INTERACTIVE)
    outbox.add(b"word", MessageClass.CONTROL)
    order = [outbox.next_frame(flow)[0] for _ in range(4)]
    assert order == [MessageClass.CONTROL, MessageClass.INTERACTIVE, BULK, BULK]
    assert outbox.next_frame(flow) is None


def test_without_credit_nothing_goes_and_other_classes_pass():
    outbox, flow = Outbox(), Flow()
    flow.sending[BULK].limit = 20_000
    outbox.add(bytes(30_000), BULK)
    outbox.add(b"word", MessageClass.CONTROL)
    frames = frames_of(outbox, flow)
    assert [len(f) for f in frames[1:]] == [
        MAX_BULK_PIECE_BYTES + PIECE_HEAD.size,
        4_000 + PIECE_HEAD.size,
    ]
    assert outbox.blocked(flow) == [BULK]
    flow.sending[BULK].limit += 1023  # too little to be worth a piece
    assert outbox.next_frame(flow) is None
    flow.sending[BULK].limit += 10_000
    assert len(frames_of(outbox, flow)) == 1
    assert outbox.blocked(flow) == []
    assert len(outbox) == 0


def test_the_queue_is_bounded_and_can_be_cleared():
    outbox = Outbox()
    big = bytes(MAX_QUEUED_BYTES // 2)
    outbox.add(big, BULK)
    outbox.add(big, BULK)
    with pytest.raises(SendQueueFull):
        outbox.add(b"x", MessageClass.CONTROL)
    assert outbox.clear() == 2
    outbox.add(b"x", MessageClass.CONTROL)


def test_a_message_with_a_lost_piece_makes_room_for_later_ones():
    outbox, flow, assembly = Outbox(), wide_flow(), Assembly()
    messages = [bytes([i]) * 40_000 for i in range(4)]
    for message in messages:
        outbox.add(message, BULK)
    frames = frames_of(outbox, flow)
    kept = [f for i, f in enumerate(frames) if i not in (1, 4)]
    results = [assembly.add(piece_of(frame)) for frame in kept]
    assert [r for r in results if r is not None] == messages[2:]


@pytest.mark.parametrize(
    ("number", "total", "offset", "n"),
    [
        (0, 100, 0, 101),
        (0, 100, 60, 41),
        (0, MAX_MESSAGE_BYTES + 1, 0, 2000),
        (0, 4000, 0, 1023),
        (0, 4000, 0, 0),
        (0, 0, 0, 0),
    ],
)
def test_b25_pieces_that_break_their_bounds(number, total, offset, n):
    with pytest.raises(ProtocolBreach):
        Assembly().add(Piece(BULK, number, total, offset, memoryview(bytes(n))))


def test_b25_pieces_that_contradict_each_other():
    def add(*pieces):
        assembly = Assembly()
        for total, offset, n in pieces:
            assembly.add(Piece(BULK, 0, total, offset, memoryview(bytes(n))))

    for pieces in (
        [(4000, 0, 2000), (5000, 2000, 2000)],
        [(4000, 0, 2000), (4000, 0, 2000)],
        [(4000, 0, 2000), (4000, 1500, 2000)],
        [(4000, 0, 3000), (4000, 1500, 1500)],
    ):
        with pytest.raises(ProtocolBreach):
            add(*pieces)


def test_a_forgotten_message_is_gone():
    assembly = Assembly()
    assembly.add(Piece(BULK, 0, 4000, 0, memoryview(bytes(2000))))
    assembly.clear()
    assert assembly.add(Piece(BULK, 0, 4000, 2000, memoryview(bytes(2000)))) is None


def piece(number: int, at: int, n: int, total: int = MAX_MESSAGE_BYTES) -> Piece:
    return Piece(BULK, number, total, at, memoryview(bytes(n)))


def test_what_all_peers_leave_unfinished_is_bounded():
    shelf = Shelf(max_bytes=100_000)
    peers = [Assembly(shelf) for _ in range(200)]
    for number, assembly in enumerate(peers):
        for at in range(0, 20_000, 10_000):
            assert assembly.add(piece(number, at, 10_000)) is None
            assert shelf.n_bytes <= 100_000
    peers[-1].clear()
    assert shelf.n_bytes == 80_000


def test_a_message_that_goes_on_outlives_those_that_stand_still():
    shelf = Shelf(max_bytes=100_000)
    honest = Assembly(shelf)
    whole = None
    for at in range(0, 40_000, 2000):
        whole = honest.add(piece(1, at, 2000, 40_000))
        for number in range(3):
            assert Assembly(shelf).add(piece(number, 0, 10_000)) is None
    assert whole == bytes(40_000)
    assert shelf.n_bytes <= 60_000 + 90_000


def test_a_message_as_large_as_the_shelf_comes_together():
    shelf = Shelf(max_bytes=1000)
    assembly = Assembly(shelf)
    assert assembly.add(piece(1, 0, 2000, 4000)) is None
    assert assembly.add(piece(1, 2000, 2000, 4000)) == bytes(4000)
    assert shelf.n_bytes == 0
    assembly.add(piece(2, 0, 2000))
    with pytest.raises(ProtocolBreach):
        assembly.add(piece(2, 0, 2000))
    assert shelf.n_bytes == 0


def test_peers_that_take_nothing_share_the_room():
    waiting = Waiting(max_bytes=1_000_000)
    outboxes = [Outbox(waiting) for _ in range(10)]
    for outbox in outboxes[:9]:
        while outbox.n_bytes < waiting.limit(10_000) - 10_000:
            outbox.add(bytes(10_000), BULK)
        with pytest.raises(SendQueueFull):
            outbox.add(bytes(waiting.max_bytes // 2), BULK)
    assert waiting.n_peers == 9
    assert waiting.n_bytes < 3_000_000
    outboxes[9].add(bytes(60_000), MessageClass.INTERACTIVE)  # a share is left
    for outbox in outboxes:
        outbox.clear()
    assert (waiting.n_bytes, waiting.n_peers) == (0, 0)
