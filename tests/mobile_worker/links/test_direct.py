"""Direct links: packets whole or not at all, whatever is cancelled meanwhile."""

import random
import socket

import pytest
import trio

from mobile_worker.errors import LinkLost
from mobile_worker.links.direct import DirectLink, greet, welcome
from mobile_worker.links.events import PathKind
from mobile_worker.messages.classes import MessageClass
from mobile_worker.session.packets import MAX_PACKET_BYTES, Packet
from tests.support.nodes import identity
from tests.support.trio_test import trio_test

ONE, OTHER = identity(1).peer_id, identity(2).peer_id


class TrioClock:
    def monotonic(self):
        return trio.current_time()

    def wall_us(self):
        return 0


class Owner:
    """Keeps what links bring."""

    def __init__(self):
        self.packets = []
        self.lost = []
        self.n_writable = 0
        self.came = trio.Event()

    def packet_arrived(self, link, peer, packet):
        self.packets.append((peer, packet))
        self.came.set()

    def link_writable(self, link):
        self.n_writable += 1

    def link_lost(self, link, unsent, reason):
        self.lost.append((tuple(packet.payload for packet in unsent), reason))

    async def wait_packets(self, n):
        with trio.fail_after(10):
            while len(self.packets) < n:
                self.came = trio.Event()
                await self.came.wait()


def packet(payload, message_class=MessageClass.INTERACTIVE):
    return Packet(message_class, payload)


async def streams():
    """Two ends of a TCP connection."""
    listener = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
    port = listener.socket.getsockname()[1]
    one = await trio.open_tcp_stream("127.0.0.1", port)
    other = await listener.accept()
    await listener.aclose()
    return one, other


class Pair:
    """Two links joined, and their owners."""

    def __init__(self, one, other):
        self.owners = (Owner(), Owner())
        clock = TrioClock()
        self.a = DirectLink(one, OTHER, self.owners[0], clock)
        self.b = DirectLink(other, ONE, self.owners[1], clock)


@trio_test
async def test_packets_go_both_ways_in_order():
    pair = Pair(*await streams())
    rng = random.Random(1)
    sizes = [1, 2, 3, MAX_PACKET_BYTES] + [rng.randint(1, 40_000) for _ in range(150)]
    sent = [rng.randbytes(n) for n in sizes]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pair.a.run)
        nursery.start_soon(pair.b.run)
        for payload in sent:
            pair.a.send(OTHER, packet(payload))
            pair.b.send(ONE, packet(payload[::-1]))
        await pair.owners[1].wait_packets(len(sent))
        await pair.owners[0].wait_packets(len(sent))
        nursery.cancel_scope.cancel()
    assert pair.owners[1].packets == [(ONE, payload) for payload in sent]
    assert pair.owners[0].packets == [(OTHER, payload[::-1]) for payload in sent]
    assert pair.a.kind is PathKind.DIRECT


@trio_test
async def test_a_full_link_says_so_and_when_it_is_not():
    pair = Pair(*await streams())
    payload = bytes(MAX_PACKET_BYTES)
    n = 0
    while pair.a.open_to is MessageClass.BULK:
        pair.a.send(OTHER, packet(payload))
        n += 1
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pair.a.run)
        nursery.start_soon(pair.b.run)
        await pair.owners[1].wait_packets(n)
        assert pair.a.open_to is MessageClass.BULK
        assert pair.owners[0].n_writable == 1
        nursery.cancel_scope.cancel()


@trio_test(autojump=True)
async def test_b30_a_peer_that_takes_no_bytes_ends_the_link():
    one, other = await streams()
    pair = Pair(one, other)
    payload = bytes(MAX_PACKET_BYTES)
    n = 0
    while pair.a.open_to is MessageClass.BULK:
        pair.a.send(OTHER, packet(payload))
        n += 1
    before = trio.current_time()
    await pair.a.run()
    assert trio.current_time() - before >= 10
    [(unsent, reason)] = pair.owners[0].lost
    assert reason == "the peer takes no bytes"
    assert 0 < len(unsent) <= n
    assert pair.a.open_to is None
    pair.a.send(OTHER, packet(b"after"))  # goes nowhere, raises nothing
    pair.b.abort("test over")
    await pair.b.run()


