"""At home on real relays: which connections there are, as relays and maps change."""

import contextlib
from types import SimpleNamespace

import pytest
import trio

from mobile_worker.clock import SystemClock
from mobile_worker.errors import RecordError
from mobile_worker.links import homes_keeper
from mobile_worker.links.homes_keeper import HomesKeeper
from mobile_worker.links.presence import Presence
from mobile_worker.links.switchboard import Switchboard
from mobile_worker.session import NetworkDescriptor, sign_descriptor
from relay.client import ClientSettings
from relay.errors import RelayUnreachable, TokenRefused
from relay.live import LiveSettings
from relay.relay_map import RelayEntry, RelayMap, sign_map
from relay.tokens import Role
from tests.support.nodes import identity, settings_of, until
from tests.support.relays import NETWORK, key, running_relay, tls_config
from tests.support.trio_test import trio_test


class Clock(SystemClock):
    """Can be moved ahead."""

    def __init__(self):
        self.ahead_s = 0.0

    def monotonic(self):
        return super().monotonic() + self.ahead_s


def keeper_of(endpoints, number=1, **changes):
    settings = settings_of(number, endpoints=endpoints, **changes)
    clock = Clock()
    presence = Presence(settings, clock)
    board = Switchboard(presence, clock, lambda peer: None)
    client = ClientSettings(environment={})
    keeper = HomesKeeper(settings, client, presence, board, clock)
    return SimpleNamespace(keeper=keeper, presence=presence, board=board, clock=clock)


@contextlib.asynccontextmanager
async def relays(n, first=210, **changes):
    """Run relays with an identity each."""
    async with contextlib.AsyncExitStack() as stack:
        found = []
        for number in range(n):
            config = tls_config(identity=key(first + number), drain_s=0.05, **changes)
            found.append(await stack.enter_async_context(running_relay(config)))
        yield found


def places(found):
    return tuple(relay.endpoint("127.0.0.1") for relay in found)


def map_of(found, version=1, draining=()):
    entries = tuple(
        RelayEntry(end.url, end.relay_id, draining=end.relay_id in draining)
        for end in places(found)
    )
    return sign_map(RelayMap(NETWORK.peer_id, version, entries), NETWORK.sign)


def addresses(node):
    return {link.endpoint.port for link in node.board.relays if link.up}


def ports(found):
    return {relay.port for relay in found}


@trio_test
async def test_two_of_the_given_relays_are_homes():
    async with relays(3) as found, trio.open_nursery() as nursery:
        node = keeper_of(places(found))
        await node.keeper.start(nursery)
        await until(lambda: len(addresses(node)) == 2)
        node.keeper.settle()
        assert len(node.board.relays) == 2
        assert len(node.presence.record.relays) == 2
        nursery.cancel_scope.cancel()


@trio_test
async def test_a_relay_that_is_away_does_not_hinder_the_start():
    async with relays(3) as found, trio.open_nursery() as nursery:
        here = places(found)[:1]
        async with relays(2, first=220) as others:
            away = places(others)
        node = keeper_of((*away, *here))
        await node.keeper.start(nursery)
        assert addresses(node) == ports(found[:1])
        nursery.cancel_scope.cancel()


@trio_test
async def test_where_none_answers_the_reason_of_the_first_is_told():
    async with relays(2, first=220) as gone:
        away = places(gone)
    async with relays(1, open=False, network=NETWORK.peer_id) as shut:
        for ends, error in (
            ((*away, *places(shut)), RelayUnreachable),
            ((*places(shut), *away), TokenRefused),
        ):
            async with trio.open_nursery() as nursery:
                node = keeper_of(ends)
                with pytest.raises(error):
                    await node.keeper.start(nursery)
                assert node.board.relays == ()
                nursery.cancel_scope.cancel()


@trio_test
async def test_a_relay_of_another_network_ends_the_start():
    other = key(7)
    named = NetworkDescriptor(network=other.peer_id, market=None, ledger=None)
    signed = sign_descriptor(named, other.sign).encoded
    async with relays(1, descriptor=signed) as found, trio.open_nursery() as nursery:
        node = keeper_of(places(found), network=NETWORK.peer_id)
        with pytest.raises(RecordError, match="network"):
            await node.keeper.start(nursery)
        nursery.cancel_scope.cancel()


