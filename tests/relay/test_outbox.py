"""What leaves to one peer, as it stands on the wire."""

import pytest
from websockets.client import ClientProtocol
from websockets.frames import Frame
from websockets.protocol import State
from websockets.uri import parse_uri

from relay.frame_types import (
    FrameClass,
    Gone,
    GoneReason,
    Nack,
    NackReason,
    Pong,
    Recv,
    Send,
    Status,
    StatusCode,
)
from relay.frames import encode_frame, parse_frame
from relay.keys import PeerId
from relay.outbox import Outbox, websocket_header
from relay.queues import DestinationQueue, LaneCaps, QueueBudget

A = PeerId(b"a" * 32)
B = PeerId(b"b" * 32)


def new_outbox() -> Outbox:
    caps = LaneCaps(control=10**6, interactive=10**6, bulk=10**6)
    return Outbox(DestinationQueue(caps, QueueBudget(max_bytes=10**9)))


def parsed(outbox: Outbox, now: float = 0.0) -> list[object]:
    """Read the batch as a WebSocket client would."""
    wire = b"".join(outbox.take(10**9, now).parts)
    uri = parse_uri("ws://127.0.0.1/relay")
    client = ClientProtocol(uri, state=State.OPEN)
    client.receive_data(wire)
    events = client.events_received()
    assert client.parser_exc is None
    assert all(isinstance(event, Frame) for event in events)
    return [parse_frame(bytes(event.data)) for event in events]


@pytest.mark.parametrize("size", [0, 1, 85, 86, 1000, 65_495, 65_496, 65_535])
def test_a_send_becomes_a_recv_of_the_same_payload(size: int) -> None:
    outbox = new_outbox()
    payload = bytes(range(256)) * 256
    send = Send(
        destination=B,
        payload=payload[:size],
        frame_class=FrameClass.BULK,
        flow=0xDEADBEEF,
        ttl_ms=60_000,
        nack=True,
    )
    outbox.queue.push(A, encode_frame(send), 1.0)
    assert outbox
    [recv] = parsed(outbox, 1.25)
    assert recv == Recv(
        source=A,
        payload=payload[:size],
        frame_class=FrameClass.BULK,
        flow=0xDEADBEEF,
        age_ms=250,
        nack=True,
    )
    assert not outbox


@pytest.mark.parametrize(
    ("size", "header"),
    [
        (0, "8200"),
        (125, "827d"),
        (126, "827e007e"),
        (65535, "827effff"),
        (65536, "827f0000000000010000"),
    ],
)
def test_websocket_headers(size: int, header: str) -> None:
    assert websocket_header(size).hex() == header


def test_nacks_are_counted_together_and_none_is_lost() -> None:
    outbox = new_outbox()
    for _ in range(70_000):
        outbox.nack(A, NackReason.QUEUE_FULL, 7)
    outbox.nack(A, NackReason.QUEUE_FULL, 8)
    outbox.nack(A, NackReason.EXPIRED, 7)
    nacks = parsed(outbox)
    assert [(nack.flow, nack.reason.name, nack.count) for nack in nacks] == [
        (7, "QUEUE_FULL", 65_535),
        (7, "QUEUE_FULL", 4465),
        (8, "QUEUE_FULL", 1),
        (7, "EXPIRED", 1),
    ]
    assert all(isinstance(nack, Nack) and nack.destination == A for nack in nacks)
    assert not outbox


def test_gone_is_told_at_most_twenty_times_a_second() -> None:
    outbox = new_outbox()
    for number in range(50):
        outbox.gone(PeerId(bytes([number]) * 32), GoneReason.SILENT)
    assert len(parsed(outbox, 0.0)) == 20
    assert outbox.has_gone
    assert len(parsed(outbox, 0.5)) == 10
    assert len(parsed(outbox, 60.0)) == 20
    assert not outbox.has_gone


def test_notices_leave_before_frames_and_only_the_last_pong() -> None:
    outbox = new_outbox()
    send = Send(
        destination=B,
        payload=b"",
        frame_class=FrameClass.CONTROL,
        flow=0,
        ttl_ms=0,
        nack=False,
    )
    outbox.queue.push(A, encode_frame(send), 0.0)
    outbox.notice(encode_frame(Status(code=StatusCode.SLOW, text="x")))
    outbox.gone(B, GoneReason.SLOW)
    outbox.pong(encode_frame(Pong(nonce=b"1" * 8)))
    outbox.pong(encode_frame(Pong(nonce=b"2" * 8)))
    kinds = parsed(outbox)
    assert [type(frame) for frame in kinds] == [Pong, Gone, Status, Recv]
    assert kinds[0] == Pong(nonce=b"2" * 8)


def test_a_gone_comes_behind_the_last_frames_of_its_peer() -> None:
    outbox = new_outbox()
    send = Send(
        destination=B,
        payload=b"last words",
        frame_class=FrameClass.BULK,
        flow=0,
        ttl_ms=0,
        nack=False,
    )
    outbox.queue.push(A, encode_frame(send), 0.0)
    outbox.gone(A, GoneReason.DISCONNECTED)
    assert [type(frame) for frame in parsed(outbox)] == [Recv]
    assert [type(frame) for frame in parsed(outbox)] == [Gone]


def test_a_gone_can_be_taken_back() -> None:
    outbox = new_outbox()
    outbox.gone(A, GoneReason.SLOW)
    outbox.forget_gone(A)
    outbox.forget_gone(B)
    assert not outbox


def test_a_peer_that_lets_notices_pile_up_is_overrun() -> None:
    outbox = new_outbox()
    for flow in range(4096):
        outbox.nack(A, NackReason.NOT_HERE, flow)
    assert not outbox.is_overrun
    outbox.nack(A, NackReason.NOT_HERE, 4096)
    assert outbox.is_overrun


def test_a_batch_tells_how_long_its_first_frame_has_waited() -> None:
    outbox = new_outbox()
    send = Send(
        destination=B,
        payload=b"x",
        frame_class=FrameClass.BULK,
        flow=1,
        ttl_ms=0,
        nack=False,
    )
    outbox.queue.push(A, encode_frame(send), 10.0)
    outbox.queue.push(A, encode_frame(send), 10.2)
    assert outbox.take(1000, 10.25).age_ms == 250
    assert outbox.take(1000, 11.0).age_ms == 0
