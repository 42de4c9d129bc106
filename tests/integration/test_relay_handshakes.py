"""The handshake matrix over real connections: every lie, on either side, ends it.

Each row is one lie of a peer and what a closed relay answers: a DENY with its code and
close 1008, or a close code alone where the bytes are no handshake. Behind each, the
relay still admits an honest peer and has admitted nobody else. The second matrix is of
relays that lie: the client goes no further.
"""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import pytest
import trio
from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from relay import Endpoint, HandshakeRefused, RelayUnreachable, WrongRelayId
from relay.defaults import SUBPROTOCOL
from relay.frame_types import FrameClass, Ping, Send
from relay.frames import encode_frame
from relay.greetings import (
    Auth,
    Challenge,
    Deny,
    DenyCode,
    encode_auth,
    encode_challenge,
    encode_deny,
    parse_auth,
    parse_challenge,
)
from relay.handshake import answer_challenge, client_nonce
from relay.keys import WeakKey, check_peer_id
from relay.tokens import Role
from tests.support.relays import (
    NETWORK,
    RELAY,
    credentials,
    joined,
    key,
    plain_config,
    raw_peer,
    running_relay,
    token_for,
    wall_us,
)
from tests.support.trio_test import trio_test

PEER, OTHER = key(1), key(2)
HOST = "127.0.0.1"
NEUTRAL_KEY = b"\x01" + bytes(31)  # everything is signed by it: faults B39
Words = list[bytes]


def answer(challenge: Challenge, *, host: str = HOST, **changes: object) -> Auth:
    """The honest answer but for these changes."""
    settings = {"role": Role.WORKER, "token": token_for(PEER)} | changes
    who = credentials(PEER, **settings)
    return answer_challenge(challenge, who, host, client_nonce(wall_us(), bytes(8)))


def says(**changes: object) -> Callable[[Challenge], Words]:
    return lambda challenge: [encode_auth(answer(challenge, **changes))]


def signs_then_changes(**changes: object) -> Callable[[Challenge], Words]:
    """What was signed is not what is said."""
    return lambda challenge: [encode_auth(replace(answer(challenge), **changes))]


def asked_otherwise(**changes: object) -> Callable[[Challenge], Words]:
    """The answer to another challenge than ours."""
    return lambda challenge: [encode_auth(answer(replace(challenge, **changes)))]


def frame_before() -> Words:
    frame = Send(
        destination=OTHER.peer_id,
        payload=b"",
        frame_class=FrameClass.CONTROL,
        flow=0,
        ttl_ms=0,
        nack=False,
    )
    return [encode_frame(frame)]


def resized(n_bytes: int) -> Callable[[Challenge], Words]:
    def speak(challenge: Challenge) -> Words:
        raw = encode_auth(answer(challenge))
        return [raw[:n_bytes] if n_bytes < 0 else raw + bytes(n_bytes)]

    return speak


