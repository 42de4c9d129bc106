"""The way in, seen from the relay: deadlines, and what is said before the proof."""

import logging
import socket
import ssl

import pytest
import trio

from relay import connect
from relay.config import RelayConfig
from relay.doorway import linger
from relay.endpoint import Endpoint
from relay.errors import RelayUnreachable
from relay.frame_types import FrameClass, Ping, Send
from relay.frames import encode_frame
from relay.gate import GateLimits
from relay.greetings import DenyCode, encode_auth, parse_challenge
from relay.handshake import answer_challenge
from relay.streams import TcpStream
from relay.tls import pinning_context
from tests.support.nodes import until
from tests.support.phones import CARRIER, phone
from tests.support.relays import (
    PLAINTEXT,
    RawPeer,
    credentials,
    joined,
    key,
    plain_config,
    raw_peer,
    running_relay,
    tls_config,
    wall_us,
)
from tests.support.trio_test import trio_test

SEND = encode_frame(
    Send(
        destination=key(2).peer_id,
        payload=b"payload",
        frame_class=FrameClass.INTERACTIVE,
        flow=1,
        ttl_ms=0,
        nack=True,
    )
)


async def opened(port: int) -> TcpStream:
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    return TcpStream(socket.socket(fileno=stream.socket.detach()))


async def seconds_until_closed(stream: TcpStream) -> float:
    started = trio.current_time()
    try:
        while await stream.receive_some():
            pass
    except trio.BrokenResourceError:
        pass
    stream.close()
    return trio.current_time() - started


@pytest.mark.parametrize(
    "first_bytes", [b"", b"GET", b"GET /relay HTTP/1.1\r\nHost: x\r\n"]
)
def test_a_request_has_five_seconds(first_bytes: bytes) -> None:
    @trio_test(autojump=True)
    async def main() -> None:
        async with running_relay() as relay:
            stream = await opened(relay.port)
            await stream.send_all(first_bytes)
            assert await seconds_until_closed(stream) == pytest.approx(5.0, abs=0.1)
        assert relay.counters.refused["too slow"] == 1

    main()


@pytest.mark.parametrize("n_bytes", [0, 50])
def test_tls_has_the_same_five_seconds(n_bytes: int) -> None:
    @trio_test(autojump=True)
    async def main() -> None:
        async with running_relay(tls_config()) as relay:
            stream = await opened(relay.port)
            await stream.send_all(client_hello()[:n_bytes])
            assert await seconds_until_closed(stream) == pytest.approx(5.0, abs=0.1)
        assert relay.counters.refused["too slow"] == 1

    main()


def client_hello() -> bytes:
    outgoing = ssl.MemoryBIO()
    tls = pinning_context().wrap_bio(ssl.MemoryBIO(), outgoing)
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


@trio_test(autojump=True)
async def test_the_proof_has_five_seconds_more() -> None:
    async with running_relay() as relay, raw_peer(relay) as raw:
        await raw.upgrade()
        await raw.message()
        waited = await seconds_until_closed(raw.stream)
        assert waited == pytest.approx(5.0, abs=0.1)
    assert relay.counters.refused["too slow"] == 1


@trio_test(autojump=True)
async def test_an_admitted_peer_outlives_the_deadlines() -> None:
    def clock() -> int:
        return wall_us() + int(trio.current_time() * 1e6)

    async with running_relay() as relay:
        endpoint, who = relay.endpoint("127.0.0.1"), credentials(key(1))
        async with connect(
            endpoint, who, wall_us=clock, settings=PLAINTEXT
        ) as connection:
            await trio.sleep(600)  # faults B26: ten minutes idle, no disconnect
            connection.send(key(1).peer_id, b"still here")
            event = await anext(connection.events())
            assert event.payload == b"still here"
            assert relay.counters.admitted == 1


@pytest.mark.parametrize(
    "message",
    [
        SEND,
        encode_frame(Ping(nonce=bytes(8))),
        b"",
        b"\x21",
        b"\x80\x04\x95",
        b"\x21" + bytes(2100),
    ],
)
def test_b25_a_message_before_authentication_closes_with_1008(message, caplog) -> None:
    caplog.set_level(logging.INFO)

    async def main() -> None:
        async with running_relay() as relay:
            async with raw_peer(relay) as raw:
                await raw.upgrade()
                await raw.message()
                await raw.send(message)
                assert await raw.close_code() == 1008
        assert relay.counters.accepted == 0
        assert relay.counters.refused["protocol"] == 1

    trio.run(main)
    assert len([r for r in caplog.records if r.name == "p2pmoe.relay"]) == 1


@trio_test
async def test_b25_text_and_oversized_first_messages() -> None:
    async with running_relay() as relay:
        async with raw_peer(relay) as raw:
            await raw.upgrade()
            raw.protocol.send_text(b"hello")
            await raw.flush()
            assert await raw.close_code() == 1008
        async with raw_peer(relay) as raw:
            await raw.upgrade()
            await raw.send(bytes(73 * 1024))
            assert await raw.close_code() == 1009