@trio_test
async def test_the_map_leads_to_new_homes_before_the_old_one_is_left():
    async with relays(3) as found, trio.open_nursery() as nursery:
        old, new = found[0], found[1:]
        node = keeper_of(places([old]), network=NETWORK.peer_id)
        old.apply(LiveSettings(relay_map=map_of(new)))
        await node.keeper.start(nursery)
        await until(lambda: addresses(node) == ports(found))
        node.keeper.settle()  # all are reached: the record names the new ones
        assert set(node.presence.record.relays) == {str(end) for end in places(new)}
        node.clock.ahead_s += homes_keeper.LEAVE_S + 1
        node.keeper.settle()
        assert addresses(node) == ports(new)
        nursery.cancel_scope.cancel()


@trio_test
async def test_a_draining_relay_is_left_where_there_are_others():
    async with relays(3) as found, trio.open_nursery() as nursery:
        node = keeper_of(places(found), network=NETWORK.peer_id)
        for relay in found:
            relay.apply(LiveSettings(relay_map=map_of(found)))
        await node.keeper.start(nursery)
        await until(lambda: node.keeper._map.current and len(addresses(node)) == 2)
        left = node.board.relays[0]
        node.keeper.side._news(left, homes_keeper.RelayNews.DRAINING, 0)
        await until(lambda: len(addresses(node)) == 3)
        node.keeper.settle()
        node.clock.ahead_s += homes_keeper.LEAVE_S + 1
        node.keeper.settle()
        assert left not in node.board.relays
        assert len(addresses(node)) == 2
        nursery.cancel_scope.cancel()


@trio_test
async def test_a_home_that_stays_away_is_replaced():
    async with relays(2) as found, trio.open_nursery() as nursery:
        async with relays(3) as others:
            gone = others[2]  # the third has a key of its own
            ends = (*places([gone]), *places(found))
            relay_map = map_of([gone, *found])
            for relay in (gone, *found):
                relay.apply(LiveSettings(relay_map=relay_map))
            node = next(
                made
                for number in range(1, 50)
                if (made := keeper_of(ends, number, network=NETWORK.peer_id))
                and made.keeper._ranked()[0].endpoint.port == gone.port
            )
            await node.keeper.start(nursery)
            await until(lambda: gone.port in addresses(node))
            await until(lambda: len(addresses(node)) == 2)
        await until(lambda: gone.port not in addresses(node))
        node.keeper.settle()
        node.clock.ahead_s += homes_keeper.DOWN_S + 1
        node.keeper.settle()
        await until(lambda: addresses(node) == ports(found))
        assert len(node.board.relays) == 2
        nursery.cancel_scope.cancel()


@trio_test
async def test_market_and_ledger_are_at_home_everywhere():
    async with relays(3) as found, trio.open_nursery() as nursery:
        node = keeper_of(places(found[:1]), role=Role.MARKET, network=NETWORK.peer_id)
        found[0].apply(LiveSettings(relay_map=map_of(found)))
        await node.keeper.start(nursery)
        await until(lambda: addresses(node) == ports(found))
        nursery.cancel_scope.cancel()


@trio_test
async def test_a_peer_elsewhere_is_visited_and_the_visit_ends():
    async with relays(3) as found, trio.open_nursery() as nursery:
        node = keeper_of(places(found))
        await node.keeper.start(nursery)
        await until(lambda: len(addresses(node)) == 2)
        peer = identity(9).peer_id
        state = node.board.state_of(peer)
        assert not node.keeper.seek(peer, state)  # nothing is known of it
        names = [str(end) for end in places(found) if end.port not in addresses(node)]
        state.session.record = SimpleNamespace(
            relays=("wss://evil.example/relay", *names), direct_addresses=()
        )
        assert node.keeper.seek(peer, state)
        assert state.is_held
        assert node.keeper.seek(peer, state)  # it is on its way
        await until(lambda: len(addresses(node)) == 3)
        node.keeper.settle()
        assert not node.keeper.seek(peer, state)  # looked there already
        node.clock.ahead_s += homes_keeper.VISIT_S + 1
        node.keeper.settle()
        assert len(node.board.relays) == 2
        assert len(node.presence.record.relays) == 2
        nursery.cancel_scope.cancel()
