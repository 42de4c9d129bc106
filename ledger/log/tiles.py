r"""Tiles: the log's tree and entries as immutable files, and proofs read from them.

Contract: tile `n` of level `l` holds up to 256 hashes, 32 bytes each, one after the
other: of level 0 the leaf hashes, of level l + 1 the roots of full tiles of level l. A
tree of `size` entries has `size >> 8 * l` hashes at level l; its last tile of a level
may be partial and is named by its width. An empty tile does not exist. Paths below the
log's folder or address:

    tile/<l>/<n>[.p/<width>]         hashes
    tile/entries/<n>[.p/<width>]     entries: each `u16 length || bytes`, big-endian

with n in groups of three digits, all but the last beginning with x: 1234067 is
`x001/x234/067`. `TileTree` answers for one size from whatever reads tiles. A full
tile is believed only if it has the hash that the tile above it has for it; given the
root, which covers all partial tiles, nothing is believed that the root does not cover.
Pure.

Specification: C2SP tlog-tiles v1.
"""

import re
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ledger.errors import FormatRefused, ProofRefused
from ledger.log.tree import EMPTY_ROOT, HASH_BYTES, MAX_SIZE, node_hash, root_of

__all__ = [
    "CHECKPOINT_PATH",
    "MAX_BUNDLE_BYTES",
    "TILE_WIDTH",
    "ReadTile",
    "Tile",
    "TileTree",
    "extend",
    "is_log_path",
    "pack_bundle",
    "parse_bundle",
    "tiles_of",
]

CHECKPOINT_PATH = "checkpoint"
TILE_WIDTH = 256
_HEIGHT = 8  # levels of the tree in one tile
_LENGTH = struct.Struct(">H")
MAX_BUNDLE_BYTES = TILE_WIDTH * (_LENGTH.size + 0xFFFF)
_PATH = re.compile(
    r"tile/(?:entries|[0-9]|[1-5][0-9]|6[0-3])/"
    r"((?:x[0-9]{3}/){0,6}[0-9]{3})(?:\.p/([1-9][0-9]{0,2}))?",
    re.ASCII,
)


@dataclass(frozen=True, slots=True, order=True)
class Tile:
    """Which tile: its level, its place in the level, and how many hashes it holds."""

    level: int
    index: int
    width: int = TILE_WIDTH

    @property
    def path(self) -> str:
        """Where its hashes lie."""
        return f"tile/{self.level}/{_name(self.index, self.width)}"

    @property
    def bundle_path(self) -> str:
        """Where the entries of a tile of level 0 lie."""
        return f"tile/entries/{_name(self.index, self.width)}"

    @property
    def n_bytes(self) -> int:
        """How long the tile is."""
        return self.width * HASH_BYTES

    @property
    def full(self) -> "Tile":
        """The tile that this one grows into."""
        return Tile(self.level, self.index)


ReadTile = Callable[[Tile], bytes]  # raises if the tile is not there


def is_log_path(path: str) -> bool:
    """Say whether a path, relative to the log's address, can be part of a log."""
    if path == CHECKPOINT_PATH:
        return True
    match = _PATH.fullmatch(path)
    if match is None or int(match[2] or 1) >= TILE_WIDTH:
        return False
    return match[1] == _name(int(re.sub("[x/]", "", match[1])), TILE_WIDTH)