@trio_test
async def test_b39_a_weak_key_is_denied_in_words() -> None:
    neutral = b"\x01" + bytes(31)
    async with running_relay() as relay, raw_peer(relay) as raw:
        await raw.upgrade()
        challenge = parse_challenge(await raw.message())
        auth = answer_challenge(challenge, credentials(key(1)), "127.0.0.1", bytes(16))
        forged = bytearray(encode_auth(auth))
        forged[1:33] = neutral
        forged[-64:] = neutral + bytes(32)
        await raw.send(bytes(forged))
        deny = await raw.message()
        assert deny[:2] == b"\x23\x01"
        assert b"small order" in deny
        assert await raw.close_code() == 1008


@trio_test
async def test_an_auth_replayed_on_another_connection_is_denied() -> None:
    async with running_relay() as relay:
        async with raw_peer(relay) as raw:
            await raw.upgrade()
            challenge = parse_challenge(await raw.message())
            auth = encode_auth(
                answer_challenge(challenge, credentials(key(1)), "127.0.0.1", bytes(16))
            )
            await raw.send(auth)
            assert (await raw.message())[0] == 0x22
        async with raw_peer(relay) as raw:
            await raw.upgrade()
            await raw.message()
            await raw.send(auth)
            assert (await raw.message())[:2] == b"\x23\x02"


@trio_test
async def test_frames_right_behind_the_proof_are_not_lost() -> None:
    async with running_relay() as relay, raw_peer(relay) as raw:
        await raw.upgrade()
        challenge = parse_challenge(await raw.message())
        auth = answer_challenge(challenge, credentials(key(1)), "127.0.0.1", bytes(16))
        raw.protocol.send_binary(encode_auth(auth))
        raw.protocol.send_binary(SEND)
        await raw.flush()
        assert (await raw.message())[0] == 0x22
        assert (await raw.message())[:2] == b"\x12\x01"


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 200 + b"\r\n",
        b"\x16\x03\x01" + bytes(200) + b"\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello",
        b"GET / HTTP/9\r\n\r\n",
    ],
)
def test_b25_bad_requests_are_answered_and_end_nothing_else(request_bytes) -> None:
    async def main() -> None:
        async with running_relay() as relay:
            stream = await opened(relay.port)
            await stream.send_all(request_bytes)
            answer = b"".join([part async for part in stream])
            await stream.aclose()
            assert answer.startswith(b"HTTP/1.1 4")
            async with joined(relay, key(1)):
                pass
        refused = relay.counters.refused
        assert refused["request"] + refused["request too long"] == 1

    trio.run(main)


@trio_test
async def test_an_upgrade_without_our_subprotocol_is_refused() -> None:
    async with running_relay() as relay:
        async with raw_peer(relay) as opened_peer:
            raw = RawPeer(opened_peer.stream, relay.port)
            raw.protocol.available_subprotocols = None
            raw.protocol.send_request(raw.protocol.connect())
            await raw.flush()
            assert b"400 Bad Request" in await raw.stream.receive_some()
    assert relay.counters.refused["upgrade"] == 1


@trio_test
async def test_behind_a_front_the_address_is_what_the_front_says() -> None:
    async with running_relay() as relay, raw_peer(relay) as raw:
        request = raw.protocol.connect()
        request.headers["X-Forwarded-For"] = "10.0.0.1, 192.0.2.9"
        raw.protocol.send_request(request)
        await raw.flush()
        challenge = parse_challenge(await raw.message())
        auth = answer_challenge(challenge, credentials(key(1)), "127.0.0.1", bytes(16))
        await raw.send(encode_auth(auth))
        assert b"192.0.2.9" in await raw.message()


SCARCE = {"per_address_burst": 1, "per_address_s": 1e-6}


def behind_front(**changes) -> RelayConfig:
    return plain_config(gate=GateLimits(**(SCARCE | changes)))


@trio_test
async def test_above_the_rate_of_the_address_that_a_front_names() -> None:
    async with running_relay(behind_front(lane_open=0)) as relay:
        async with phone(relay, key(1)) as first, phone(relay, key(2)) as second:
            assert first.welcome is not None
            assert b"429 Too Many" in second.http
            assert b"Retry-After: 5" in second.http
        spoofed = f"198.51.100.1, {CARRIER}"
        async with phone(relay, key(3), forwarded=spoofed) as third:
            assert b"429 Too Many" in third.http
        async with phone(relay, key(3), forwarded="198.51.100.1") as fourth:
            assert fourth.welcome is not None
            assert fourth.welcome.observed_address == "198.51.100.1"
    assert relay.counters.refused["address rate"] == 2


