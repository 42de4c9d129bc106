"""The relay as a whole: the port, limits on handshakes, duplicates, the drain."""

import socket
from functools import partial

import pytest
import trio
import trio.testing

from relay import (
    ConfigError,
    ConnectionLost,
    ListenError,
    Received,
    RelayRestarting,
    RelayStatus,
    RelayUnreachable,
    StatusCode,
    TokenRefused,
    connect,
    serve,
)
from relay.gate import GateLimits
from relay.live import LiveSettings
from relay.relay_map import RelayEntry, RelayMap, sign_map
from relay.revocations import Revocations, token_hash
from tests.support.nodes import until
from tests.support.relays import (
    NETWORK,
    PLAINTEXT,
    credentials,
    joined,
    key,
    plain_config,
    raw_peer,
    running_relay,
    tls_config,
    token_for,
    wall_us,
)
from tests.support.trio_test import trio_test

A, B = key(1), key(2)


@trio_test
async def test_a_free_port_is_reported_and_the_endpoint_pins_the_id() -> None:
    async with running_relay(tls_config()) as relay:
        assert relay.port > 0
        endpoint = relay.endpoint("127.0.0.1")
        assert endpoint.url == f"wss://127.0.0.1:{relay.port}/relay"
        assert endpoint.relay_id == relay.relay_id
        assert relay.endpoint("::1").url.startswith("wss://[::1]:")


@trio_test
async def test_port_in_use_is_one_error_and_no_group() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        config = plain_config(port=other.getsockname()[1])
        with pytest.raises(ListenError, match="already in use") as caught:
            await serve(config, wall_us=wall_us)
    assert caught.value.exit_code == 2
    with pytest.raises(ConfigError):
        await serve(plain_config(open=False), wall_us=wall_us)


@trio_test
async def test_an_inside_listener_for_roles_of_the_same_process() -> None:
    async with running_relay(plain_config(inside=True)) as relay:
        assert relay.inside is not None
        assert relay.inside.secure
        async with joined(relay.inside, A) as a, joined(relay, B) as b:
            a.send(B.peer_id, b"from inside")
            assert isinstance(await anext(b.events()), Received)


@trio_test
async def test_so_many_handshakes_at_once() -> None:
    async with running_relay(plain_config(max_handshakes=3)) as relay:
        streams = [await trio.open_tcp_stream("127.0.0.1", relay.port) for _ in "123"]
        await trio.testing.wait_all_tasks_blocked(0.01)
        with pytest.raises(RelayUnreachable):
            async with joined(relay, A):
                pass
        assert relay.counters.refused["handshakes"] == 1
        await streams[0].aclose()
        await trio.testing.wait_all_tasks_blocked(0.01)
        async with joined(relay, A), joined(relay, B):
            pass
        for stream in streams[1:]:
            await stream.aclose()


@trio_test
async def test_new_connections_have_a_rate() -> None:
    gate = GateLimits(all_s=0.001, all_burst=2)
    async with running_relay(plain_config(gate=gate)) as relay:
        async with joined(relay, A), joined(relay, B):
            with pytest.raises(RelayUnreachable):
                async with joined(relay, key(3)):
                    pass
        assert relay.counters.refused["address rate"] == 1


@trio_test
async def test_an_id_that_comes_twice_newest_wins() -> None:
    async with (
        running_relay() as relay,
        joined(relay, B) as sender,
        joined(relay, A) as older,
    ):
        async with joined(relay, A) as newer:
            event = await anext(older.events())
            assert isinstance(event, RelayStatus)
            assert event.code is StatusCode.DUPLICATE_ID
            sender.send(A.peer_id, b"to the newest")
            assert (await anext(newer.events())).payload == b"to the newest"
        event = await anext(older.events())
        assert isinstance(event, RelayStatus)
        assert event.code is StatusCode.OK
        sender.send(A.peer_id, b"to the one left")
        assert (await anext(older.events())).payload == b"to the one left"


@trio_test(autojump=True)
async def test_the_older_of_two_is_closed_after_ten_seconds() -> None:
    async with running_relay() as relay, joined(relay, A) as older:
        async with joined(relay, A):
            started = trio.current_time()
            await anext(older.events())
            with pytest.raises(ConnectionLost, match="newer connection"):
                await anext(older.events())
            assert trio.current_time() - started == pytest.approx(10, abs=1)


