"""Frames: bytes, round trips, and a parser that raises one error only."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from relay.errors import ProtocolError
from relay.frame_types import (
    Frame,
    FrameClass,
    Gone,
    GoneReason,
    Limits,
    Nack,
    NackReason,
    Ping,
    Pong,
    Presence,
    PresenceState,
    Recv,
    Restarting,
    SeenFrom,
    Send,
    Status,
    StatusCode,
    Watch,
)
from relay.frames import (
    MAX_PAYLOAD_BYTES,
    encode_frame,
    pack_limits,
    parse_frame,
    unpack_limits,
)
from relay.keys import PeerId
from relay.prefixes import network_prefix

A = PeerId(b"\xaa" * 32)
B = PeerId(b"\xbb" * 32)
LIMITS = Limits(
    max_payload=65535,
    bytes_s=2,
    burst=3,
    frames_s=4,
    queue_bytes=5,
    max_ttl_ms=60000,
    lease_s=7,
)
SNAPSHOTS: list[tuple[Frame, str]] = [
    (Ping(nonce=b"12345678"), "01 3132333435363738"),
    (Pong(nonce=b"12345678"), "02 3132333435363738"),
    (Status(code=StatusCode.SLOW, text="é"), "03 03 c3a9"),
    (Restarting(reconnect_in_ms=258, try_for_ms=60000), "04 00000102 0000ea60"),
    (
        LIMITS,
        "05 0000ffff 00000002 00000003 00000004 00000005 ea60 00000007",
    ),
    (
        Send(
            destination=A,
            payload=b"hi",
            frame_class=FrameClass.BULK,
            flow=7,
            ttl_ms=2000,
            nack=True,
        ),
        "10 06 07d0 00000007" + "aa" * 32 + "6869",
    ),
    (
        Recv(
            source=B,
            payload=b"",
            frame_class=FrameClass.CONTROL,
            flow=2**32 - 1,
            age_ms=3,
            nack=False,
        ),
        "11 00 0003 ffffffff" + "bb" * 32,
    ),
    (
        Nack(
            destination=A, reason=NackReason.QUEUE_FULL, count=2, flow=9, retry_ms=100
        ),
        "12 03 0002 00000009" + "aa" * 32 + "0064",
    ),
    (Gone(peer=A, reason=GoneReason.SLOW), "13" + "aa" * 32 + "03"),
    (Watch(peers=(A, B)), "14 0002" + "aa" * 32 + "bb" * 32),
    (Watch(peers=()), "14 0000"),
    (
        Presence(states=((A, PresenceState.HERE), (B, PresenceState.ABSENT))),
        "15 0002" + "aa" * 32 + "01" + "bb" * 32 + "00",
    ),
    (
        SeenFrom(prefixes=((A, "203.0.113.0/24"), (B, "2001:db8:7::/48"))),
        "96 0002" + "aa" * 32 + "04cb0071000000" + "bb" * 32 + "0620010db80007",
    ),
    (SeenFrom(prefixes=((A, ""),)), "96 0001" + "aa" * 32 + "00" * 7),
]
SIZES = {Ping: 9, Pong: 9, Restarting: 9, Limits: 27, Nack: 42, Gone: 34}

ids = st.binary(min_size=32, max_size=32).map(PeerId)
u16 = st.integers(0, 2**16 - 1)
u32 = st.integers(0, 2**32 - 1)
classes = st.sampled_from(FrameClass)
payloads = st.binary(max_size=300)
nonces = st.binary(min_size=8, max_size=8)
prefixes = st.one_of(st.ip_addresses().map(str), st.just("")).map(network_prefix)
frames = st.one_of(
    st.builds(Ping, nonce=nonces),
    st.builds(Pong, nonce=nonces),
    st.builds(
        Status, code=st.sampled_from(StatusCode), text=st.text(max_size=254 // 4)
    ),
    st.builds(Restarting, reconnect_in_ms=u32, try_for_ms=u32),
    st.builds(
        Limits,
        max_payload=u32,
        bytes_s=u32,
        burst=u32,
        frames_s=u32,
        queue_bytes=u32,
        max_ttl_ms=u16,
        lease_s=u32,
    ),
    st.builds(
        Send,
        destination=ids,
        payload=payloads,
        frame_class=classes,
        flow=u32,
        ttl_ms=u16,
        nack=st.booleans(),
    ),
    st.builds(
        Recv,
        source=ids,
        payload=payloads,
        frame_class=classes,
        flow=u32,
        age_ms=u16,
        nack=st.booleans(),
    ),
    st.builds(
        Nack,
        destination=ids,
        reason=st.sampled_from(NackReason),
        count=u16,
        flow=u32,
        retry_ms=u16,
    ),
    st.builds(Gone, peer=ids, reason=st.sampled_from(GoneReason)),
    st.builds(Watch, peers=st.lists(ids, max_size=5).map(tuple)),
    st.builds(
        Presence,
        states=st.lists(st.tuples(ids, st.sampled_from(PresenceState)), max_size=5).map(
            tuple
        ),
    ),
    st.builds(
        SeenFrom,
        prefixes=st.lists(st.tuples(ids, prefixes), max_size=5).map(tuple),
    ),
)


@pytest.mark.parametrize(("frame", "wire"), SNAPSHOTS)
def test_bytes_of_each_frame(frame: Frame, wire: str) -> None:
    raw = bytes.fromhex(wire)
    assert encode_frame(frame) == raw
    assert parse_frame(raw) == frame
    assert len(raw) == SIZES.get(type(frame), len(raw))


@given(frames)
def test_round_trip(frame: Frame) -> None:
    assert parse_frame(encode_frame(frame)) == frame


@settings(max_examples=500)
@given(st.binary(max_size=120))
@example(b"")
@example(b"\x80")
@example(b"\x03\x01\xff")
def test_b25_any_bytes_raise_only_protocol_error(raw: bytes) -> None:
    try:
        frame = parse_frame(raw)
    except ProtocolError:
        return
    assert frame is None or encode_frame(frame) == raw


@given(frames, st.data())
def test_b25_mutated_frames_raise_only_protocol_error(frame: Frame, data) -> None:
    raw = bytearray(encode_frame(frame))
    at = data.draw(st.integers(0, len(raw) - 1))
    raw[at] ^= data.draw(st.integers(1, 255))
    cut = data.draw(st.integers(0, len(raw)))
    for mutated in (bytes(raw), bytes(raw[:cut]), bytes(raw) + b"\0"):
        try:
            parse_frame(mutated)
        except ProtocolError:
            continue


@pytest.mark.parametrize("kind", [0x00, 0x06, 0x0F, 0x16, 0x20, 0x24, 0x7F])
def test_b25_an_unknown_low_type_closes_with_1002(kind: int) -> None:
    with pytest.raises(ProtocolError, match="unknown frame type") as caught:
        parse_frame(bytes([kind]) + bytes(40))
    assert caught.value.close_code == 1002


def test_an_unknown_high_type_is_skipped() -> None:
    assert parse_frame(b"\x80") is None
    assert parse_frame(b"\xff" + bytes(1000)) is None


def test_b25_two_frames_in_one_message_are_refused() -> None:
    for frame, _ in SNAPSHOTS:
        if not isinstance(frame, Send | Recv | Status):
            with pytest.raises(ProtocolError):
                parse_frame(encode_frame(frame) * 2)


@pytest.mark.parametrize("flags", [0b011, 0b111, 0b1000, 0xFF])
def test_b25_unknown_flags_are_refused(flags: int) -> None:
    raw = bytearray(encode_frame(SNAPSHOTS[5][0]))
    raw[1] = flags
    with pytest.raises(ProtocolError, match="flags"):
        parse_frame(bytes(raw))


def test_payload_and_lists_are_bounded() -> None:
    head = encode_frame(SNAPSHOTS[6][0])
    assert parse_frame(head + bytes(MAX_PAYLOAD_BYTES)) is not None
    with pytest.raises(ProtocolError):
        parse_frame(head + bytes(MAX_PAYLOAD_BYTES + 1))
    with pytest.raises(ProtocolError, match="257 peers"):
        parse_frame(b"\x14\x01\x01" + bytes(257 * 32))


def test_a_long_status_is_cut_between_characters() -> None:
    raw = encode_frame(Status(code=StatusCode.OK, text="é" * 200))
    assert len(raw) == 256
    assert parse_frame(raw) == Status(code=StatusCode.OK, text="é" * 127)


def test_limits_alone() -> None:
    assert len(pack_limits(LIMITS)) == 26
    assert unpack_limits(pack_limits(LIMITS)) == LIMITS
    with pytest.raises(ProtocolError):
        unpack_limits(bytes(25))
