"""The inbox: order, bounds, and the end."""

import pytest
import trio
import trio.testing

from relay.errors import ConnectionLost, ProtocolError
from relay.events import (
    Nacked,
    PeerGone,
    PeerPresence,
    PeersSeenFrom,
    Received,
    RelayLimits,
    RelayRestarting,
    RelayStatus,
)
from relay.frame_types import (
    FrameClass,
    Gone,
    GoneReason,
    Nack,
    NackReason,
    Ping,
    Pong,
    Presence,
    PresenceState,
    Recv,
    Restarting,
    SeenFrom,
    Status,
    StatusCode,
)
from relay.frames import encode_frame
from relay.incoming import Inbox
from relay.limits import limits_of
from relay.tokens import RateClass
from tests.support.relays import key
from tests.support.trio_test import trio_test

A = key(1).peer_id


def recv(payload: bytes = b"payload") -> bytes:
    return encode_frame(
        Recv(
            source=A,
            payload=payload,
            frame_class=FrameClass.BULK,
            flow=3,
            age_ms=4,
            nack=True,
        )
    )


@trio_test
async def test_each_frame_of_a_relay_becomes_its_event() -> None:
    inbox = Inbox()
    frames = [
        Nack(destination=A, reason=NackReason.GONE, count=2, flow=3, retry_ms=4),
        Gone(peer=A, reason=GoneReason.SLOW),
        Presence(states=((A, PresenceState.HERE),)),
        SeenFrom(prefixes=((A, "203.0.113.0/24"),)),
        Status(code=StatusCode.SLOW, text="x"),
        limits_of(RateClass.PHONE),
        Restarting(reconnect_in_ms=5, try_for_ms=6),
    ]
    assert inbox.put_message(recv()) is None
    for frame in frames:
        assert inbox.put_message(encode_frame(frame)) is None
    assert [await anext(inbox) for _ in range(8)] == [
        Received(A, b"payload", FrameClass.BULK, 3, 4),
        Nacked(A, NackReason.GONE, 2, 3, 4),
        PeerGone(A, GoneReason.SLOW),
        PeerPresence(((A, PresenceState.HERE),)),
        PeersSeenFrom(((A, "203.0.113.0/24"),)),
        RelayStatus(StatusCode.SLOW, "x"),
        RelayLimits(limits_of(RateClass.PHONE)),
        RelayRestarting(5, 6),
    ]


def test_a_ping_wants_an_answer_and_others_are_nothing() -> None:
    inbox = Inbox()
    nonce = b"8 bytes!"
    assert inbox.put_message(encode_frame(Ping(nonce=nonce))) == Pong(nonce=nonce)
    assert inbox.put_message(encode_frame(Pong(nonce=nonce))) is None
    assert inbox.put_message(b"\x90later version") is None


@pytest.mark.parametrize(
    "raw", [b"", b"\x11", b"\x11\x03" + bytes(38), b"\x10" + bytes(39), b"\x07"]
)
def test_b25_other_messages_are_refused(raw: bytes) -> None:
    with pytest.raises(ProtocolError):
        Inbox().put_message(raw)


@trio_test
async def test_the_end_comes_after_everything_and_stays() -> None:
    inbox = Inbox()
    inbox.put_message(recv())
    inbox.end(ConnectionLost("reset"))
    assert isinstance(await anext(inbox), Received)
    for _ in range(2):
        with pytest.raises(ConnectionLost, match="reset"):
            await anext(inbox)


@trio_test
async def test_the_end_wakes_the_reader() -> None:
    inbox = Inbox()

    async def read() -> None:
        with pytest.raises(ConnectionLost):
            await anext(inbox)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        await trio.testing.wait_all_tasks_blocked()
        inbox.end(ConnectionLost("reset"))


@trio_test
async def test_a_full_inbox_waits_for_its_reader() -> None:
    inbox = Inbox(max_bytes=1000)
    while not inbox.is_full:
        inbox.put_message(recv(bytes(100)))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(inbox.wait_room)
        await trio.testing.wait_all_tasks_blocked()
        await anext(inbox)
    assert not inbox.is_full


@trio_test
async def test_while_its_task_waits_a_message_is_taken_as_it_comes() -> None:
    inbox = Inbox()
    taken: list[bytes] = []

    def take(event: object) -> None:
        taken.append(event.payload)
        if event.payload == b"second":
            inbox.put_message(recv(b"its consequence"))
            assert taken[-1] == b"second"

    async def take_all() -> None:
        with pytest.raises(ConnectionLost):
            await inbox.take_each(take)

    inbox.put_message(recv(b"first"))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(take_all)
        await trio.testing.wait_all_tasks_blocked()
        inbox.put_message(recv(b"second"))
        assert taken == [b"first", b"second"]
        inbox.put_message(recv(b"third"))  # keeps its place
        assert taken == [b"first", b"second"]
        await trio.testing.wait_all_tasks_blocked()
        assert taken[2:] == [b"its consequence", b"third"]
        inbox.put_message(recv(b"fourth"))
        assert taken[-1] == b"fourth"
        inbox.end(ConnectionLost("reset"))
        inbox.put_message(recv(b"fifth"))
    assert taken[-1] == b"fifth"
    assert not inbox._n_bytes


@trio_test
async def test_what_the_taker_raises_ends_the_taking_not_the_bringing() -> None:
    inbox = Inbox()

    def take(event: object) -> None:
        raise ZeroDivisionError

    async def take_all() -> None:
        with pytest.raises(ZeroDivisionError):
            await inbox.take_each(take)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(take_all)
        await trio.testing.wait_all_tasks_blocked()
        inbox.put_message(recv(b"first"))
    inbox.put_message(recv(b"second"))
    assert (await anext(inbox)).payload == b"second"