@pytest.mark.parametrize("tls", [False, True])
def test_a_drain_tells_everybody_and_what_waits_leaves(tls: bool) -> None:
    async def main() -> None:
        config = tls_config() if tls else plain_config()
        async with trio.open_nursery() as nursery:
            relay = await nursery.start(partial(serve, config, wall_us=wall_us))
            async with joined(relay, A) as a, joined(relay, B) as b:
                a.send(B.peer_id, bytes(60_000))
                await until(lambda: relay.counters.accepted)
                nursery.cancel_scope.cancel()
                with trio.CancelScope(shield=True):
                    events = [event async for event in until_lost(b)]
        assert isinstance(events[0], Received)
        assert isinstance(events[1], RelayRestarting)
        assert events[1].try_for_ms == 60_000
        assert "stops" in str(events[2])

    trio.run(main)


async def until_lost(connection):
    try:
        async for event in connection.events():
            yield event
    except ConnectionLost as exc:
        yield exc


@trio_test(autojump=True)
async def test_b29_a_drain_with_a_stuck_peer_is_bounded() -> None:
    async with trio.open_nursery() as nursery:
        config = plain_config(drain_s=0.5)
        relay = await nursery.start(partial(serve, config, wall_us=wall_us))
        async with raw_peer(relay, A), joined(relay, B) as b:
            for _ in range(30):
                b.send(A.peer_id, bytes(60_000))
            await until(lambda: relay.counters.accepted)
            started = trio.current_time()
            nursery.cancel_scope.cancel()
            with trio.CancelScope(shield=True):
                assert [event async for event in until_lost(b)]
    assert trio.current_time() - started <= 1.6  # 0.5 s, and a second to linger


@trio_test
async def test_new_settings_reach_those_who_are_connected() -> None:
    token = token_for(A)
    config = plain_config(open=False, network=NETWORK.peer_id)
    async with running_relay(config) as relay:
        async with (
            joined(relay, A, token=token) as a,
            joined(relay, B, token=token_for(B)) as b,
        ):
            assert a.welcome.map_version == 0
            revoked = Revocations(tokens=frozenset({token_hash(token)}))
            applied = relay.apply(LiveSettings(revoked=revoked, relay_map=MAP))
            assert (applied.n_revoked, relay.live.map_version) == (1, 4)
            last = [event async for event in until_lost(a)]
            assert [event.text for event in last[:-1]] == [
                "the network token was revoked"
            ]
            assert "the network token was revoked" in str(last[-1])
            assert (await anext(b.events())).code is StatusCode.NEW_MAP
            with pytest.raises(TokenRefused, match="was revoked"):
                async with joined(relay, A, token=token):
                    pass
            async with joined(relay, A, token=token_for(A, serial=2)) as again:
                assert again.welcome.map_version == 4
        stream = await trio.open_tcp_stream("127.0.0.1", relay.port)
        await stream.send_all(b"GET /map HTTP/1.1\r\nHost: x\r\n\r\n")
        answer = await stream.receive_some()
        assert answer.endswith(MAP.encoded)
        await stream.aclose()


MAP = sign_map(
    RelayMap(
        network=NETWORK.peer_id,
        version=4,
        entries=(RelayEntry("wss://relay.example/relay", key(7).peer_id),),
    ),
    NETWORK.sign,
)


@trio_test(autojump=True)
async def test_a_connection_ends_with_its_token() -> None:
    def clock() -> int:
        return wall_us() + int(trio.current_time() * 1e6)

    who = credentials(A, token=token_for(A, not_after_us=clock() + 300_500_000))
    config = plain_config(open=False, network=NETWORK.peer_id)
    async with running_relay(config, wall_us=clock) as relay:
        endpoint = relay.endpoint("127.0.0.1")
        async with connect(endpoint, who, wall_us=clock, settings=PLAINTEXT) as a:
            assert a.welcome.limits.lease_s == 301
            began = trio.current_time()
            warning = await anext(a.events())
            assert warning.code is StatusCode.LEASE_ENDING
            assert trio.current_time() - began == pytest.approx(241, abs=1)
            with pytest.raises(ConnectionLost, match="token has expired"):
                await anext(a.events())
            assert trio.current_time() - began == pytest.approx(301, abs=1)
