"""Whole nodes on real sockets: relay, direct links, and the ways between them."""

import contextlib
import random

import pytest
import trio
import trio.lowlevel

from mobile_worker.errors import LinkLost, ListenError, NodeClosed, RecordError
from mobile_worker.links import (
    Arrived,
    PathKind,
    PeerLost,
    RelayChanged,
    Undelivered,
    open_node,
)
from mobile_worker.links.direct import welcome
from mobile_worker.links.events import LostReason, UndeliveredReason
from mobile_worker.messages import Blob, Cancel, MessageClass
from mobile_worker.session import NetworkDescriptor, sign_descriptor
from relay.errors import RelayUnreachable, TokenRefused
from tests.support.nodes import (
    LOCAL,
    RelayHost,
    echo,
    identity,
    next_arrival,
    next_event,
    settings_of,
    until,
)
from tests.support.relays import (
    NETWORK,
    key,
    running_relay,
    tls_config,
    token_for,
)
from tests.support.trio_test import trio_test


@contextlib.asynccontextmanager
async def relay_at(**changes):
    async with running_relay(tls_config(**changes)) as relay:
        yield relay


def blob(body: bytes) -> Blob:
    return Blob(
        request=1, digest=bytes(32), offset=0, total=len(body), error=0, body=body
    )


@trio_test
async def test_messages_go_by_the_relay():
    async with relay_at() as relay:
        endpoint = relay.endpoint("127.0.0.1")
        async with (
            open_node(settings_of(1, relay=endpoint)) as a,
            open_node(settings_of(2, relay=endpoint)) as b,
        ):
            assert (await next_event(a)).up
            a.send(b.peer_id, Cancel(request=1))
            arrived = await next_arrival(b)
            assert arrived == Arrived(a.peer_id, Cancel(request=1), 19)
            assert a.path(b.peer_id) is PathKind.RELAY
            assert a.record_of(b.peer_id) == b.record
            b.send(a.peer_id, Cancel(request=2))
            assert (await next_arrival(a)).message == Cancel(request=2)
            assert a.relay_heard_s is not None
            assert 0 <= a.relay_heard_s < 60


@trio_test
async def test_messages_go_direct_without_any_relay():
    async with (
        open_node(settings_of(1)) as a,
        open_node(settings_of(2, listen=LOCAL)) as b,
    ):
        [address] = b.record.direct_addresses
        assert address.startswith("127.0.0.1:")
        a.learn(b.record)
        a.send(b.peer_id, Cancel(request=1))
        assert (await next_arrival(b)).peer == a.peer_id
        b.send(a.peer_id, Cancel(request=2))
        await next_arrival(a)
        assert a.path(b.peer_id) is b.path(a.peer_id) is PathKind.DIRECT


