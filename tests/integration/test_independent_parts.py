"""The parts of the auditor's script agree with the ledger's, which share no code."""

import contextlib
import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.accounts import TransferCode, transfer_id
from ledger.database import Reader
from ledger.errors import DifferenceFound, KeyRefused, PeriodRefused
from ledger.keys import parse_key
from ledger.leaf import LEAF_BYTES
from ledger.leaf_packs import pack_leaf_file, read_packed
from ledger.log.tree import root_of
from ledger.merkle import MerkleSum
from ledger.periods import parse_period
from tests.support.independent import independent
from tests.support.ledger_world import Party

P = 2**255 - 19
Y_ORDER_8 = 2707385501144840649318225287225658788936804267575313519463743609750303402022
SMALL_ORDER = [0, 1, P - 1, Y_ORDER_8, P - Y_ORDER_8, P, P + 1]


def accepts(raw: bytes) -> tuple[bool, bool]:
    """Whether ledger and script take these bytes as a key."""
    found = []
    for read, error in ((parse_key, KeyRefused), (independent.public_key, ValueError)):
        try:
            read(raw)
        except error:
            found.append(False)
        else:
            found.append(True)
    return tuple(found)


@given(st.binary(min_size=32, max_size=32))
def test_both_take_the_same_keys(raw):
    ours, theirs = accepts(raw)
    assert ours == theirs


@pytest.mark.parametrize("y", SMALL_ORDER)
@pytest.mark.parametrize("sign", [0, 1 << 255])
def test_both_refuse_keys_of_small_order(y, sign):
    assert accepts((y | sign).to_bytes(32, "little")) == (False, False)


def test_both_take_real_keys():
    for n in range(20):
        assert accepts(Party(f"party {n}").id) == (True, True)
    with pytest.raises(ValueError, match="no point"):
        independent.public_key(bytes(31) + b"\x7f")


@given(st.lists(st.tuples(st.binary(max_size=9), st.integers(0, 2**40)), max_size=40))
def test_both_make_the_same_trees(leaves):
    tree = MerkleSum()
    for leaf, amount in leaves:
        tree.append(leaf, amount)
    assert independent.sum_root(leaves) == tree.root.hash
    hashes = [bytes([n]) * 32 for n in range(len(leaves))]
    assert independent.tree_root(hashes) == root_of(hashes)
    heads = [(n, root_of(hashes[:n])) for n in range(len(hashes) + 1)]
    independent.check_roots(heads, hashes)


@given(st.sampled_from(list(TransferCode)), st.binary(max_size=80))
def test_both_number_transfers_alike(code, key):
    assert independent.transfer_id(code.value, key) == transfer_id(code, key)


NAMES = ["2026", "2026-11", "2026-12", "2024-02", "2024-02-29", "2026-12-31"]
NAMES += [
    "2026-11-01..2026-11-15",
    "2025..2026",
    "2026-13",
    "2026-00",
    "2026-11-00",
    "2026-02-30",
    "x",
    "",
    "..",
]


@pytest.mark.parametrize("name", NAMES)
def test_both_read_periods_alike(name):
    try:
        span = parse_period(name)
    except PeriodRefused:
        with pytest.raises(independent.Difference):
            independent.borders("period", name)
    else:
        borders = independent.borders("period", name)
        assert borders == (span.start_us, span.end_us)


def test_both_read_packed_leaves_alike(tmp_path):
    plain, packed = tmp_path / "00000001.leaves", tmp_path / "00000001.packed"
    raw = bytes(n * 7 % 251 for n in range(LEAF_BYTES * 2500))
    plain.write_bytes(raw)
    pack_leaf_file(plain, packed, len(raw))
    for start, n_leaves in ((0, 1), (1023, 2), (2048, 452), (0, 2500), (2499, 1)):
        at, size = start * LEAF_BYTES, n_leaves * LEAF_BYTES
        found = independent.read_packed(packed, at, size)
        assert found == read_packed(packed, at, size) == raw[at : at + size]
    with pytest.raises(independent.Difference):
        independent.read_packed(packed, len(raw), LEAF_BYTES)


def test_both_read_no_view_in_a_tables_place(tmp_path):
    path = tmp_path / "ledger.sqlite3"
    with contextlib.closing(sqlite3.connect(path)) as books:
        books.execute("create view voucher as select 1 as id")
    told = "'voucher' is no table of its own"
    with pytest.raises(DifferenceFound, match=told):
        Reader(tmp_path)
    with pytest.raises(independent.Difference, match=told):
        independent.open_database(path)


def test_what_the_books_say_does_not_steer_the_terminal():
    assert independent.printable(ValueError("a\x1b[2J\nb\u202e")) == "a?[2J?b?"
