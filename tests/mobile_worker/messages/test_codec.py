"""All messages: round trips, golden bytes, and refusal of everything else."""

import dataclasses
import json
import random
import resource
import subprocess
import sys
import zlib
from pathlib import Path

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mobile_worker.errors import MessageError, UnsendableMessage
from mobile_worker.messages import (
    Cancel,
    Hello,
    MessageType,
    encode_message,
    parse_message,
)
from mobile_worker.messages.codec import MESSAGE_CLASSES
from mobile_worker.messages.envelope import close_envelope, open_envelope
from tests.support.messages import EXAMPLES, any_message
from tests.vectors.make_messages import GOLDEN, golden

ROOT = Path(__file__).resolve().parents[3]


@given(any_message)
def test_what_is_encoded_is_parsed_again(message):
    frame = encode_message(message)
    assert parse_message(frame) == message
    assert encode_message(parse_message(frame)) == frame


@pytest.mark.parametrize("name", EXAMPLES)
def test_golden_bytes(name):
    stored = json.loads(GOLDEN.read_text(encoding="utf-8"))
    assert stored[name] == golden()[name], "the wire format changed"
    assert parse_message(bytes.fromhex(stored[name]["frame"])) == EXAMPLES[name]


def test_there_is_an_example_of_each_message():
    assert {encode_message(m)[0] for m in EXAMPLES.values()} == set(MESSAGE_CLASSES)


@pytest.mark.parametrize(
    "message_class", sorted(set(MESSAGE_CLASSES.values()), key=str)
)
def test_fields_of_the_wire_are_fields_of_the_class(message_class):
    names = [field.name for field in dataclasses.fields(message_class)]
    assert sorted(names) == sorted(message_class.FIELDS)


def test_unsendable_values_are_our_error():
    for bad in (-1, 2**64, 1.5, True, "7", None):
        with pytest.raises(UnsendableMessage, match=r"Cancel\.request"):
            encode_message(Cancel(request=bad))


def rewrite(name, **changes):
    """The example's frame with other header values; None drops a key."""
    message_type, header, body = open_envelope(encode_message(EXAMPLES[name]))
    header = {k: v for k, v in (header | changes).items() if v is not None}
    return close_envelope(message_type, header, [bytes(body)])


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("cancel", {"request": None}),
        ("cancel", {"request": -1}),
        ("cancel", {"request": True}),
        ("cancel", {"request": 1.0}),
        ("cancel", {"request": b"1"}),
        ("cancel", {"extra": 1}),
        ("hello", {"versions": ()}),
        ("hello", {"versions": (1,) * 17}),
        ("hello", {"versions": (65_536,)}),
        ("hello", {"self_test": bytes(31)}),
        ("hello", {"manifest_hash": bytes(31)}),
        ("hello", {"ack": 0}),
        ("hello", {"ack": True}),
        ("hello_ack", {"ack": False}),
        ("draining", {"reason": "x" * 201}),
        ("draining", {"reason": b"x"}),
        ("offer", {"models": [0, 64]}),
        ("offer", {"models": [1, 2, 32]}),
        ("demand", {"counts": [1, 4]}),
        ("demand", {"counts": [1, 1, 4]}),
        ("demand", {"has_disk": 1}),
        ("placement", {"holders": [0, 2, 87]}),
        ("voucher", {"leaves": [0, 158]}),
        ("voucher", {"leaves": [0, 79, 2]}),
        ("accept", {"ranges": [1, 4]}),
        ("accept", {"ranges": None}),
        ("dispatch", {"calls": None}),
        ("dispatch", {"coded": None}),
        ("dispatch", {"profile": 3}),
        ("dispatch", {"n_rows": 0}),
        ("dispatch", {"n_rows": 3}),
        ("dispatch", {"n_embd": 63}),
        ("dispatch", {"first_serving": 2**32 - 1}),
        ("output", {"error": 1}),
        ("output", {"error": 7}),
        ("output", {"n_rows_total": 5}),
        ("output", {"n_rows_total": 0}),
    ],
)
def test_values_out_of_bounds_are_refused(name, changes):
    with pytest.raises(MessageError):
        parse_message(rewrite(name, **changes))