LIES: dict[str, tuple[Callable[[Challenge], Words], DenyCode | int]] = {
    "another's id": (
        signs_then_changes(peer_id=OTHER.peer_id),
        DenyCode.BAD_SIGNATURE,
    ),
    "a weak id": (signs_then_changes(peer_id=NEUTRAL_KEY), DenyCode.BAD_KEY),
    "no signature": (signs_then_changes(signature=bytes(64)), DenyCode.BAD_SIGNATURE),
    "a role not signed": (
        signs_then_changes(role=Role.LEDGER),
        DenyCode.BAD_SIGNATURE,
    ),
    "caps not signed": (signs_then_changes(caps=1), DenyCode.BAD_SIGNATURE),
    "a nonce not signed": (
        signs_then_changes(client_nonce=bytes(16)),
        DenyCode.BAD_SIGNATURE,
    ),
    "a token not signed": (
        signs_then_changes(token=token_for(PEER, role=Role.WORKER)),
        DenyCode.BAD_SIGNATURE,
    ),
    "a proof made for another relay": (
        asked_otherwise(relay_id=OTHER.peer_id),
        DenyCode.BAD_SIGNATURE,
    ),
    "a proof of another moment": (
        asked_otherwise(nonce=bytes(32)),
        DenyCode.BAD_SIGNATURE,
    ),
    "a proof for another host": (
        says(host="relay.example"),
        DenyCode.BAD_SIGNATURE,
    ),
    "an unknown role": (signs_then_changes(role=99), DenyCode.TOKEN_OTHER_ROLE),
    "any role": (says(role=Role.ANY), DenyCode.TOKEN_OTHER_ROLE),
    "no token": (says(token=b""), DenyCode.TOKEN_MISSING),
    "no token's bytes": (says(token=bytes(100)), DenyCode.TOKEN_MALFORMED),
    "an expired token": (
        says(token=token_for(PEER, not_after_us=wall_us() - 1)),
        DenyCode.TOKEN_EXPIRED,
    ),
    "another network's token": (
        says(token=token_for(PEER, network=OTHER.peer_id)),
        DenyCode.TOKEN_FOREIGN,
    ),
    "a forged token": (
        says(token=token_for(PEER)[:-1] + b"\0"),
        DenyCode.TOKEN_FORGED,
    ),
    "another peer's token": (says(token=token_for(OTHER)), DenyCode.TOKEN_NOT_YOURS),
    "another relay's token": (
        says(token=token_for(PEER, relay_id=OTHER.peer_id)),
        DenyCode.TOKEN_OTHER_RELAY,
    ),
    "another role's token": (
        says(token=token_for(PEER, role=Role.MARKET)),
        DenyCode.TOKEN_OTHER_ROLE,
    ),
    "a frame before the proof": (lambda _: frame_before(), 1008),
    "a ping before the proof": (lambda _: [encode_frame(Ping(nonce=bytes(8)))], 1008),
    "the challenge sent back": (lambda asked: [encode_challenge(asked)], 1008),
    "a yes of its own": (lambda _: [b"\x22" + bytes(200)], 1008),
    "nothing": (lambda _: [b""], 1008),
    "a byte short": (resized(-1), 1008),
    "a byte long": (resized(1), 1008),
    "above 2 KiB": (resized(2048), 1008),
    "above 72 KiB": (resized(73 * 1024), 1009),
    "two proofs": (
        lambda asked: [encode_auth(answer(asked)), encode_auth(answer(asked))],
        1002,
    ),
}


@pytest.mark.parametrize("lie", LIES)
@trio_test
async def test_a_lying_peer_gets_no_further(lie: str) -> None:
    speak, outcome = LIES[lie]
    config = plain_config(open=False, network=NETWORK.peer_id)
    async with running_relay(config) as relay:
        async with raw_peer(relay) as raw:
            await raw.upgrade()
            for message in speak(parse_challenge(await raw.message())):
                raw.protocol.send_binary(message)
            await raw.flush()
            if isinstance(outcome, DenyCode):
                denied = await raw.message()
                assert denied[:2] == bytes([0x23, outcome])
            code = await raw.close_code()
            assert code == (1008 if isinstance(outcome, DenyCode) else outcome)
        async with joined(relay, PEER, token=token_for(PEER)) as honest:
            assert honest.welcome.relay_id == RELAY.peer_id
        admitted = int(lie == "two proofs")  # the second is no frame of a joined peer
        assert relay.counters.admitted == 1 + admitted
        assert relay.counters.refused.total() == 1 - admitted
        assert relay.counters.refused["internal error"] == 0


@trio_test
async def test_a_proof_is_good_for_one_connection() -> None:
    """A recorded AUTH, replayed at once or at the relay's next start, is refused."""
    said: Words = []
    for _ in range(2):
        async with running_relay() as relay:
            async with raw_peer(relay) as raw:
                await raw.upgrade()
                challenge = parse_challenge(await raw.message())
                said = said or [encode_auth(answer(challenge, role=Role.WORKER))]
                await raw.send(said[0])
                first = (await raw.message())[0]
            async with raw_peer(relay) as raw:
                await raw.upgrade()
                await raw.message()
                await raw.send(said[0])
                assert (await raw.message())[:2] == b"\x23\x02"
            assert first in {0x22, 0x23}
    assert relay.counters.admitted == 0