@trio_test
async def test_b34_identities_behind_one_address_have_one_network_prefix() -> None:
    async with running_relay(plain_config()) as relay:
        spoofed = "198.51.100.1, 9.9.9.77"  # only what the front itself adds counts
        async with (
            phone(relay, key(1), forwarded="9.9.9.9"),
            phone(relay, key(2), forwarded=spoofed),
            phone(relay, key(3), forwarded="2620:fe:7:1::9"),
            phone(relay, key(4), forwarded=""),
        ):
            peers = relay.switch.registry.active
            await until(lambda: len(peers) == 4)
            prefixes = [peers[key(number).peer_id].prefix for number in (1, 2, 3, 4)]
    assert prefixes == ["9.9.9.0/24", "9.9.9.0/24", "2620:fe:7::/48", ""]


@trio_test
async def test_who_was_here_before_comes_in_by_its_ticket() -> None:
    async with running_relay(behind_front()) as relay:
        async with phone(relay, key(1)) as first:
            assert first.welcome is not None
            ticket = first.welcome.ticket
        async with phone(relay, key(1)) as without:
            assert b"429" in without.http
        async with phone(relay, key(1), ticket=b"x" * 73) as forger:
            assert b"429" in forger.http
        async with phone(relay, key(1), ticket=ticket) as again:
            assert again.welcome is not None
            assert again.raw.protocol.subprotocol == "p2pmoe-relay.v1"
        async with phone(relay, key(2), ticket=ticket) as thief:
            assert thief.deny is not None
            assert thief.deny.code == DenyCode.BUSY
            assert "another peer's" in thief.deny.text
    assert relay.counters.refused["no ticket"] == 2
    assert relay.counters.refused["denied"] == 1


@trio_test
async def test_a_ticket_holds_over_a_restart_and_for_so_many_attempts() -> None:
    async with running_relay() as relay, phone(relay, key(1)) as first:
        assert first.welcome is not None
        ticket = first.welcome.ticket
    config = behind_front(per_address_open=0, lane_peer_burst=3)
    async with running_relay(config) as relay:
        for _ in range(3):
            async with phone(relay, key(1), ticket=ticket) as again:
                assert again.welcome is not None
        async with phone(relay, key(1), ticket=ticket) as too_often:
            assert b"429" in too_often.http


@trio_test
async def test_failures_in_the_lane_cost_the_address() -> None:
    config = behind_front(per_address_open=0, lane_address_burst=3)
    async with running_relay(config) as relay:
        for _ in range(5):
            async with phone(relay, key(1)) as refused:
                assert b"429" in refused.http
    assert relay.counters.refused["no ticket"] == 3
    assert relay.counters.refused["address rate"] == 2


@trio_test
async def test_pages_count_to_the_address_too() -> None:
    async with running_relay(behind_front()) as relay:
        for status in (b"200", b"429"):
            stream = await opened(relay.port)
            head = f"GET /livez HTTP/1.1\r\nX-Forwarded-For: {CARRIER}\r\n\r\n"
            await stream.send_all(head.encode())
            assert status in await stream.receive_some()
            stream.close()


@trio_test
async def test_only_configured_fronts_are_believed() -> None:
    config = tls_config(gate=GateLimits(**SCARCE))
    async with running_relay(config) as relay:  # loopback is no front here
        endpoint = relay.endpoint("127.0.0.1")
        async with joined(endpoint, key(1)), joined(endpoint, key(2)) as second:
            assert second.welcome.observed_address.startswith("127.0.0.1:")


@trio_test
async def test_shards_of_the_path_are_the_relay_too() -> None:
    async with running_relay(plain_config(path="/relay")) as relay:
        url = relay.endpoint("127.0.0.1").url + "/2"
        async with joined(Endpoint(url, relay.relay_id), key(1)):
            assert relay.counters.admitted == 1


@trio_test
async def test_a_process_of_one_shard_serves_no_other_path() -> None:
    async with running_relay(plain_config(shard=3)) as relay:
        endpoint = relay.endpoint("127.0.0.1")
        assert endpoint.url.endswith("/relay/3")
        async with joined(endpoint, key(1)):
            assert relay.counters.admitted == 1
        for path in ("", "/2", "/3/1"):
            url = endpoint.url.removesuffix("/3") + path
            with pytest.raises(RelayUnreachable, match="HTTP 404"):
                async with joined(Endpoint(url, relay.relay_id), key(1)):
                    pass


@trio_test
async def test_who_floods_is_not_read_for_long() -> None:
    class Flooded:
        n_reads = 0

        async def send_eof(self) -> None:
            await trio.lowlevel.checkpoint()

        async def receive_some(self, n_bytes: int) -> bytes:
            await trio.lowlevel.checkpoint()
            self.n_reads += 1
            return bytes(n_bytes)

    transport = Flooded()
    await linger(transport)
    assert transport.n_reads == 16
