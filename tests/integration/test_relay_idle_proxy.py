"""Faults B26: a proxy on the way that drops connections on which nothing moves.

On a clock that jumps: 55 s of patience, ten idle minutes, nobody dropped, whoever of
the two ends does the pinging. Then the same against real time, with all times short,
and the control: without pings that proxy does drop.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

import pytest
import trio

from relay import (
    ClientSettings,
    ConnectionLost,
    Credentials,
    Endpoint,
    RateClass,
    Received,
    Role,
    RunningRelay,
    connect,
)
from tests.support.relays import (
    NETWORK,
    RELAY,
    key,
    plain_config,
    running_relay,
    token_for,
    wall_us,
)
from tests.support.trio_test import trio_test

PEER = key(1)
NEVER_S = 1e6
N_LOOKS = 20  # of the proxy, in the time that it is patient


def clock() -> int:
    """A wall clock that goes with trio's, so that nobody seems to have slept."""
    return wall_us() + int(trio.current_time() * 1e6)


@dataclass(slots=True)
class Idle:
    """How often the proxy has looked at a connection since a byte moved on it."""

    n_looks: int = 0


class IdleProxy:
    """Carries bytes both ways; `n_dropped` counts connections dropped for idleness.

    It counts looks, not time: where the process stands still, ends and proxy do alike.
    """

    def __init__(self, target: int, patience_s: float) -> None:
        self.n_dropped = 0
        self._target = target
        self._patience_s = patience_s

    async def serve(self, near: trio.SocketStream) -> None:
        far = await trio.open_tcp_stream("127.0.0.1", self._target)
        async with far:
            async with trio.open_nursery() as watched:
                idle = Idle()
                watched.start_soon(self._watch, idle, watched.cancel_scope)
                async with trio.open_nursery() as both_ways:
                    both_ways.start_soon(self._carry, near, far, idle)
                    both_ways.start_soon(self._carry, far, near, idle)
                watched.cancel_scope.cancel()

    async def _watch(self, idle: Idle, scope: trio.CancelScope) -> None:
        while idle.n_looks < N_LOOKS:
            await trio.sleep(self._patience_s / N_LOOKS)
            idle.n_looks += 1
        self.n_dropped += 1
        scope.cancel()

    async def _carry(
        self, source: trio.SocketStream, sink: trio.SocketStream, idle: Idle
    ) -> None:
        try:
            while chunk := await source.receive_some():
                idle.n_looks = 0
                await sink.send_all(chunk)
            await sink.send_eof()
        except trio.BrokenResourceError:
            return


@asynccontextmanager
async def through_proxy(
    patience_s: float,
) -> AsyncIterator[tuple[RunningRelay, IdleProxy, Endpoint]]:
    """A relay of a network behind such a proxy, and the way through it."""
    config = plain_config(open=False, network=NETWORK.peer_id)
    async with running_relay(config) as relay, trio.open_nursery() as nursery:
        proxy = IdleProxy(relay.port, patience_s)
        [listener] = await nursery.start(
            partial(trio.serve_tcp, proxy.serve, 0, host="127.0.0.1")
        )
        port = listener.socket.getsockname()[1]
        yield relay, proxy, Endpoint(f"ws://127.0.0.1:{port}/relay", RELAY.peer_id)
        nursery.cancel_scope.cancel()


def peer_of(rate_class: RateClass) -> Credentials:
    token = token_for(PEER, rate_class=rate_class)
    return Credentials(
        peer_id=PEER.peer_id, sign=PEER.sign, role=Role.WORKER, token=token
    )


@pytest.mark.parametrize("rate_class", [RateClass.PHONE, RateClass.LAPTOP])
@pytest.mark.parametrize("client_pings", [True, False])
def test_b26_ten_idle_minutes_and_nobody_is_dropped(
    rate_class: RateClass, client_pings: bool
) -> None:
    settings = ClientSettings(allow_plaintext=True)
    if not client_pings:
        settings = ClientSettings(allow_plaintext=True, ping_interval_s=NEVER_S)

    @trio_test(autojump=True)
    async def main() -> None:
        async with through_proxy(55.0) as (relay, proxy, endpoint):
            who = peer_of(rate_class)
            async with connect(
                endpoint, who, wall_us=clock, settings=settings
            ) as connection:
                await trio.sleep(600)
                connection.send(PEER.peer_id, b"still here")
                assert isinstance(await anext(connection.events()), Received)
                assert relay.counters.admitted == 1
            assert proxy.n_dropped == 0

    main()


@pytest.mark.slow
@trio_test
async def test_b26_against_real_time() -> None:
    async with through_proxy(3.0) as (relay, proxy, endpoint):
        quick = ClientSettings(allow_plaintext=True, ping_interval_s=0.3)
        who = peer_of(RateClass.LAPTOP)
        async with connect(endpoint, who, wall_us=clock, settings=quick) as connection:
            await trio.sleep(6.0)
            connection.send(PEER.peer_id, b"still here")
            assert isinstance(await anext(connection.events()), Received)
        assert proxy.n_dropped == 0
        silent = ClientSettings(allow_plaintext=True, ping_interval_s=NEVER_S)
        async with connect(endpoint, who, wall_us=clock, settings=silent) as connection:
            with trio.fail_after(60), pytest.raises(ConnectionLost):
                await anext(connection.events())
        assert proxy.n_dropped == 1
        assert relay.counters.admitted == 2
