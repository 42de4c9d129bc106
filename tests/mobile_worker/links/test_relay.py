"""The relay link against a real relay: up, down, up again, and its word of peers."""

import trio

from mobile_worker.clock import SystemClock
from mobile_worker.errors import RecordError
from mobile_worker.links import relay as relay_module
from mobile_worker.links.relay import RelayLink, RelaySettings
from mobile_worker.messages.classes import MessageClass
from mobile_worker.session.packets import Packet
from relay import accepting
from relay.client import ClientSettings
from relay.errors import RelayUnreachable, TokenRefused
from relay.frame_types import NackReason
from tests.support.nodes import until
from tests.support.relays import (
    NETWORK,
    credentials,
    key,
    plain_config,
    running_relay,
)
from tests.support.trio_test import trio_test


class Owner:
    """Keeps what the relay says."""

    def __init__(self):
        self.packets, self.presence, self.refused = [], [], []
        self.states = []
        self.seen = []
        self.n_writable = 0

    def packet_arrived(self, link, peer, packet):
        self.packets.append((peer, packet))

    def link_writable(self, link):
        self.n_writable += 1

    def link_lost(self, link, unsent, reason):
        raise AssertionError

    def relay_up(self, relay, welcome):
        self.states.append("up")

    def relay_down(self, relay, unsent, detail):
        self.states.append("down")

    def relay_says(self, relay, code):
        self.states.append(code)

    def relay_limits(self):
        self.states.append("limits")

    def peer_present(self, relay, peer, *, here):
        self.presence.append((peer, here))

    def peer_seen_from(self, peer, prefix):
        self.seen.append((peer, prefix))

    def frames_refused(self, relay, peer, reason, count):
        self.refused.append((peer, reason, count))


def make(relay, number, **client):
    owner = Owner()
    settings = RelaySettings(
        endpoint=relay.endpoint("127.0.0.1"),
        credentials=credentials(key(number)),
        client=ClientSettings(allow_plaintext=True, **client),
    )
    return RelayLink(settings, owner, SystemClock()), owner


def packet(payload):
    return Packet(MessageClass.INTERACTIVE, payload)


@trio_test
async def test_a_market_is_told_from_where_its_peers_come(monkeypatch):
    monkeypatch.setattr(accepting, "network_prefix", lambda _: "203.0.113.0/24")
    config = plain_config(market=key(1).peer_id)
    async with running_relay(config) as relay, trio.open_nursery() as nursery:
        market, seen = make(relay, 1)
        worker, nothing = make(relay, 2)
        await nursery.start(market.run)
        await nursery.start(worker.run)
        market.watch([key(2).peer_id])
        worker.watch([key(1).peer_id])
        await until(lambda: seen.seen and nothing.presence)
        assert seen.seen == [(key(2).peer_id, "203.0.113.0/24")]
        assert nothing.seen == []
        nursery.cancel_scope.cancel()


@trio_test
async def test_packets_presence_and_refusals():
    async with running_relay() as relay, trio.open_nursery() as nursery:
        one, ones = make(relay, 1)
        other, others = make(relay, 2)
        assert await nursery.start(one.run) is None
        assert one.up
        one.watch([key(2).peer_id])
        one.send(key(2).peer_id, packet(b"too early"))
        await until(lambda: ones.refused)
        assert ones.refused == [(key(2).peer_id, NackReason.NOT_HERE, 1)]
        assert ones.presence == [(key(2).peer_id, False)]
        await nursery.start(other.run)
        await until(lambda: ones.presence[-1][1])
        one.send(key(2).peer_id, packet(b"now"))
        await until(lambda: others.packets)
        assert others.packets == [(key(1).peer_id, b"now")]
        nursery.cancel_scope.cancel()


@trio_test
async def test_a_first_connection_that_fails_is_reported():
    async with running_relay() as relay:
        link, _ = make(relay, 1)
    async with trio.open_nursery() as nursery:
        error = await nursery.start(link.run)
        assert isinstance(error, RelayUnreachable)
        link.stop()
    assert not link.up
    link.send(key(2).peer_id, packet(b"nowhere"))
    link.watch([key(2).peer_id])


def test_a_token_that_is_refused_is_shown_again_after_a_minute(caplog, monkeypatch):
    waits: list[float] = []

    async def recorded(delay_s, wall_us):
        del wall_us
        waits.append(delay_s)
        await trio.sleep_forever()

    monkeypatch.setattr(relay_module, "sleep_awake", recorded)

    @trio_test
    async def main():
        config = plain_config(open=False, network=NETWORK.peer_id)
        async with running_relay(config) as relay, trio.open_nursery() as nursery:
            link, _ = make(relay, 1)
            assert isinstance(await nursery.start(link.run), TokenRefused)
            await until(lambda: waits)
            link.stop()

    with caplog.at_level("WARNING", logger="p2pmoe.links"):
        main()
    assert waits[0] >= 60
    assert "; ask the operator" in caplog.messages[0]  # what to do is said too


@trio_test
async def test_a_lost_connection_comes_back():
    identity = plain_config().identity
    async with trio.open_nursery() as nursery:
        async with running_relay() as relay:
            port = relay.port
            link, owner = make(relay, 1)
            await nursery.start(link.run)
        await until(lambda: not link.up)
        config = plain_config(port=port, identity=identity)
        async with running_relay(config):
            await until(lambda: link.up)
            assert owner.states == ["up", "down", "up"]
            nursery.cancel_scope.cancel()


@trio_test
async def test_a_full_send_queue_holds_packets_in_order():
    async with running_relay() as relay, trio.open_nursery() as nursery:
        one, ones = make(relay, 1, send_queue_bytes=100_000)
        other, others = make(relay, 2)
        await nursery.start(one.run)
        await nursery.start(other.run)
        for i in range(20):
            one.send(key(2).peer_id, packet(bytes([i]) * 30_000))
        assert one.open_to is MessageClass.CONTROL
        await until(lambda: len(others.packets) == 20)
        assert [payload[0] for _, payload in others.packets] == list(range(20))
        assert one.open_to is MessageClass.BULK
        assert ones.n_writable > 0
        nursery.cancel_scope.cancel()


@trio_test
async def test_a_relay_whose_word_is_refused_is_never_up():
    async with running_relay() as relay, trio.open_nursery() as nursery:
        link, owner = make(relay, 1)

        def refuse(relay, welcome):
            raise RecordError("the relay is of another network")

        owner.relay_up = refuse
        error = await nursery.start(link.run)
        assert isinstance(error, RecordError)
        assert not link.up
        assert owner.states == []
        nursery.cancel_scope.cancel()
