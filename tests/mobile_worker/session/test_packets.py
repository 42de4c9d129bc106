"""The bytes of packets."""

import pytest

from mobile_worker.errors import HandshakeError, SealError
from mobile_worker.messages.classes import MessageClass
from mobile_worker.session import packets
from mobile_worker.session.packets import (
    PIECE_HEAD,
    SEALED_HEAD,
    STREAM_HEAD,
    TOKEN,
    FrameKind,
    HandshakePacket,
    PacketKind,
    carries_message,
    own_packet,
    parse_handshake,
    parse_unknown,
    unknown_packet,
)
from relay.frames import MAX_PAYLOAD_BYTES


def test_handshake_packets_round_trip():
    packet = HandshakePacket(PacketKind.XX_2, 1, 2, b"instance", b"noise")
    raw = packet.encode()
    assert raw.hex() == "040000000100000002" + b"instancenoise".hex()
    assert parse_handshake(raw) == packet


@pytest.mark.parametrize(
    "raw",
    [b"", b"\1" * 17, b"\0" + bytes(60), b"\6" + bytes(60), b"\1" + bytes(70_000)],
)
def test_other_bytes_are_no_handshake(raw):
    with pytest.raises(HandshakeError):
        parse_handshake(raw)


def test_hints():
    assert parse_unknown(unknown_packet(0xDEADBEEF)) == 0xDEADBEEF
    with pytest.raises(SealError):
        parse_unknown(b"\x11\0\0")


def test_a_packet_fits_a_frame_of_the_relay():
    largest = packets.MAX_PIECE_BYTES + packets.PIECE_HEAD.size + 16
    assert largest + packets.SEALED_HEAD.size <= packets.MAX_PACKET_BYTES
    assert packets.MAX_PACKET_BYTES <= MAX_PAYLOAD_BYTES


def test_probes_wait_where_the_data_waits_and_handshakes_go_first() -> None:
    sealed = own_packet(bytes((PacketKind.SEALED,)) + bytes(30))
    assert sealed.message_class is MessageClass.INTERACTIVE
    for kind in (PacketKind.IK_1, PacketKind.XX_3, PacketKind.UNKNOWN):
        assert own_packet(bytes((kind,))).message_class is MessageClass.CONTROL


def test_messages_are_told_by_length() -> None:
    def sealed(frame: bytes) -> bytes:
        return SEALED_HEAD.pack(PacketKind.SEALED, 1, 2) + frame + bytes(16)

    stream = STREAM_HEAD.pack(FrameKind.CREDIT, 0, 7)
    for other in (stream, TOKEN.pack(FrameKind.PROBE, 7), bytes((FrameKind.OPEN,))):
        assert not carries_message(sealed(other))
    assert carries_message(sealed(stream + b"m"))
    assert carries_message(sealed(PIECE_HEAD.pack(1, 2, 3, 4, 5, 6) + bytes(1024)))
    assert not carries_message(bytes((PacketKind.IK_1,)) + bytes(300))
