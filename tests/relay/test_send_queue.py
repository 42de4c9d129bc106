"""What a peer has yet to send."""

from dataclasses import replace

import pytest

from relay.errors import FrameRefused, PayloadTooLarge, SendQueueFull
from relay.frame_types import FrameClass, NackReason, Send
from relay.frames import parse_frame
from relay.keys import PeerId
from relay.send_queue import SendQueue

FRAME = Send(
    destination=PeerId(b"d" * 32),
    payload=bytes(960),
    frame_class=FrameClass.INTERACTIVE,
    flow=1,
    ttl_ms=1000,
    nack=True,
)


def test_frames_leave_in_order_control_first() -> None:
    queue = SendQueue(10_000)
    queue.put(replace(FRAME, frame_class=FrameClass.BULK, flow=3), 0.0)
    queue.put(replace(FRAME, flow=1), 0.0)
    queue.put(replace(FRAME, frame_class=FrameClass.CONTROL, flow=2), 0.0)
    taken = queue.take(10_000, 0.0)
    assert [parse_frame(raw).flow for raw in taken.frames] == [2, 1, 3]
    assert not queue


def test_bulk_gets_a_tenth() -> None:
    queue = SendQueue(10**6)
    for _ in range(100):
        queue.put(FRAME, 0.0)
        queue.put(replace(FRAME, frame_class=FrameClass.BULK), 0.0)
    kinds = [parse_frame(raw).frame_class for raw in queue.take(50_000, 0.0).frames]
    assert kinds.count(FrameClass.BULK) == 5


def test_a_full_queue_refuses_and_keeps_room_for_control() -> None:
    queue = SendQueue(2000)
    queue.put(FRAME, 0.0)
    assert not queue.is_low
    queue.put(FRAME, 0.0)
    with pytest.raises(SendQueueFull, match="2000 bytes"):
        queue.put(FRAME, 0.0)
    queue.put(replace(FRAME, frame_class=FrameClass.CONTROL), 0.0)
    assert queue.n_bytes == 3000
    queue.take(10_000, 0.0)
    assert queue.is_low


def test_a_frame_that_outlived_its_time_is_reported() -> None:
    queue = SendQueue(10_000)
    queue.put(FRAME, 0.0)
    queue.put(replace(FRAME, ttl_ms=5000, flow=2), 0.0)
    taken = queue.take(10_000, 1.5)
    assert [parse_frame(raw).ttl_ms for raw in taken.frames] == [3500]
    [nacked] = taken.expired
    assert nacked.reason is NackReason.EXPIRED
    assert nacked.flow == 1


def test_frames_out_of_range_are_refused() -> None:
    queue = SendQueue(10**6)
    for bad in (
        replace(FRAME, destination=PeerId(b"short")),
        replace(FRAME, flow=2**32),
        replace(FRAME, flow=-1),
        replace(FRAME, ttl_ms=0),
        replace(FRAME, ttl_ms=60_001),
    ):
        with pytest.raises(FrameRefused):
            queue.put(bad, 0.0)
    with pytest.raises(PayloadTooLarge, match="65536"):
        queue.put(replace(FRAME, payload=bytes(65_536)), 0.0)
    queue.put(replace(FRAME, payload=bytes(65_535)), 0.0)
