"""Which map a node goes by, fetched from real relays; and how far relays are."""

import trio
import trio.testing

from mobile_worker.links import homes_map
from mobile_worker.links.homes import candidates_of
from mobile_worker.links.homes_map import MapWatch, measure_trips
from relay.client import ClientSettings
from relay.live import LiveSettings
from relay.relay_map import RelayEntry, RelayMap, sign_map
from tests.support.nodes import until
from tests.support.relays import NETWORK, key, running_relay, tls_config
from tests.support.trio_test import trio_test

NO_PROXY = ClientSettings(environment={})


def map_of(version, *entries):
    return sign_map(RelayMap(NETWORK.peer_id, version, entries), NETWORK.sign)


ENTRY = RelayEntry("wss://one.example/relay", key(1).peer_id)


class Watch(MapWatch):
    """With what it was asked and told."""

    def __init__(self, network=NETWORK.peer_id):
        self.n_changes = 0
        super().__init__(NO_PROXY, lambda: network, lambda found: [], self.note)

    def note(self):
        self.n_changes += 1


@trio_test
async def test_a_newer_map_is_fetched_at_once_and_an_older_one_never():
    config = tls_config(live=LiveSettings(relay_map=map_of(3, ENTRY)))
    async with running_relay(config) as relay, trio.open_nursery() as nursery:
        watch = Watch()
        nursery.start_soon(watch.run)
        endpoint = relay.endpoint("127.0.0.1")
        watch.heard(endpoint, 3)
        await until(lambda: watch.current)
        assert watch.current.entries == (ENTRY,)
        relay.apply(LiveSettings(relay_map=map_of(4)))
        watch.heard(endpoint, 3)
        watch.heard(endpoint, 4)
        await until(lambda: watch.current.version == 4)
        assert watch.n_changes == 2
        relay.apply(LiveSettings(relay_map=map_of(2)))
        await watch._fetch(endpoint)
        assert watch.current.version == 4
        nursery.cancel_scope.cancel()


@trio_test
async def test_a_new_map_that_all_hear_of_is_fetched_after_a_while(monkeypatch):
    config = tls_config(live=LiveSettings(relay_map=map_of(1, ENTRY)))
    async with running_relay(config) as relay, trio.open_nursery() as nursery:
        watch = Watch()
        nursery.start_soon(watch.run)
        endpoint = relay.endpoint("127.0.0.1")
        monkeypatch.setattr(homes_map.random, "random", lambda: 0.5)
        watch.heard(endpoint, None)
        assert watch._due[endpoint] - trio.current_time() > 10
        await trio.testing.wait_all_tasks_blocked()
        assert watch.current is None
        watch.heard(endpoint, 1)  # we join: at once
        await until(lambda: watch.current)
        nursery.cancel_scope.cancel()


@trio_test
async def test_a_relay_that_hands_out_no_map_hides_none_of_another():
    config = tls_config(live=LiveSettings(relay_map=map_of(2, ENTRY)))
    async with (
        running_relay(tls_config(identity=key(3))) as liar,
        running_relay(config) as relay,
        trio.open_nursery() as nursery,
    ):
        wrong = sign_map(RelayMap(key(9).peer_id, 9, ()), key(9).sign)
        liar.apply(LiveSettings(relay_map=wrong))
        watch = Watch()
        watch.heard(liar.endpoint("127.0.0.1"), 9)
        watch.heard(relay.endpoint("127.0.0.1"), 2)
        nursery.start_soon(watch.run)
        await until(lambda: watch.current)
        assert watch.current.version == 2
        assert watch._due.keys() == {liar.endpoint("127.0.0.1")}  # asked again, later
        nursery.cancel_scope.cancel()


@trio_test
async def test_no_map_is_believed_without_a_network():
    config = tls_config(live=LiveSettings(relay_map=map_of(1, ENTRY)))
    async with running_relay(config) as relay:
        watch = Watch(network=None)
        await watch._fetch(relay.endpoint("127.0.0.1"))
        assert watch.current is None


@trio_test
async def test_relays_that_answer_are_measured():
    async with running_relay(tls_config()) as relay:
        [there] = candidates_of(None, [relay.endpoint("127.0.0.1")])
        async with running_relay(tls_config(identity=key(3))) as gone:
            [away] = candidates_of(None, [gone.endpoint("127.0.0.1")])
        trips = await measure_trips([there, away], NO_PROXY)
        assert trips.keys() == {there.key}
        assert trips[there.key] >= 0
        proxied = ClientSettings(environment={"HTTPS_PROXY": "http://192.0.2.1:1"})
        [far] = candidates_of(None, [ENTRY.endpoint])
        assert await measure_trips([far], proxied) == {}