def tiles_of(size: int, start: int = 0) -> Iterator[Tile]:
    """Return the tiles of a tree, lowest level first.

    Args:
        size: entries in the tree.
        start: leave out tiles that a tree of this size has, just as they are.
    """
    for level in range(64 // _HEIGHT):
        n_hashes, n_before = size >> _HEIGHT * level, start >> _HEIGHT * level
        if n_hashes == 0:
            return
        for at in range(n_before // TILE_WIDTH, -(-n_hashes // TILE_WIDTH)):
            tile = Tile(level, at, min(TILE_WIDTH, n_hashes - at * TILE_WIDTH))
            if at * TILE_WIDTH + tile.width > n_before:
                yield tile


def extend(
    read: ReadTile, old_size: int, hashes: Sequence[bytes]
) -> Iterator[tuple[Tile, bytes]]:
    """Return each new tile, with its bytes, of the tree with more entries.

    Args:
        read: reads tiles of the tree of `old_size` entries.
        old_size: entries so far.
        hashes: leaf hashes of the entries that come.
    """
    level, new = 0, list(hashes)
    while new:
        n_before = old_size >> _HEIGHT * level
        at, width = divmod(n_before, TILE_WIDTH)
        if width:
            new = [*_split(read(Tile(level, at, width)), width), *new]
        above: list[bytes] = []
        for start in range(0, len(new), TILE_WIDTH):
            held = new[start : start + TILE_WIDTH]
            yield Tile(level, at, len(held)), b"".join(held)
            if len(held) == TILE_WIDTH:
                above.append(root_of(held))
            at += 1
        level, new = level + 1, above


def pack_bundle(entries: Sequence[bytes]) -> bytes:
    """Return entries as one file.

    Raises:
        FormatRefused: an entry is longer than 65,535 bytes.
    """
    longest = max(map(len, entries), default=0)
    if longest > 0xFFFF:
        raise FormatRefused(f"log entry of {longest} bytes")
    return b"".join(_LENGTH.pack(len(entry)) + entry for entry in entries)


def parse_bundle(raw: bytes, n_entries: int) -> list[bytes]:
    """Read the entries of one file back.

    Raises:
        FormatRefused: the file does not hold exactly `n_entries`.
    """
    entries: list[bytes] = []
    at = 0
    while at + _LENGTH.size <= len(raw) and len(entries) < n_entries:
        start = at + _LENGTH.size
        at = start + _LENGTH.unpack_from(raw, at)[0]
        entries.append(raw[start:at])
    if at != len(raw) or len(entries) != n_entries:
        raise FormatRefused(
            f"entries: {len(entries)} of {n_entries} in {len(raw)} bytes"
        )
    return entries


class TileTree:
    """Root and proofs of the tree of one size; each tile is read at most once.

    Every method raises ProofRefused upon a tile that the one above does not know.
    """

    def __init__(self, size: int, read: ReadTile, root: bytes | None = None) -> None:
        """Look at a tree through `read`.

        Args:
            size: entries in the tree.
            read: reads a tile.
            root: 32 bytes that the tiles must lead to, if it is known.

        Raises:
            ProofRefused: no tree has this size, or the tiles lead to another root.
        """
        if not 0 <= size <= MAX_SIZE:
            raise ProofRefused(f"log of {size} entries")
        self.size = size
        self._read = read
        self._tiles: dict[tuple[int, int], list[bytes]] = {}
        if root is not None and root != self.root:
            raise ProofRefused(f"tiles of {size} entries lead to another root")

    @property
    def root(self) -> bytes:
        """The 32-byte root."""
        return self._hash(0, self.size) if self.size else EMPTY_ROOT

    def leaf(self, index: int) -> bytes:
        """Return the leaf hash of an entry.

        Raises:
            ProofRefused: there is no such entry.
        """
        if not 0 <= index < self.size:
            raise ProofRefused(f"entry {index} of a log of {self.size}")
        return self._stored(0, index)

    def inclusion(self, index: int) -> tuple[bytes, ...]:
        """Return the inclusion proof of an entry, from the leaf up.

        Raises:
            ProofRefused: there is no such entry.
        """
        if not 0 <= index < self.size:
            raise ProofRefused(f"entry {index} of a log of {self.size}")
        path: list[bytes] = []
        start, end = 0, self.size
        while end - start > 1:
            middle = start + _split_at(end - start)
            if index < middle:
                path.append(self._hash(middle, end))
                end = middle
            else:
                path.append(self._hash(start, middle))
                start = middle
        return tuple(reversed(path))

    def consistency(self, old_size: int) -> tuple[bytes, ...]:
        """Return the proof that the tree of `old_size` is a beginning of this one.

        Raises:
            ProofRefused: the other tree is larger than this one.
        """
        if not 0 <= old_size <= self.size:
            raise ProofRefused(f"log of {self.size} entries after one of {old_size}")
        if old_size in {0, self.size}:
            return ()
        path: list[bytes] = []
        start, end = 0, self.size
        while old_size != end:
            middle = start + _split_at(end - start)
            if old_size <= middle:
                path.append(self._hash(middle, end))
                end = middle
            else:
                path.append(self._hash(start, middle))
                start = middle
        if start:
            path.append(self._hash(start, end))
        return tuple(reversed(path))

    def _hash(self, start: int, end: int) -> bytes:
        """Return the hash over entries [start, end), a subtree of this tree."""
        n_entries = end - start
        height = n_entries.bit_length() - 1
        if n_entries == 1 << height:
            return self._stored(height, start >> height)
        middle = start + _split_at(n_entries)
        return node_hash(self._hash(start, middle), self._hash(middle, end))

    def _stored(self, height: int, at: int) -> bytes:
        """Return the hash of the full subtree `at` of 2^height entries."""
        level, rest = divmod(height, _HEIGHT)
        index, first = divmod(at << rest, TILE_WIDTH)
        hashes = self._tile(level, index)
        return root_of(hashes[first : first + (1 << rest)])

    def _tile(self, level: int, index: int) -> list[bytes]:
        found = self._tiles.get((level, index))
        if found is None:
            n_hashes = self.size >> _HEIGHT * level
            width = min(TILE_WIDTH, n_hashes - index * TILE_WIDTH)
            tile = Tile(level, index, width)
            found = _split(self._read(tile), width)
            if width == TILE_WIDTH:
                above, at = divmod(index, TILE_WIDTH)
                if root_of(found) != self._tile(level + 1, above)[at]:
                    raise ProofRefused(f"{tile.path} is not what the tile above says")
            self._tiles[level, index] = found
        return found


def _split_at(n_entries: int) -> int:
    """Return the largest power of two below a number above one."""
    return 1 << (n_entries - 1).bit_length() - 1


def _split(raw: bytes, width: int) -> list[bytes]:
    if len(raw) != width * HASH_BYTES:
        raise FormatRefused(f"tile of {len(raw)} bytes, expected {width} hashes")
    return [raw[at : at + HASH_BYTES] for at in range(0, len(raw), HASH_BYTES)]


def _name(index: int, width: int) -> str:
    groups = [f"{index % 1000:03d}"]
    while index >= 1000:
        index //= 1000
        groups.append(f"x{index % 1000:03d}")
    return "/".join(reversed(groups)) + (f".p/{width}" if width < TILE_WIDTH else "")
