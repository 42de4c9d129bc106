"""Noise IK and XX against published vectors and another implementation."""

import json
import os

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given, settings
from hypothesis import strategies as st
from noise.connection import Keypair, NoiseConnection

from mobile_worker.errors import HandshakeError
from mobile_worker.session.noise import NoiseHandshake, Pattern
from tests.support.shared import shared_path

PROLOGUE = b"prologue"


def key(seed: bytes | None = None) -> X25519PrivateKey:
    return X25519PrivateKey.from_private_bytes(seed or os.urandom(32))


def public(private: X25519PrivateKey) -> bytes:
    return private.public_key().public_bytes_raw()


def pair(pattern: Pattern, prologues=(PROLOGUE, PROLOGUE)):
    one, other = key(), key()
    initiator = NoiseHandshake(
        pattern,
        initiator=True,
        prologue=prologues[0],
        keys=(one, key()),
        remote_static=public(other) if pattern is Pattern.IK else None,
    )
    responder = NoiseHandshake(
        pattern, initiator=False, prologue=prologues[1], keys=(other, key())
    )
    return initiator, responder


def vectors():
    path = shared_path("vectors/noise/cacophony-ik-xx.json")
    found = json.loads(path.read_text(encoding="utf-8"))["vectors"]
    return [v for v in found if v["protocol_name"].endswith("25519_AESGCM_SHA256")]


def test_published_vectors():
    assert len(vectors()) >= 2
    for vector in vectors():
        check_vector({k: v for k, v in vector.items() if k != "messages"}, vector)


def check_vector(fields, vector):
    raw = {name: bytes.fromhex(v) for name, v in fields.items() if name[-4:] != "name"}
    pattern = Pattern[fields["protocol_name"].split("_")[1]]
    initiator = NoiseHandshake(
        pattern,
        initiator=True,
        prologue=raw["init_prologue"],
        keys=(key(raw["init_static"]), key(raw["init_ephemeral"])),
        remote_static=raw.get("init_remote_static"),
    )
    responder = NoiseHandshake(
        pattern,
        initiator=False,
        prologue=raw["resp_prologue"],
        keys=(key(raw["resp_static"]), key(raw["resp_ephemeral"])),
    )
    writer, reader = initiator, responder
    counters = {id(initiator): 0, id(responder): 0}
    for message in vector["messages"]:
        payload = bytes.fromhex(message["payload"])
        ciphertext = bytes.fromhex(message["ciphertext"])
        if writer.finished:
            sending, _ = writer.split()
            _, receiving = reader.split()
            nonce = bytes(4) + counters[id(writer)].to_bytes(8, "big")
            counters[id(writer)] += 1
            assert AESGCM(sending).encrypt(nonce, payload, b"") == ciphertext
            assert AESGCM(receiving).decrypt(nonce, ciphertext, b"") == payload
        else:
            assert writer.write(payload) == ciphertext
            assert reader.read(ciphertext) == payload
        writer, reader = reader, writer
    assert initiator.handshake_hash == raw["handshake_hash"]
    assert responder.handshake_hash == raw["handshake_hash"]


@pytest.mark.parametrize("pattern", Pattern)
@pytest.mark.parametrize("we_begin", [True, False])
def test_another_implementation_agrees(pattern, we_begin):
    ours, theirs = key(), key()
    noise = NoiseConnection.from_name(pattern.protocol_name)
    noise.set_prologue(PROLOGUE)
    noise.set_keypair_from_private_bytes(Keypair.STATIC, theirs.private_bytes_raw())
    if not we_begin and pattern is Pattern.IK:
        noise.set_keypair_from_public_bytes(Keypair.REMOTE_STATIC, public(ours))
    (noise.set_as_responder if we_begin else noise.set_as_initiator)()
    noise.start_handshake()
    known = public(theirs) if we_begin and pattern is Pattern.IK else None
    we = NoiseHandshake(
        pattern,
        initiator=we_begin,
        prologue=PROLOGUE,
        keys=(ours, key()),
        remote_static=known,
    )
    our_turn = we_begin
    while not we.finished:
        if our_turn:
            assert bytes(noise.read_message(we.write(b"ours"))) == b"ours"
        else:
            assert we.read(bytes(noise.write_message(b"theirs"))) == b"theirs"
        our_turn = not our_turn
    assert noise.handshake_finished
    assert noise.get_handshake_hash() == we.handshake_hash
    sending, receiving = we.split()
    sealed = AESGCM(sending).encrypt(bytes(12), b"first", b"")
    assert bytes(noise.decrypt(sealed)) == b"first"
    assert AESGCM(receiving).decrypt(bytes(12), bytes(noise.encrypt(b"2")), b"") == b"2"


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(Pattern), st.binary(max_size=300))
def test_both_sides_agree(pattern, payload):
    initiator, responder = pair(pattern)
    writer, reader = initiator, responder
    while not initiator.finished:
        assert reader.read(writer.write(payload)) == payload
        writer, reader = reader, writer
    assert initiator.split() == responder.split()[::-1]
    assert initiator.handshake_hash == responder.handshake_hash


@pytest.mark.parametrize("pattern", Pattern)
def test_every_changed_byte_is_noticed(pattern):
    for at in range(0, 200, 7):
        initiator, responder = pair(pattern)
        if pattern is Pattern.XX:
            responder.read(initiator.write(b""))
            initiator, responder = responder, initiator
        message = bytearray(initiator.write(b"payload"))
        if at < len(message):
            message[at] ^= 1
            with pytest.raises(HandshakeError):
                responder.read(bytes(message))


def test_another_prologue_or_key_does_not_open():
    initiator, responder = pair(Pattern.IK, (b"one", b"other"))
    with pytest.raises(HandshakeError):
        responder.read(initiator.write(b""))
    initiator, _ = pair(Pattern.IK)
    _, stranger = pair(Pattern.IK)
    with pytest.raises(HandshakeError):
        stranger.read(initiator.write(b""))


def test_keys_of_small_order_are_refused():
    _, responder = pair(Pattern.IK)
    with pytest.raises(HandshakeError, match="small order"):
        responder.read(bytes(96))


def test_messages_out_of_turn_or_cut_short():
    initiator, responder = pair(Pattern.IK)
    with pytest.raises(HandshakeError):
        responder.write(b"")
    with pytest.raises(HandshakeError):
        initiator.read(b"")
    with pytest.raises(HandshakeError):
        initiator.split()
    first = initiator.write(b"")
    with pytest.raises(HandshakeError):
        initiator.write(b"")
    with pytest.raises(HandshakeError):
        responder.read(first[:40])
    with pytest.raises(HandshakeError, match="bytes"):
        pair(Pattern.IK)[1].read(bytes(65_536))


def test_ik_needs_the_other_key():
    with pytest.raises(HandshakeError):
        NoiseHandshake(Pattern.IK, initiator=True, prologue=b"", keys=(key(), key()))