@dataclass(frozen=True, slots=True)
class Rogue:
    """A server that says what it likes; `judge` makes its answer to the AUTH."""

    challenge: bytes
    judge: Callable[[Auth], bytes]

    async def serve(self, stream: trio.SocketStream) -> None:
        # Who is lied to may leave with something unread, which resets the connection.
        with contextlib.suppress(trio.BrokenResourceError):
            async with stream:
                await self._talk(stream)

    async def _talk(self, stream: trio.SocketStream) -> None:
        protocol = ServerProtocol(subprotocols=[Subprotocol(SUBPROTOCOL)])
        while True:
            chunk = await stream.receive_some()
            if not chunk:
                return
            protocol.receive_data(chunk)
            for event in protocol.events_received():
                if isinstance(event, Request):
                    protocol.send_response(protocol.accept(event))
                    protocol.send_binary(self.challenge)
                elif isinstance(event, Frame) and event.opcode is Opcode.BINARY:
                    protocol.send_binary(self.judge(parse_auth(bytes(event.data))))
            await stream.send_all(b"".join(protocol.data_to_send()))


ASKED = Challenge(relay_id=RELAY.peer_id, nonce=bytes(32), time_ms=1)
GOOD = encode_challenge(ASKED)


async def recorded_welcome() -> bytes:
    """A true WELCOME, of another handshake with the real relay."""
    async with running_relay() as relay, raw_peer(relay) as raw:
        await raw.upgrade()
        challenge = parse_challenge(await raw.message())
        await raw.send(encode_auth(answer(challenge)))
        return await raw.message()


ROGUES: dict[str, tuple[bytes, bytes | None, type[Exception], str]] = {
    "another relay": (
        encode_challenge(replace(ASKED, relay_id=OTHER.peer_id)),
        b"",
        WrongRelayId,
        "not",
    ),
    "a weak id": (GOOD[:11] + NEUTRAL_KEY + GOOD[43:], b"", RelayUnreachable, "break"),
    "another magic": (b"\x20HTTP/1.1" + GOOD[9:], b"", RelayUnreachable, "break"),
    "another version": (GOOD[:9] + b"\x09" + GOOD[10:], b"", RelayUnreachable, "break"),
    "a challenge cut short": (GOOD[:-1], b"", RelayUnreachable, "break"),
    "a yes before the question": (b"\x22" + bytes(99), b"", RelayUnreachable, "break"),
    "a welcome of nobody": (GOOD, b"\x22" + bytes(200), RelayUnreachable, "break"),
    "a welcome above 4 KiB": (GOOD, b"\x22" + bytes(5000), RelayUnreachable, "break"),
    "a welcome recorded before": (GOOD, None, WrongRelayId, "key of its id"),
    "its challenge again": (GOOD, GOOD, RelayUnreachable, "break"),
    "a frame": (GOOD, encode_frame(Ping(nonce=bytes(8))), RelayUnreachable, "break"),
    "a no of a later version": (
        GOOD,
        encode_deny(Deny(code=250, retry_ms=0, text="for reasons of my own")),
        HandshakeRefused,
        "reasons of my own",
    ),
    "a no that is no text": (
        GOOD,
        b"\x23\x01" + bytes(4) + b"\xff\xfe",
        RelayUnreachable,
        "break",
    ),
}


@pytest.mark.parametrize("lie", ROGUES)
@trio_test
async def test_a_lying_relay_is_left(lie: str) -> None:
    challenge, said, error, words = ROGUES[lie]
    said = await recorded_welcome() if said is None else said
    rogue = Rogue(challenge, lambda _: said)
    async with trio.open_nursery() as nursery:
        [listener] = await nursery.start(
            partial(trio.serve_tcp, rogue.serve, 0, host=HOST)
        )
        port = listener.socket.getsockname()[1]
        endpoint = Endpoint(f"ws://{HOST}:{port}/relay", RELAY.peer_id)
        with pytest.raises(error, match=words):
            async with joined(endpoint, PEER):
                raise AssertionError("it was believed")
        nursery.cancel_scope.cancel()


def test_b39_the_weak_id_of_these_rows_is_one() -> None:
    with pytest.raises(WeakKey):
        check_peer_id(NEUTRAL_KEY)