@pytest.mark.parametrize(
    "shape",
    [
        [255, 128],  # dtype 255
        [0, 144],  # a dtype that is known but not this field's
        [3, 2**31, 2**31],
        [3, 0],
        [3, -32],
        [3, 127],
        [3, 160],
        [3, 128, 1, 1],
        [3],
        [],
        3,
        "3",
        [3, 128.0],
        [True, 128],
        [3, True],
        [[3], 128],
        {"3": 128},
    ],
)
def test_b25_shapes_and_dtypes(shape):
    with pytest.raises(MessageError):
        parse_message(rewrite("dispatch", coded=shape))


@pytest.mark.parametrize("name", EXAMPLES)
def test_b25_one_byte_short_or_long(name):
    frame = encode_message(EXAMPLES[name])
    message_type, header, body = open_envelope(frame)
    for bad in (frame[:-1], frame + b"\0", frame[1:], frame + frame):
        with pytest.raises(MessageError):
            parse_message(bad)
    # The same with a checksum that matches.
    with pytest.raises(MessageError):
        parse_message(close_envelope(message_type, header, [bytes(body), b"\0"]))
    if body:
        with pytest.raises(MessageError):
            parse_message(close_envelope(message_type, header, [bytes(body)[:-1]]))


@pytest.mark.parametrize(
    "number", [0, 22, 23, 40, 99, 255], ids=lambda number: f"type-{number}"
)
def test_b25_unknown_types(number):
    with pytest.raises(MessageError, match="type"):
        parse_message(close_envelope(number, {}, []))


def test_b25_pickles_and_other_streams():
    streams = [
        b"",
        b"\x80\x04\x95\x1f\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix\x94.",
        b"GGUF" + bytes(100),
        msgpack.packb({"request": 1}),
        b"\xff" * 4096,
        bytes(4096),
    ]
    for stream in streams:
        with pytest.raises(MessageError):
            parse_message(stream)
    pickled = close_envelope(MessageType.CANCEL, {"request": streams[1]}, [])
    with pytest.raises(MessageError):
        parse_message(pickled)


@given(st.binary(max_size=200))
def test_b25_any_bytes_are_a_message_or_a_message_error(raw):
    try:
        parse_message(raw)
    except MessageError:
        return


def mutate(rng, frame):
    """Flip, cut, splice or insert, then often mend the checksum."""
    raw = bytearray(frame)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(raw))
        action = rng.randrange(5)
        if action == 0:
            raw[at] ^= 1 << rng.randrange(8)
        elif action == 1:
            raw[at] = rng.choice((0, 1, 0x7F, 0x80, 0xC0, 0xDD, 0xDF, 0xFF))
        elif action == 2 and len(raw) > 20:
            del raw[at : at + rng.randint(1, 9)]
        elif action == 3:
            raw[at:at] = rng.randbytes(rng.randint(1, 9))
        elif len(raw) > 16:
            raw[5:9] = len(raw).to_bytes(4, "big")
        if len(raw) < 10:
            return bytes(raw)
    if rng.random() < 0.8:
        mend(raw)
    return bytes(raw)


def mend(raw):
    crc = zlib.crc32(raw[9:], zlib.crc32(raw[:5]))
    raw[5:9] = crc.to_bytes(4, "big")


def check_mutations(n):
    rng = random.Random(25)
    frames = [encode_message(message) for message in EXAMPLES.values()]
    n_parsed = 0
    for i in range(n):
        frame = mutate(rng, frames[i % len(frames)])
        try:
            message = parse_message(frame)
        except MessageError:
            continue
        n_parsed += 1
        assert parse_message(encode_message(message)) == message
    return n_parsed


def test_b25_a_hundred_thousand_mutated_frames():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    check_mutations(100_000)
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown_kib < 50 * 1024


def test_b25_the_checks_survive_python_without_asserts():
    code = (
        "import tests.mobile_worker.messages.test_codec as t\n"
        "from mobile_worker.errors import MessageError\n"
        "for shape in ([255, 128], [3, 2**31, 2**31], [3, 0], [3, -32]):\n"
        "    try:\n"
        "        t.parse_message(t.rewrite('dispatch', coded=shape))\n"
        "    except MessageError:\n"
        "        continue\n"
        "    raise SystemExit(1)\n"
        "t.check_mutations(500)\n"
    )
    done = subprocess.run([sys.executable, "-O", "-c", code], check=False, cwd=ROOT)
    assert done.returncode == 0


def test_a_hello_ack_is_a_hello_with_the_flag():
    frame = encode_message(EXAMPLES["hello_ack"])
    assert frame[0] == MessageType.HELLO_ACK
    assert isinstance(parse_message(frame), Hello)
