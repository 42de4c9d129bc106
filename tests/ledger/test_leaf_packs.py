"""Packed leaf files: the same bytes by position, smaller, and damage is seen."""

import os
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger import leaf_packs
from ledger.errors import DifferenceFound
from ledger.leaf import LEAF_BYTES
from ledger.leaf_packs import BLOCK_BYTES, pack_leaf_file, packed_length, read_packed
from tests.support.ledger_world import paper_tab


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    """A packed file of two blocks and a bit, its plain bytes, and its digest."""
    folder = tmp_path_factory.mktemp("packs")
    tab = paper_tab()
    some = b"".join(tab.leaf(n) for n in range(256))
    plain = (some * 9)[: 2 * BLOCK_BYTES + 7 * LEAF_BYTES]
    (folder / "plain").write_bytes(plain + b"never committed")
    digest = pack_leaf_file(folder / "plain", folder / "packed", len(plain))
    return folder / "packed", plain, digest


def test_it_is_what_it_was_and_smaller(packed):
    path, plain, digest = packed
    assert digest == sha256(plain).digest()
    assert packed_length(path) == len(plain)
    assert read_packed(path, 0, len(plain)) == plain
    assert path.stat().st_size < len(plain)
    assert [p.name for p in path.parent.iterdir() if p.suffix == ".tmp"] == []


@given(st.data())
def test_any_part_is_read_by_position(packed, data):
    path, plain, _ = packed
    start = data.draw(st.integers(0, len(plain) - 1))
    end = data.draw(st.integers(start + 1, len(plain)))
    assert read_packed(path, start, end - start) == plain[start:end]


def test_beyond_the_end_there_is_nothing(packed):
    path, plain, _ = packed
    with pytest.raises(DifferenceFound, match="needs"):
        read_packed(path, len(plain) - 1, 2)


@pytest.mark.parametrize("keep", [0, 3, 16, 20, 1000])
def test_a_file_cut_off_is_seen(packed, tmp_path, keep):
    path, plain, _ = packed
    short = tmp_path / "short"
    short.write_bytes(path.read_bytes()[:keep])
    for read in (packed_length, lambda p: read_packed(p, 0, len(plain))):
        with pytest.raises(DifferenceFound):
            read(short)


def test_any_flipped_bit_is_seen(packed, tmp_path):
    path, plain, _ = packed
    raw = path.read_bytes()
    flipped = tmp_path / "flipped"
    for at in range(0, len(raw), 1499):
        flipped.write_bytes(raw[:at] + bytes([raw[at] ^ 4]) + raw[at + 1 :])
        with pytest.raises(DifferenceFound):
            assert packed_length(flipped) == len(read_packed(flipped, 0, len(plain)))


def test_lengths_are_bounded_before_they_are_used(packed, tmp_path):
    path, _, _ = packed
    bomb = bytearray(path.read_bytes())
    bomb[5:13] = (1 << 60).to_bytes(8, "big")
    bomb[13:17] = b"\xff" * 4
    (tmp_path / "bomb").write_bytes(bomb)
    with pytest.raises(DifferenceFound, match="blocks"):
        read_packed(tmp_path / "bomb", 0, 1)


def test_only_whole_leaves_are_packed(tmp_path):
    (tmp_path / "plain").write_bytes(bytes(100))
    for n_bytes in (100, 158):
        with pytest.raises(DifferenceFound, match="fewer leaves"):
            pack_leaf_file(tmp_path / "plain", tmp_path / "packed", n_bytes)
    assert not (tmp_path / "packed").exists()


def test_a_copy_that_does_not_read_back_is_not_trusted(tmp_path, monkeypatch):
    (tmp_path / "plain").write_bytes(bytes(79))
    monkeypatch.setattr(leaf_packs, "read_packed", lambda *_: b"other")
    with pytest.raises(DifferenceFound, match="read back"):
        pack_leaf_file(tmp_path / "plain", tmp_path / "packed", 79)
    assert not (tmp_path / "packed").exists()
    assert (tmp_path / "plain").exists()


def test_a_full_disk_leaves_what_was_there(tmp_path, monkeypatch):
    (tmp_path / "plain").write_bytes(bytes(79))

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        pack_leaf_file(tmp_path / "plain", tmp_path / "packed", 79)
    assert not (tmp_path / "packed").exists()
