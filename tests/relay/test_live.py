"""Live settings: their defaults, and what a map says of this relay."""

import pytest

from relay.limits import limits_of
from relay.live import LiveSettings
from relay.relay_map import RelayEntry, RelayMap
from relay.tokens import RateClass
from tests.support.relays import NETWORK, key

ID = key(5).peer_id


def entry(url: str, *, draining: bool, relay_id=ID) -> RelayEntry:
    return RelayEntry(url, relay_id, draining=draining)


def test_the_defaults_are_the_table_of_rate_classes() -> None:
    live = LiveSettings()
    assert live.rates == {each: limits_of(each) for each in RateClass}
    assert live.map_version == 0
    assert not live.is_draining(ID, "/relay")


@pytest.mark.parametrize(
    ("entries", "draining"),
    [
        ([entry("wss://a/relay", draining=True)], True),
        ([entry("wss://a/relay", draining=False)], False),
        ([entry("wss://a/relay", draining=True, relay_id=key(6).peer_id)], False),
        # Shards that share an id are told apart by their path.
        (
            [
                entry("wss://a/relay/1", draining=True),
                entry("wss://a/relay", draining=False),
            ],
            False,
        ),
        (
            [
                entry("wss://a/relay/1", draining=False),
                entry("wss://a/relay", draining=True),
            ],
            True,
        ),
        ([], False),
    ],
)
def test_whether_the_map_drains_this_relay(entries, draining: bool) -> None:
    found = RelayMap(network=NETWORK.peer_id, version=7, entries=tuple(entries))
    live = LiveSettings(relay_map=found)
    assert live.is_draining(ID, "/relay") is draining
    assert live.map_version == 7
