"""Network descriptors."""

from dataclasses import replace

import pytest

from mobile_worker.errors import RecordError
from mobile_worker.session.descriptor import (
    NetworkDescriptor,
    Services,
    parse_descriptor,
    sign_descriptor,
)
from mobile_worker.session.signed import seal_signed
from relay.keys import SigningKey

NETWORK, MARKET, LEDGER = (SigningKey.generate() for _ in range(3))


@pytest.mark.parametrize("market", [MARKET.peer_id, None])
@pytest.mark.parametrize("ledger", [LEDGER.peer_id, None])
def test_round_trip(market, ledger):
    descriptor = sign_descriptor(
        NetworkDescriptor(network=NETWORK.peer_id, market=market, ledger=ledger),
        NETWORK.sign,
    )
    assert parse_descriptor(descriptor.encoded) == descriptor
    assert len(descriptor.encoded) < 256


def test_services_are_named_only_if_both_are_there():
    both = NetworkDescriptor(
        network=NETWORK.peer_id, market=MARKET.peer_id, ledger=LEDGER.peer_id
    )
    assert both.services == Services(
        network=NETWORK.peer_id, market=MARKET.peer_id, ledger=LEDGER.peer_id
    )
    assert replace(both, market=None).services is None
    assert replace(both, ledger=None).services is None


def test_it_is_signed_by_its_own_network():
    forged = sign_descriptor(
        NetworkDescriptor(network=NETWORK.peer_id, market=None, ledger=None),
        MARKET.sign,
    )
    with pytest.raises(RecordError):
        parse_descriptor(forged.encoded)


@pytest.mark.parametrize(
    "values", [(2, "", ""), (1, ""), (1, "", bytes(5)), (1, 3, b"")]
)
def test_other_values_are_refused(values):
    version, *rest = values
    encoded = seal_signed(
        b"p2pmoe network descriptor v1\0",
        (version, NETWORK.peer_id, *rest),
        NETWORK.sign,
    )
    with pytest.raises(RecordError):
        parse_descriptor(encoded)
