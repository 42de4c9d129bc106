"""The bytes of statements and their root."""

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger import statement_root as module
from ledger.accounts import TransferCode
from ledger.flows import WORKER_CODES, Flows, WorkerBalances
from ledger.periods import Period
from ledger.statement_root import (
    STATEMENT_BYTES,
    pack_statement,
    statement_hash,
    statement_root,
)
from tests.support.books import Books
from tests.support.ledger_world import NOVEMBER_US, Party, World

MONTH = Period(NOVEMBER_US, NOVEMBER_US + 100)


@pytest.mark.parametrize(("standby_uc", "version"), [(0, 1), (16, 2)])
def test_golden_bytes(standby_uc, version):
    flows = Flows(
        opening=WorkerBalances(pending_uc=1, held_uc=2, available_uc=3, clearing_uc=4),
        moved={code: 5 + n for n, code in enumerate(WORKER_CODES)}
        | {TransferCode.STANDBY: standby_uc},
        closing=WorkerBalances(
            pending_uc=17, held_uc=18, available_uc=19, clearing_uc=20
        ),
    )
    packed = pack_statement(b"w" * 32, Period(100, 200), flows)
    standby = [standby_uc] * (standby_uc > 0)  # a twelfth movement, if there is one
    numbers = (100, 200, *range(1, 16), *standby, *range(17, 21))
    expected = b"PMST" + bytes([version]) + b"w" * 32
    assert packed == expected + b"".join(n.to_bytes(8, "big") for n in numbers)
    assert len(packed) == STATEMENT_BYTES + 8 * len(standby)
    assert statement_hash(packed) == sha256(b"\0" + packed).digest()


def split_root(hashes):
    """The tree hash as RFC 6962 words it: split at the largest power of two below."""
    if not hashes:
        return sha256().digest()
    if len(hashes) == 1:
        return hashes[0]
    k = 1
    while 2 * k < len(hashes):
        k *= 2
    left, right = split_root(hashes[:k]), split_root(hashes[k:])
    return sha256(b"\x01" + left + right).digest()


@given(st.integers(0, 70))
def test_the_root_is_the_rfcs(n):
    hashes = [sha256(b"%d" % i).digest() for i in range(n)]
    assert module._tree_hash(hashes) == split_root(hashes)


@pytest.fixture
def books(tmp_path):
    world = World()
    with world.open(tmp_path) as store:
        for n, worker in enumerate((world.worker, Party("other"))):
            issued = store.grant(world.order(worker=worker)).result(60)
            world.tab(issued, worker=worker, tab=b"tab-000%d" % n).file(store, 0, 1)
    return Books(world, tmp_path)


def test_what_comes_after_a_period_does_not_change_its_root(books):
    with books:
        root = statement_root(books.connection, MONTH)
        books.close(1, MONTH.end_us, fee=5, held=1)
        books.settle(1, MONTH.end_us + 10)
        assert statement_root(books.connection, MONTH) == root
        next_month = Period(MONTH.end_us, MONTH.end_us + 100)
        changed = statement_root(books.connection, next_month)
    assert root != changed != statement_root_of_nothing()


def statement_root_of_nothing():
    return sha256().digest()


def test_no_workers_no_leaves(books):
    with books:
        early = Period(0, 1)
        assert statement_root(books.connection, early) == statement_root_of_nothing()
