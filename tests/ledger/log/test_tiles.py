"""Tiles: names and widths of the specification, and the same roots and proofs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.errors import FormatRefused, ProofRefused
from ledger.log.entry import entry_hash
from ledger.log.tiles import (
    MAX_BUNDLE_BYTES,
    Tile,
    TileTree,
    extend,
    is_log_path,
    pack_bundle,
    parse_bundle,
    tiles_of,
)
from ledger.log.tree import (
    EMPTY_ROOT,
    node_hash,
    root_of,
    verify_consistency,
    verify_inclusion,
)


class Shelf(dict[Tile, bytes]):
    """Tiles in memory; growing writes each new one."""

    def read(self, tile: Tile) -> bytes:
        return self[tile]

    def grow(self, size: int, hashes: list[bytes]) -> None:
        self.update(list(extend(self.read, size, hashes)))

    def tree(self, size: int) -> TileTree:
        return TileTree(size, self.read)


LEAVES = [entry_hash(b"entry %d" % n) for n in range(301)]


def shelf_of(n: int) -> Shelf:
    shelf = Shelf()
    for size in range(n):
        shelf.grow(size, [LEAVES[size]])
    return shelf


SHELF = shelf_of(301)


@pytest.mark.parametrize(
    ("tile", "path"),
    [
        (Tile(0, 0), "tile/0/000"),
        (Tile(0, 273, 112), "tile/0/273.p/112"),
        (Tile(2, 0, 1), "tile/2/000.p/1"),
        (Tile(1, 999), "tile/1/999"),
        (Tile(1, 1000), "tile/1/x001/000"),
        (Tile(0, 1234067), "tile/0/x001/x234/067"),
        (Tile(0, 1234067, 8), "tile/0/x001/x234/067.p/8"),
        (Tile(63, 0), "tile/63/000"),
    ],
)
def test_paths(tile, path):
    assert tile.path == path
    assert is_log_path(path)
    bundle = path.replace(f"tile/{tile.level}/", "tile/entries/")
    assert tile.bundle_path == bundle
    assert is_log_path(bundle)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "checkpoint/",
        "/checkpoint",
        "../checkpoint",
        "tile/0/000.p/0",
        "tile/0/000.p/256",
        "tile/0/000.p/01",
        "tile/64/000",
        "tile/00/000",
        "tile/0/0",
        "tile/0/x000/001",
        "tile/0/001/000",
        "tile/0/x001/x000",
        "tile/0/../0/000",
        "tile/entries/000\n",
        "tile/entries/\u0660\u0660\u0660",
        "tile/0/" + "x001/" * 30 + "000",
        "tile/1234567/000",
    ],
)
def test_paths_that_are_none_of_a_log(path):
    assert not is_log_path(path)


def test_the_tree_of_70000_of_the_specification():
    widths: dict[tuple[int, bool], list[int]] = {}
    for tile in tiles_of(70_000):
        widths.setdefault((tile.level, tile.width == 256), []).append(tile.width)
    assert {key: len(found) for key, found in widths.items()} == {
        (0, True): 273,
        (0, False): 1,
        (1, True): 1,
        (1, False): 1,
        (2, False): 1,
    }
    assert (widths[0, False], widths[1, False], widths[2, False]) == ([112], [17], [1])
    assert list(tiles_of(256)) == [Tile(0, 0), Tile(1, 0, 1)]
    assert list(tiles_of(0)) == []


def test_a_tree_of_70000_grown_in_pieces():
    # leaves repeat with period 256, so that the oracle stays cheap
    period = LEAVES[:256]
    shelf, size = Shelf(), 0
    for target in (1, 255, 256, 257, 65_535, 65_536, 69_999, 70_000):
        shelf.grow(size, [period[n % 256] for n in range(size, target)])
        size = target
    assert set(tiles_of(70_000)) <= set(shelf)
    whole = root_of(period)
    for _ in range(8):
        whole = node_hash(whole, whole)  # 65,536 leaves
    rest = root_of([period[n % 256] for n in range(70_000 - 65_536)])
    tree = shelf.tree(70_000)
    assert tree.root == node_hash(whole, rest)
    for index in (0, 255, 256, 65_535, 65_536, 69_887, 69_888, 69_999):
        path = tree.inclusion(index)
        verify_inclusion(tree.leaf(index), index, 70_000, path, tree.root)
        assert tree.leaf(index) == period[index % 256]
    for old in (1, 256, 257, 65_535, 65_536, 69_999):
        verify_consistency(
            (old, shelf.tree(old).root), (70_000, tree.root), tree.consistency(old)
        )


def test_every_root_to_300():
    for n in range(301):
        assert SHELF.tree(n).root == root_of(LEAVES[:n])
    assert SHELF.tree(0).root == EMPTY_ROOT


def test_every_inclusion_proof_to_64():
    for n in range(1, 65):
        tree = SHELF.tree(n)
        root = tree.root
        for m in range(n):
            verify_inclusion(LEAVES[m], m, n, tree.inclusion(m), root)


def test_every_consistency_proof_to_64():
    roots = [root_of(LEAVES[:n]) for n in range(65)]
    for n in range(65):
        tree = SHELF.tree(n)
        for m in range(n + 1):
            verify_consistency((m, roots[m]), (n, roots[n]), tree.consistency(m))


@pytest.mark.parametrize("n", [255, 256, 257, 300])
def test_proofs_across_the_first_tiles_border(n):
    tree = SHELF.tree(n)
    for m in range(n):
        verify_inclusion(LEAVES[m], m, n, tree.inclusion(m), tree.root)
        if m in {1, 64, 128, 255, 256, 257}:
            old = m, root_of(LEAVES[:m])
            verify_consistency(old, (n, tree.root), tree.consistency(m))


def test_how_it_grew_does_not_show():
    at_once = Shelf()
    at_once.grow(0, LEAVES)
    assert set(at_once) == set(tiles_of(301))
    assert all(SHELF[tile] == raw for tile, raw in at_once.items())


@given(st.integers(0, 1 << 40), st.integers(0, 1 << 12))
def test_new_tiles_are_those_that_the_old_tree_lacked(size, more):
    top = size + more
    new = list(tiles_of(top, size))
    assert all(0 < tile.width <= 256 for tile in new)
    assert len(new) == len(set(new))
    for tile in new:
        held = size >> 8 * tile.level
        assert tile.index * 256 + tile.width > held
    if more:
        assert Tile(0, (top - 1) // 256, (top - 1) % 256 + 1) in new
    else:
        assert new == []


def test_a_tile_of_a_wrong_length_is_refused():
    shelf = Shelf(SHELF)
    last = Tile(0, 1, 44)
    shelf[last] = shelf[last][:-1]
    with pytest.raises(FormatRefused):
        _ = shelf.tree(300).root
    with pytest.raises(FormatRefused):
        shelf.grow(300, [LEAVES[300]])


def test_a_tile_that_the_one_above_does_not_know_is_refused():
    shelf = Shelf(SHELF)
    full = Tile(0, 0)
    shelf[full] = b"x" * 32 + shelf[full][32:]
    assert shelf.tree(301).root == SHELF.tree(301).root  # which does not read it
    with pytest.raises(ProofRefused, match="tile/0/000 is not"):
        shelf.tree(301).inclusion(0)
    with pytest.raises(ProofRefused):
        shelf.tree(301).leaf(255)


def test_a_given_root_covers_every_partial_tile():
    root = SHELF.tree(300).root
    assert TileTree(300, SHELF.read, root).leaf(299) == LEAVES[299]
    for tile in (Tile(0, 1, 44), Tile(1, 0, 1)):
        shelf = Shelf(SHELF)
        shelf[tile] = shelf[tile][:-1] + b"x"
        with pytest.raises(ProofRefused):
            TileTree(300, shelf.read, root)
    with pytest.raises(ProofRefused):
        TileTree(0, SHELF.read, root)


def test_what_no_tree_has():
    tree = SHELF.tree(300)
    for call in (tree.inclusion, tree.leaf):
        for index in (-1, 300):
            with pytest.raises(ProofRefused):
                call(index)
    for old in (-1, 301):
        with pytest.raises(ProofRefused):
            tree.consistency(old)
    with pytest.raises(ProofRefused):
        TileTree(-1, SHELF.read)


@given(st.lists(st.binary(max_size=60), max_size=20))
def test_bundles_read_back(entries):
    raw = pack_bundle(entries)
    assert parse_bundle(raw, len(entries)) == entries
    assert len(raw) <= MAX_BUNDLE_BYTES
    for n in (len(entries) + 1, len(entries) - 1):
        if n >= 0:
            with pytest.raises(FormatRefused):
                parse_bundle(raw, n)


def test_bundles_that_are_cut_or_too_long():
    raw = pack_bundle([b"one", b"three"])
    for cut in (raw[:-1], raw + b"\0", raw[:1], b"\xff\xff" + raw[2:]):
        with pytest.raises(FormatRefused):
            parse_bundle(cut, 2)
    pack_bundle([bytes(65_535)])
    with pytest.raises(FormatRefused):
        pack_bundle([bytes(65_536)])
