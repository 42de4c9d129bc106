"""Our record and the network it belongs to."""

import pytest

from mobile_worker.clock import SystemClock
from mobile_worker.errors import RecordError
from mobile_worker.links.presence import NO_NETWORK, Presence
from mobile_worker.session import NetworkDescriptor, parse_record, sign_descriptor
from relay.endpoint import parse_endpoint
from tests.support.nodes import settings_of, welcome_of
from tests.support.relays import NETWORK, RELAY, key

ENDPOINT = parse_endpoint("wss://relay.example/relay#" + RELAY.peer_id.hex())


def descriptor_of(network):
    return sign_descriptor(
        NetworkDescriptor(network=network.peer_id, market=None, ledger=None),
        network.sign,
    )


def test_the_record_is_signed_and_says_where_we_are():
    presence = Presence(settings_of(1, relay=ENDPOINT), SystemClock())
    record = presence.record
    assert parse_record(record.encoded) == record
    assert record.relays == (str(ENDPOINT),)
    presence.set_addresses(("127.0.0.1:7",))
    assert presence.record.direct_addresses == ("127.0.0.1:7",)
    assert presence.record.sequence > record.sequence
    assert presence.own.record() == presence.record.encoded
    same = presence.record
    presence.set_addresses(("127.0.0.1:7",))
    assert presence.record is same


def test_configured_addresses_win():
    settings = settings_of(1, advertise=("hub.example:7400",))
    presence = Presence(settings, SystemClock())
    presence.set_addresses(("127.0.0.1:7",))
    assert presence.record.direct_addresses == ("hub.example:7400",)


def test_the_network_comes_from_the_relay():
    presence = Presence(settings_of(1), SystemClock())
    presence.take_welcome(welcome_of(b""))
    assert presence.own.network == NO_NETWORK
    assert presence.observed_address == "192.0.2.7:999"
    descriptor = descriptor_of(NETWORK)
    presence.take_welcome(welcome_of(descriptor.encoded))
    assert presence.descriptor == descriptor
    assert presence.own.network == NETWORK.peer_id


def test_another_network_or_nonsense_is_refused():
    presence = Presence(settings_of(1, network=NETWORK.peer_id), SystemClock())
    with pytest.raises(RecordError, match="network"):
        presence.take_welcome(welcome_of(descriptor_of(key(9)).encoded))
    with pytest.raises(RecordError):
        presence.take_welcome(welcome_of(b"nonsense"))
    presence.take_welcome(welcome_of(descriptor_of(NETWORK).encoded))
    assert presence.descriptor is not None
