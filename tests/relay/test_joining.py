"""A peer's way in, at servers that are no relay or say no."""

from collections.abc import Awaitable, Callable
from functools import partial

import pytest
import trio

from relay import connect
from relay.endpoint import Endpoint
from relay.errors import (
    HandshakeRefused,
    RelayUnreachable,
    TokenRefused,
    WrongRelayId,
)
from relay.greetings import DenyCode
from relay.tokens import Role
from tests.support.relays import (
    NETWORK,
    PLAINTEXT,
    RELAY,
    credentials,
    joined,
    key,
    plain_config,
    running_relay,
    token_for,
    wall_us,
)
from tests.support.trio_test import trio_test

Handler = Callable[[trio.SocketStream], Awaitable[None]]


async def refusal_of(handler: Handler) -> RelayUnreachable:
    """Try to join at a server made of `handler`; the error it ends in."""
    async with trio.open_nursery() as nursery:
        [listener] = await nursery.start(
            partial(trio.serve_tcp, handler, 0, host="127.0.0.1")
        )
        port = listener.socket.getsockname()[1]
        with pytest.raises(RelayUnreachable) as caught:
            async with joined(Endpoint(f"ws://127.0.0.1:{port}/relay"), key(1)):
                pass
        nursery.cancel_scope.cancel()
    assert f"127.0.0.1:{port}" in str(caught.value)
    return caught.value


def answering(status: str) -> Handler:
    async def handler(stream: trio.SocketStream) -> None:
        await stream.receive_some(65536)
        answer = f"HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n"
        await stream.send_all(answer.encode())

    return handler


@pytest.mark.parametrize(
    ("status", "message", "advice"),
    [
        ("407 Proxy Authentication Required", "password", "HTTPS_PROXY"),
        ("426 Upgrade Required", "proxy removes it", "wss on port 443"),
        ("101 Switching Protocols", "proxy removes it", "headers Upgrade"),
        ("403 Forbidden", "something on the way", "allow WebSockets"),
        ("511 Network Authentication Required", "login page", "log in"),
        ("404 Not Found", "no relay at this path", "URL"),
        ("503 Service Unavailable", "takes no connection now", "URL"),
        ("200 OK", "no relay at this path", "URL"),
    ],
)
def test_b26_each_refusal_names_what_to_change(status, message, advice) -> None:
    async def main() -> None:
        error = await refusal_of(answering(status))
        assert message in str(error)
        assert advice in error.advice
        assert "\n" not in str(error)

    trio.run(main)


@trio_test
async def test_b26_a_proxy_that_removes_the_upgrade_header() -> None:
    """In front of a real relay, whose answer the client then explains."""
    async with running_relay() as relay:

        async def strip(stream: trio.SocketStream) -> None:
            lines = (await stream.receive_some(65536)).split(b"\r\n")
            kept = [line for line in lines if not line.startswith(b"Upgrade:")]
            async with await trio.open_tcp_stream("127.0.0.1", relay.port) as upstream:
                await upstream.send_all(b"\r\n".join(kept))
                await stream.send_all(await upstream.receive_some(65536))

        error = await refusal_of(strip)
    assert "a proxy removes it" in str(error)
    assert "Upgrade and Connection" in error.advice


@trio_test
async def test_b26_a_server_that_speaks_http2_alone() -> None:
    async def http2(stream: trio.SocketStream) -> None:
        await stream.receive_some(65536)
        await stream.send_all(b"\x00\x00\x06\x04\x00\x00\x00\x00\x00" + bytes(6))
        await trio.sleep_forever()

    error = await refusal_of(http2)
    assert "HTTP/2 alone" in str(error)
    assert "ALPN" in error.advice


@trio_test
async def test_a_server_that_hangs_up() -> None:
    async def hang_up(stream: trio.SocketStream) -> None:
        await stream.receive_some(65536)

    assert "closed the connection" in str(await refusal_of(hang_up))