@trio_test
async def test_b30_cancels_at_random_moments_tear_nothing():
    """Senders are cancelled, links are cut: every packet that arrives is whole."""
    rng = random.Random(30)
    for _ in range(60):  # some 1,200 cancelled senders
        pair = Pair(*await streams())
        await cancel_some(pair, rng)
        for _, payload in pair.owners[1].packets:
            assert payload == bytes([payload[0]]) * len(payload)
        assert len(pair.owners[0].lost) == len(pair.owners[1].lost) == 1


async def cancel_some(pair, rng):
    async def send_some(number):
        for _ in range(10):
            pair.a.send(OTHER, packet(bytes([number]) * rng.randint(1, 60_000)))
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(pair.a.run)
        nursery.start_soon(pair.b.run)
        async with trio.open_nursery() as senders:
            scopes = []

            async def cancellable(number):
                with trio.CancelScope() as scope:
                    scopes.append(scope)
                    await send_some(number)

            for number in range(1, 41):
                senders.start_soon(cancellable, number)
            for _ in range(rng.randint(1, 12)):
                await trio.lowlevel.checkpoint()
            for scope in rng.sample(scopes, len(scopes) // 2):
                scope.cancel()
        if rng.random() < 0.5:
            pair.a.abort("cut")
        else:
            nursery.cancel_scope.cancel()


@trio_test
async def test_b30_a_packet_cut_off_by_the_end_is_dropped():
    one, other = await streams()
    owner = Owner()
    link = DirectLink(other, ONE, owner, TrioClock())
    await one.send_all(b"\0\0\0\x03abc" + b"\0\0\0\x09cut o")
    await one.aclose()
    await link.run()
    assert owner.packets == [(ONE, b"abc")]
    assert owner.lost == [((), "closed by the peer")]


@pytest.mark.parametrize("length", [0, MAX_PACKET_BYTES + 1, 2**32 - 1])
@trio_test
async def test_b25_lengths_out_of_bounds_end_the_link(length):
    one, other = await streams()
    owner = Owner()
    link = DirectLink(other, ONE, owner, TrioClock())
    await one.send_all(length.to_bytes(4, "big") + b"x" * 100)
    await link.run()
    assert owner.packets == []
    assert owner.lost == [((), f"a packet of {length} bytes")]
    await one.aclose()


@trio_test
async def test_a_reset_connection_ends_the_link():
    one, other = await streams()
    owner = Owner()
    link = DirectLink(other, ONE, owner, TrioClock())
    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    await one.aclose()
    await link.run()
    assert owner.lost == [((), "reset by the peer")]


@trio_test
async def test_what_fails_at_once_is_handed_back():
    one, other = await streams()
    pair = Pair(one, other)
    pair.b.abort("gone")
    await pair.b.run()
    async with trio.open_nursery() as nursery:
        for i in range(50):
            pair.a.send(OTHER, packet(b"%d" % i))
        nursery.start_soon(pair.a.run)
    [(unsent, _)] = pair.owners[0].lost
    assert set(unsent) <= {b"%d" % i for i in range(50)}


@trio_test
async def test_greetings():
    one, other = await streams()
    found = []

    async def listen():
        found.append(await welcome(other, ONE))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(listen)
        await greet(one, OTHER, ONE)
    assert found == [OTHER]
    await one.aclose()
    await other.aclose()


@trio_test
async def test_a_greeting_for_somebody_else_is_refused():
    one, other = await streams()

    async def listen():
        with pytest.raises(LinkLost, match="not for us"):
            await welcome(other, OTHER)
        await other.aclose()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(listen)
        with pytest.raises(LinkLost):
            await greet(one, OTHER, ONE)
    await one.aclose()


@trio_test(autojump=True)
async def test_silence_ends_the_greeting():
    one, other = await streams()
    with pytest.raises(LinkLost, match="failed"):
        await welcome(other, ONE)
    with pytest.raises(LinkLost, match="failed"):
        await greet(one, OTHER, ONE)
    await one.aclose()
    await other.aclose()
