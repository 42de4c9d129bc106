"""Frames on a socket: whole, bounded, and told apart from an end."""

import socket
import threading

import pytest

from p2pmoe.backbone.mapped import frames
from p2pmoe.backbone.mapped.frames import read_frame, send_frame
from p2pmoe.backbone.mapped.messages import MAX_FRAME_BYTES, Kind, MessageMalformed


@pytest.fixture
def ends():
    one, other = socket.socketpair()
    with one, other:
        yield one, other


def test_frames_come_whole_and_in_order(ends):
    one, other = ends
    send_frame(one, Kind.BEAT, b"a")
    send_frame(one, Kind.WORK, b"")
    assert read_frame(other) == (Kind.BEAT, b"a")
    assert read_frame(other) == (Kind.WORK, b"")


def test_a_frame_larger_than_the_socket_holds_comes_whole(ends):
    one, other = ends
    body = bytes(range(256)) * 8192
    sender = threading.Thread(target=send_frame, args=(one, Kind.VALUES, body))
    sender.start()
    assert read_frame(other) == (Kind.VALUES, body)
    sender.join()


def test_an_end_between_frames_is_none(ends):
    one, other = ends
    one.close()
    assert read_frame(other) is None


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (b"\x05\0\0\0\x02abc", "within"),
        (b"\x05\0", "within"),
        (b"\0\0\0\0\x02", "0 bytes"),
        ((MAX_FRAME_BYTES + 1).to_bytes(4, "little") + b"\x02", "bytes"),
        (b"\x01\0\0\0\x09", "kind 9"),
    ],
)
def test_what_is_no_frame_is_refused(ends, sent, words):
    one, other = ends
    one.sendall(sent)
    one.close()
    with pytest.raises(MessageMalformed, match=words):
        read_frame(other)


def test_too_long_a_message_is_not_sent(ends, monkeypatch):
    monkeypatch.setattr(frames, "MAX_FRAME_BYTES", 10)
    with pytest.raises(MessageMalformed, match="too long"):
        send_frame(ends[0], Kind.WORK, bytes(10))
    ends[0].close()
    assert read_frame(ends[1]) is None
