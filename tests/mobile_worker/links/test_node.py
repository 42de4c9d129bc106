"""The surface of a node: both kinds have all of it."""

import inspect

import pytest

from mobile_worker.links.events import PathKind
from mobile_worker.links.linked_node import LinkedNode
from mobile_worker.links.memory import MemoryNode
from mobile_worker.links.node import Node, Traffic
from tests.support.nodes import settings_of


@pytest.mark.parametrize("implementation", [LinkedNode, MemoryNode])
def test_both_kinds_of_node_have_the_same_surface(implementation):
    for name, value in inspect.getmembers(Node, inspect.isfunction):
        if not name.startswith("_"):
            ours = inspect.signature(getattr(implementation, name))
            assert list(ours.parameters) == list(inspect.signature(value).parameters)
    for name in ("peer_id", "record", "descriptor"):
        assert isinstance(getattr(implementation, name), property)


def test_counters_begin_at_nothing():
    traffic = Traffic()
    assert traffic.up_bytes == traffic.down_bytes == dict.fromkeys(PathKind, 0)


def test_settings_have_modest_defaults():
    settings = settings_of(1)
    assert settings.listen is None
    assert settings.endpoints == ()
    assert settings.self_test == bytes(32)
