"""MemoryNetwork: delivery, order, faults as roles see them."""

import pytest
import trio

from mobile_worker.errors import NodeClosed
from mobile_worker.links import (
    Arrived,
    MemoryNetwork,
    NodeSettings,
    PathKind,
    PeerLost,
    RelayChanged,
    Undelivered,
)
from mobile_worker.links.events import LostReason, UndeliveredReason
from mobile_worker.messages import Cancel, Draining
from mobile_worker.session import Identity, parse_record
from relay.tokens import Role
from tests.support.trio_test import trio_test


def settings() -> NodeSettings:
    return NodeSettings(identity=Identity.generate(), role=Role.WORKER)


async def next_event(node):
    with trio.fail_after(5):
        return await anext(node.arrivals())


@trio_test
async def test_messages_arrive_in_order_with_their_sender():
    network = MemoryNetwork()
    async with network.open_node(settings()) as a, network.open_node(settings()) as b:
        for request in range(40):
            a.send(b.peer_id, Cancel(request=request))
        events = [await next_event(b) for _ in range(40)]
        assert [e.message.request for e in events] == list(range(40))
        assert {e.peer for e in events} == {a.peer_id}
        assert a.path(b.peer_id) is PathKind.MEMORY
        assert b.record_of(a.peer_id) == a.record
        assert parse_record(a.record.encoded) == a.record


@trio_test
async def test_an_absent_peer_is_not_here():
    network = MemoryNetwork()
    async with network.open_node(settings()) as a:
        stranger = Identity.generate().peer_id
        a.send(stranger, Cancel(request=1))
        expected = Undelivered(stranger, UndeliveredReason.NOT_HERE)
        assert await next_event(a) == expected
        assert a.path(stranger) is None


@trio_test
async def test_closing_a_node_is_seen_by_those_who_know_it():
    network = MemoryNetwork()
    async with network.open_node(settings()) as a:
        async with network.open_node(settings()) as b:
            a.send(b.peer_id, Cancel(request=1))
            await next_event(b)
        assert await next_event(a) == PeerLost(b.peer_id, LostReason.GONE)
        events = [event async for event in b.arrivals()]
        assert events == [RelayChanged(up=False, detail="disconnected")]
        with pytest.raises(NodeClosed):
            b.send(a.peer_id, Cancel(request=1))


@trio_test
async def test_a_disconnected_node_comes_back():
    network = MemoryNetwork()
    async with network.open_node(settings()) as a, network.open_node(settings()) as b:
        a.send(b.peer_id, Cancel(request=1))
        await next_event(b)
        network.disconnect(b.peer_id)
        assert await next_event(b) == RelayChanged(up=False, detail="disconnected")
        assert await next_event(a) == PeerLost(b.peer_id, LostReason.GONE)
        b.send(a.peer_id, Cancel(request=2))
        assert isinstance(await next_event(b), Undelivered)
        network.reconnect(b.peer_id)
        assert await next_event(b) == RelayChanged(up=True, detail="reconnected")
        b.send(a.peer_id, Cancel(request=3))
        assert (await next_event(a)).message == Cancel(request=3)


@trio_test(autojump=True)
async def test_cut_drop_and_delay():
    network = MemoryNetwork()
    async with network.open_node(settings()) as a, network.open_node(settings()) as b:
        network.cut(a.peer_id, b.peer_id)
        a.send(b.peer_id, Cancel(request=1))
        network.heal(a.peer_id, b.peer_id)
        network.drop_next(a.peer_id, b.peer_id)
        a.send(b.peer_id, Cancel(request=2))
        network.delay(a.peer_id, b.peer_id, 3.0)
        before = trio.current_time()
        assert a.waiting_bytes(b.peer_id) == 0
        a.send(b.peer_id, Cancel(request=3))
        assert a.waiting_bytes(b.peer_id) > 0
        network.delay(a.peer_id, b.peer_id, 0.0)
        a.send(b.peer_id, Draining(reason="sleep"))
        first, second = await next_event(b), await next_event(b)
        assert first == Arrived(a.peer_id, Cancel(request=3), first.n_bytes)
        assert second.message == Draining(reason="sleep")
        assert trio.current_time() - before >= 3.0


@trio_test
async def test_forgetting_drops_record_and_path():
    network = MemoryNetwork()
    async with network.open_node(settings()) as a, network.open_node(settings()) as b:
        a.learn(b.record)
        a.learn(b.record)
        assert a.record_of(b.peer_id) == b.record
        a.forget(b.peer_id)
        assert a.record_of(b.peer_id) is None
