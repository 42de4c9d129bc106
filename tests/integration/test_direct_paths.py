"""Direct links that stall, break and are slow, on real sockets beside a real relay.

Exact times are tested with clocks moved by hand (links/test_proving, test_b24_bulk);
here they are bounds that a busy machine keeps as well.
"""

import contextlib
from collections.abc import AsyncIterator

import pytest
import trio

from mobile_worker.links import Arrived, PathKind, PeerLost, open_node
from mobile_worker.links.linked_node import LinkedNode
from mobile_worker.messages import Blob, Cancel, MessageClass
from relay.endpoint import parse_endpoint
from tests.support.injector.conditions import NEAR, Link, Path, Stall, distance
from tests.support.injector.proxy import Injector, injected
from tests.support.nodes import echo, next_arrival, settings_of, until
from tests.support.ports import reserved_port
from tests.support.relays import running_relay, tls_config
from tests.support.trio_test import trio_test

pytestmark = pytest.mark.slow

STALL_S = 8.0  # what is left after about a second is left before this ends
STALLED = Path(stalls=(Stall(at_s=0.0, for_s=STALL_S),))
SLOW = Path(delay_s=0.05, bytes_s=5e6 / 8)
SHARD_BYTES = 1 << 20
BEAT_S, LATE_S = 0.025, 2.0


@contextlib.asynccontextmanager
async def nodes_near() -> AsyncIterator[tuple[LinkedNode, LinkedNode, Injector]]:
    """Two nodes at one relay, far away; the second is also reached directly.

    The injector stands on that direct way.
    """
    with reserved_port() as port:
        async with (
            running_relay(tls_config()) as relay,
            injected("127.0.0.1", port, NEAR) as injector,
            injected("127.0.0.1", relay.port, distance(0.02)) as way_to_relay,
        ):
            endpoint = relay.endpoint("127.0.0.1")
            there = str(endpoint).replace(f":{relay.port}", f":{way_to_relay.port}")
            far = settings_of(
                2,
                relay=endpoint,
                listen=f"127.0.0.1:{port}",
                advertise=(f"127.0.0.1:{injector.port}",),
            )
            near = settings_of(1, relay=parse_endpoint(there))
            async with open_node(near) as a, open_node(far) as b:
                a.send(b.peer_id, Cancel(request=0))
                await next_arrival(b)
                await until(lambda: a.path(b.peer_id) is PathKind.DIRECT)
                await until(lambda: b.path(a.peer_id) is PathKind.DIRECT)
                yield a, b, injector


def blob(size: int) -> Blob:
    return Blob(
        request=1, digest=bytes(32), offset=0, total=size, error=0, body=bytes(size)
    )


async def longest_wait(a: LinkedNode, peer: bytes, until_path: PathKind) -> float:
    """Ask and be answered until `until_path` is in use; return the longest wait."""
    longest, request = 0.0, 0
    with trio.fail_after(60):
        while True:
            request += 1
            began = trio.current_time()
            a.send(peer, Cancel(request=request))
            while True:
                with trio.move_on_after(0.5):  # what was lost on the way is asked again
                    if (await next_arrival(a)).message.request == request:
                        break
                a.send(peer, Cancel(request=request))
            longest = max(longest, trio.current_time() - began)
            if a.path(peer) is until_path:
                return longest
            await trio.sleep(0.01)


@trio_test
async def test_a_direct_link_that_stalls_is_left_and_taken_back() -> None:
    async with nodes_near() as (a, b, injector), trio.open_nursery() as nursery:
        nursery.start_soon(echo, b)
        peer = b.peer_id
        session_id = a._peers[peer].session.session_id
        injector.change(Link(up=STALLED, down=STALLED))
        assert await longest_wait(a, peer, PathKind.RELAY) < STALL_S
        assert a._peers[peer].links, "the link is kept"
        await longest_wait(a, peer, PathKind.DIRECT)
        assert a._peers[peer].session.session_id == session_id
        assert a.traffic.n_refused <= 5
        nursery.cancel_scope.cancel()


@trio_test
async def test_a_direct_link_that_breaks_loses_nobody_and_is_dialled_again() -> None:
    async with nodes_near() as (a, b, injector), trio.open_nursery() as nursery:
        nursery.start_soon(echo, b)
        peer = b.peer_id
        first = a._peers[peer].links[0]
        injector.change(Link(up=Path(kill_at_s=0.0)))
        await until(lambda: first not in a._peers[peer].links)
        injector.change(NEAR)
        assert await longest_wait(a, peer, PathKind.DIRECT) < STALL_S
        assert not [e for e, _ in a.arrivals()._events if isinstance(e, PeerLost)]
        nursery.cancel_scope.cancel()


@trio_test
async def test_b24_heartbeats_pass_shards_on_a_slow_direct_link() -> None:
    async with nodes_near() as (a, b, injector), trio.open_nursery() as nursery:
        injector.change(Link(up=SLOW, down=SLOW))
        for _ in range(2):
            a.send(b.peer_id, blob(SHARD_BYTES), message_class=MessageClass.BULK)
        n_sent = n_shards = 0
        behind: list[int] = []  # beats that were sent before this one came

        async def beat() -> None:
            nonlocal n_sent
            while True:
                n_sent += 1
                a.send(b.peer_id, Cancel(request=n_sent))
                await trio.sleep(BEAT_S)

        nursery.start_soon(beat)
        with trio.fail_after(60):
            async for event in b.arrivals():
                if not isinstance(event, Arrived):
                    continue
                if isinstance(event.message, Blob):
                    n_shards += 1
                    if n_shards == 2:
                        break
                else:
                    behind.append(n_sent - event.message.request)
        assert len(behind) > 20
        # Counted in beats: while this machine does not run us, none are sent either.
        assert max(behind) * BEAT_S <= LATE_S
        assert b.path(a.peer_id) is not None
        nursery.cancel_scope.cancel()