@trio_test
async def test_a_server_that_speaks_something_else() -> None:
    async def smtp(stream: trio.SocketStream) -> None:
        await stream.send_all(b"220 mail.example.org ESMTP\r\n\r\n")
        await stream.receive_some(65536)

    assert "no valid answer" in str(await refusal_of(smtp))


@trio_test(autojump=True)
async def test_a_server_that_says_nothing_is_given_five_seconds() -> None:
    async def silent(_stream: trio.SocketStream) -> None:
        await trio.sleep_forever()

    started = trio.current_time()
    assert "in time" in str(await refusal_of(silent))
    assert trio.current_time() - started == pytest.approx(5.0, abs=0.1)


@trio_test
async def test_another_relay_than_the_pinned_one() -> None:
    async with running_relay() as relay:
        url = relay.endpoint("127.0.0.1").url
        with pytest.raises(WrongRelayId, match=RELAY.peer_id.hex()[:8]):
            async with joined(Endpoint(url, key(9).peer_id), key(1)):
                pass


CLOSED = plain_config(open=False, network=NETWORK.peer_id)


@pytest.mark.parametrize(
    ("token", "code"),
    [
        (b"", DenyCode.TOKEN_MISSING),
        (b"nonsense", DenyCode.TOKEN_MALFORMED),
        (token_for(key(1), network=key(9).peer_id), DenyCode.TOKEN_FOREIGN),
        (token_for(key(1))[:-64] + bytes(64), DenyCode.TOKEN_FORGED),
        (token_for(key(1), not_after_us=1), DenyCode.TOKEN_EXPIRED),
        (token_for(key(2)), DenyCode.TOKEN_NOT_YOURS),
        (token_for(key(1), relay_id=key(9).peer_id), DenyCode.TOKEN_OTHER_RELAY),
        (token_for(key(1), role=Role.LEDGER), DenyCode.TOKEN_OTHER_ROLE),
    ],
)
def test_wrong_network_token(token: bytes, code: DenyCode) -> None:
    async def main() -> None:
        async with running_relay(CLOSED) as relay:
            with pytest.raises(TokenRefused) as caught:
                async with joined(relay, key(1), token=token):
                    pass
        assert relay.counters.refused["denied"] == 1
        assert caught.value.code == code
        assert caught.value.advice
        assert "token" in str(caught.value)

    trio.run(main)


@trio_test
async def test_a_good_token_and_the_descriptor_it_is_handed() -> None:
    config = plain_config(
        open=False, network=NETWORK.peer_id, descriptor=b"signed text"
    )
    async with running_relay(config) as relay:
        who = {"token": token_for(key(1)), "wall_us": wall_us}
        async with joined(relay, key(1), **who) as connection:
            assert connection.welcome.descriptor == b"signed text"
            assert connection.welcome.skew_us == 0
            address = connection.welcome.observed_address
            assert address.startswith("127.0.0.1:")


@trio_test
async def test_a_relay_that_answers_to_another_name() -> None:
    config = plain_config(hosts=frozenset({"relay.example.org"}))
    async with running_relay(config) as relay:
        with pytest.raises(HandshakeRefused, match="this relay is not") as caught:
            async with joined(relay, key(1)):
                pass
    assert caught.value.code == DenyCode.WRONG_HOST


@trio_test
async def test_b28_a_clock_that_is_wrong_joins_and_is_told() -> None:
    async with running_relay() as relay:
        endpoint = relay.endpoint("127.0.0.1")
        for skew_s in (600, -86_400):
            clock = partial_clock(wall_us() + skew_s * 1_000_000)
            async with connect(
                endpoint, credentials(key(1)), wall_us=clock, settings=PLAINTEXT
            ) as connection:
                told_s = connection.welcome.skew_us / 1e6
                assert told_s == pytest.approx(skew_s, abs=0.01)


def partial_clock(us: int) -> Callable[[], int]:
    return lambda: us