@trio_test
async def test_a_direct_link_replaces_the_relay_and_the_relay_takes_over_again():
    async with relay_at() as relay:
        endpoint = relay.endpoint("127.0.0.1")
        async with (
            open_node(settings_of(1, relay=endpoint)) as a,
            open_node(settings_of(2, relay=endpoint, listen=LOCAL)) as b,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(echo, b)
            a.send(b.peer_id, Cancel(request=0))
            await next_arrival(a)
            await until(lambda: a.path(b.peer_id) is PathKind.DIRECT)
            await until(lambda: b.path(a.peer_id) is PathKind.DIRECT)
            state = a._peers[b.peer_id]
            session_id = state.session.session_id
            for request in range(1, 30):
                a.send(b.peer_id, Cancel(request=request))
                assert (await next_arrival(a)).message.request == request
            state.links[0].abort("cut by the test")
            for request in range(30, 60):
                a.send(b.peer_id, Cancel(request=request))
                assert (await next_arrival(a)).message.request == request
            assert state.session.session_id == session_id
            await until(lambda: a.path(b.peer_id) is PathKind.DIRECT)
            a.send(b.peer_id, Cancel(request=60))
            assert (await next_arrival(a)).message.request == 60
            assert a.traffic.up_bytes[PathKind.DIRECT] > 0
            nursery.cancel_scope.cancel()


@trio_test
async def test_large_messages_survive_the_change_of_path():
    body = random.Random(1).randbytes(3_000_000)
    async with relay_at() as relay:
        endpoint = relay.endpoint("127.0.0.1")
        async with (
            open_node(settings_of(1, relay=endpoint)) as a,
            open_node(settings_of(2, relay=endpoint, listen=LOCAL)) as b,
        ):
            for _ in range(3):  # the first ones go while the direct link comes up
                a.send(b.peer_id, blob(body))
            for _ in range(3):
                assert (await next_arrival(b)).message.body == body
            a.send(b.peer_id, blob(body), message_class=MessageClass.INTERACTIVE)
            assert (await next_arrival(b)).message.body == body
            assert a.traffic.n_refused == b.traffic.n_refused == 0


@trio_test
async def test_sessions_survive_a_relay_that_restarts():
    async with trio.open_nursery() as nursery:
        relay = RelayHost(nursery)
        endpoint = await relay.start()
        async with (
            open_node(settings_of(1, relay=endpoint)) as a,
            open_node(settings_of(2, relay=endpoint)) as b,
        ):
            a.send(b.peer_id, Cancel(request=1))
            await next_arrival(b)
            session_id = a._peers[b.peer_id].session.session_id
            await relay.stop()
            await until(lambda: a.path(b.peer_id) is None)
            a.send(b.peer_id, Cancel(request=2))  # waits
            await relay.start()
            seen = [await next_event(b)]
            while not isinstance(seen[-1], Arrived):
                seen.append(await next_event(b))
            assert seen[-1].message == Cancel(request=2)
            kinds = [type(event) for event in seen]
            assert kinds == [RelayChanged, RelayChanged, Arrived]
            assert a._peers[b.peer_id].session.session_id == session_id
        await relay.stop()


@trio_test
async def test_a_restarted_peer_is_reported_and_reached_again():
    async with relay_at() as relay:
        endpoint = relay.endpoint("127.0.0.1")
        async with open_node(settings_of(1, relay=endpoint)) as a:
            async with open_node(settings_of(2, relay=endpoint)) as b:
                a.send(b.peer_id, Cancel(request=1))
                await next_arrival(b)
            lost = await next_event(a, PeerLost)
            assert lost == PeerLost(identity(2).peer_id, LostReason.GONE)
            async with open_node(settings_of(2, relay=endpoint)) as b:
                a.send(b.peer_id, Cancel(request=2))
                assert (await next_arrival(b)).message == Cancel(request=2)


@trio_test
async def test_a_peer_killed_without_farewell_gets_fresh_keys():
    async with open_node(settings_of(1)) as a:
        for request in range(3):
            async with open_node(settings_of(2, listen=LOCAL)) as b:
                b._switchboard.close = b._switchboard.arrivals.close  # no farewell
                a.learn(b.record)
                a.send(b.peer_id, Cancel(request=request))
                assert (await next_arrival(b)).message.request == request
            assert (await next_event(a, PeerLost)).reason is LostReason.LINK


@trio_test
async def test_peers_that_are_not_there():
    stranger = identity(9).peer_id
    async with relay_at() as relay:
        endpoint = relay.endpoint("127.0.0.1")
        async with open_node(settings_of(1, relay=endpoint)) as a:
            a.send(stranger, Cancel(request=1))
            assert await next_event(a, Undelivered) == Undelivered(
                stranger, UndeliveredReason.NOT_HERE
            )
            assert (await next_event(a, PeerLost)).peer == stranger
    async with open_node(settings_of(1)) as a:
        a.send(stranger, Cancel(request=1))
        assert isinstance(await next_event(a), Undelivered)
        assert (await next_event(a)).reason is LostReason.UNREACHABLE
        dead = settings_of(3, advertise=("127.0.0.1:1",))
        async with open_node(dead) as c:
            a.learn(c.record)
            a.send(c.peer_id, Cancel(request=1))
            assert (await next_event(a, PeerLost)).reason is LostReason.UNREACHABLE


@trio_test
async def test_b32_an_answer_survives_the_loss_of_the_relay():
    async with trio.open_nursery() as nursery:
        relay = RelayHost(nursery)
        endpoint = await relay.start()
        async with (
            open_node(settings_of(1, relay=endpoint)) as a,
            open_node(settings_of(2, relay=endpoint)) as b,
        ):
            a.send(b.peer_id, Cancel(request=1))
            job = await next_arrival(b)
            await relay.stop()
            while (await next_event(b, RelayChanged)).up:
                continue
            b.send(job.peer, Cancel(request=1))
            await relay.start()
            assert (await next_arrival(a)).message == Cancel(request=1)
        await relay.stop()


@trio_test
async def test_the_first_connection_that_fails_says_why():
    async with relay_at(open=False, network=NETWORK.peer_id) as relay:
        endpoint = relay.endpoint("127.0.0.1")
        with pytest.raises(TokenRefused):
            async with open_node(settings_of(1, relay=endpoint)):
                pass
        signer = key(1)  # the signing key of identity(1)
        assert signer.peer_id == identity(1).peer_id
        token = token_for(signer)
        async with open_node(settings_of(1, relay=endpoint, token=token)) as node:
            assert (await next_event(node)).up
    with pytest.raises(RelayUnreachable):
        async with open_node(settings_of(1, relay=endpoint, listen=LOCAL)):
            pass


@trio_test
async def test_an_address_that_cannot_be_opened():
    with pytest.raises(ListenError):
        async with open_node(settings_of(1, listen="127.0.0.1:nothing")):
            pass


@trio_test
async def test_the_network_is_known_from_the_relay():
    descriptor = sign_descriptor(
        NetworkDescriptor(
            network=NETWORK.peer_id, market=identity(5).peer_id, ledger=None
        ),
        NETWORK.sign,
    )
    async with relay_at(descriptor=descriptor.encoded) as relay:
        endpoint = relay.endpoint("127.0.0.1")
        async with (
            open_node(settings_of(1, relay=endpoint)) as a,
            open_node(settings_of(2, relay=endpoint, network=NETWORK.peer_id)) as b,
        ):
            assert a.descriptor == b.descriptor == descriptor
            a.send(b.peer_id, Cancel(request=1))
            await next_arrival(b)


@trio_test
async def test_a_relay_of_another_network_is_refused():
    other = key(7)
    descriptor = sign_descriptor(
        NetworkDescriptor(network=other.peer_id, market=None, ledger=None), other.sign
    )
    async with relay_at(descriptor=descriptor.encoded) as relay:
        settings = settings_of(
            1, relay=relay.endpoint("127.0.0.1"), network=NETWORK.peer_id
        )
        with pytest.raises(RecordError, match="network"):
            async with open_node(settings):
                pass


@trio_test
async def test_what_the_owner_raises_comes_out_as_it_is():
    with pytest.raises(ZeroDivisionError):
        async with open_node(settings_of(1, listen=LOCAL)):
            raise ZeroDivisionError


@trio_test
async def test_closing_ends_the_arrivals_and_tells_the_peers():
    async with open_node(settings_of(1)) as a:
        async with open_node(settings_of(2, listen=LOCAL)) as b:
            a.learn(b.record)
            a.send(b.peer_id, Cancel(request=1))
            await next_arrival(b)
            await until(lambda: b.path(a.peer_id) is PathKind.DIRECT)
        assert [event async for event in b.arrivals()] == []
        with pytest.raises(NodeClosed):
            b.send(a.peer_id, Cancel(request=2))
        lost = await next_event(a, PeerLost)
        assert lost == PeerLost(b.peer_id, LostReason.GONE)


@trio_test
async def test_b30_a_node_cancelled_in_mid_send_leaves_no_torn_message():
    """Nodes are closed at random moments while they send; all that arrives is whole."""
    rng = random.Random(30)
    async with open_node(settings_of(2, listen=LOCAL)) as b:
        for round_number in range(12):
            await send_and_die(b, rng, round_number)
        n_arrived = 0
        while len(b.arrivals()):
            event = await next_event(b)
            if isinstance(event, Arrived):
                n_arrived += 1
                body = event.message.body
                assert body == bytes([body[0]]) * len(body)
        assert n_arrived > 0
        assert b.traffic.n_refused == 0


async def send_and_die(b, rng, number):
    with trio.move_on_after(rng.uniform(0.005, 0.04)):
        async with open_node(settings_of(10 + number)) as a:
            a.learn(b.record)
            while True:
                a.send(b.peer_id, blob(bytes([rng.randrange(256)]) * 100_000))
                await trio.sleep(rng.uniform(0, 0.002))


@contextlib.asynccontextmanager
async def listener_in_vain(peer):
    """Greet as this peer and close at once; yield its address and how often so far."""
    dialled = []

    async def handle(stream):
        dialled.append(trio.current_time())
        with contextlib.suppress(LinkLost):
            await welcome(stream, peer)
        await trio.aclose_forcefully(stream)

    async with trio.open_nursery() as nursery:
        [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, handle, [listener])
        yield f"127.0.0.1:{listener.socket.getsockname()[1]}", dialled
        nursery.cancel_scope.cancel()


@trio_test
async def test_who_greets_and_hangs_up_is_dialled_later_each_time():
    async with (
        relay_at() as relay,
        listener_in_vain(identity(2).peer_id) as (at, calls),
    ):
        endpoint = relay.endpoint("127.0.0.1")
        async with (
            open_node(settings_of(1, relay=endpoint)) as a,
            open_node(settings_of(2, relay=endpoint, advertise=(at,))) as b,
        ):
            a.send(b.peer_id, Cancel(request=1))
            await next_arrival(b)
            await until(lambda: len(calls) == 2)
            assert calls[1] - calls[0] > 0.9


@trio_test
async def test_an_address_in_vain_does_not_hide_the_right_one():
    async with relay_at() as relay, listener_in_vain(identity(2).peer_id) as (at, _):
        endpoint = relay.endpoint("127.0.0.1")
        async with open_node(settings_of(2, listen=LOCAL, relay=endpoint)) as probe:
            [right] = probe.record.direct_addresses
        async with (
            open_node(settings_of(1, relay=endpoint)) as a,
            open_node(
                settings_of(2, relay=endpoint, listen=right, advertise=(at, right))
            ) as b,
        ):
            a.send(b.peer_id, Cancel(request=1))
            await next_arrival(b)
            await until(lambda: a.path(b.peer_id) is PathKind.DIRECT)
