"""What most of these tests begin with: a network's keys, and its ledger, just opened.

A test module with terms of its own, or with something to check at the end, has its own.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ledger.store import Store
from tests.support.ledger_world import World


@pytest.fixture
def world() -> World:
    """The keys, prices and clock of a network without a ledger yet."""
    return World()


@pytest.fixture
def store(world: World, tmp_path: Path) -> Iterator[Store]:
    """The world's ledger, open, with the policy of a new one."""
    with world.open(tmp_path) as store:
        yield store
