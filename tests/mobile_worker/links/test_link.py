"""Every kind of link is a `Link`, the switchboard owns them."""

import inspect

import pytest

from mobile_worker.links.direct import DirectLink
from mobile_worker.links.link import Link, LinkOwner
from mobile_worker.links.relay import RelayLink, RelayOwner
from mobile_worker.links.relay_side import RelaySide
from mobile_worker.links.switchboard import Switchboard


def methods_of(protocol):
    return [
        name
        for name, value in inspect.getmembers(protocol)
        if not name.startswith("_") and (callable(value) or isinstance(value, property))
    ]


@pytest.mark.parametrize(
    ("protocol", "implementation"),
    [
        (Link, DirectLink),
        (Link, RelayLink),
        (LinkOwner, Switchboard),
        (RelayOwner, RelaySide),
    ],
)
def test_implementations_have_what_the_protocol_asks(protocol, implementation):
    assert methods_of(protocol)
    for name in methods_of(protocol):
        assert hasattr(implementation, name)
