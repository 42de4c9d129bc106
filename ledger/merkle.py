"""The Merkle-sum tree: one root that commits every leaf and the total they add up to.

Contract: leaf `H(0x00 || leaf)`, node `H(0x01 || left || right || sum_l || sum_r)` with
the sums as u64 big-endian, H = SHA-256, split at the largest power of two below the
size. The empty tree has the hash of no bytes and the sum 0. A sum above 2^63 - 1 is
refused wherever it would arise. Pure.

`MerkleSum` grows by one leaf at the amortised price of one node, many leaves at once
being quicker than one by one, and takes a late leaf in the middle as long as it falls
into the window of leaf hashes kept in memory.

Specification: RFC 6962, section 2.1 and RFC 9162, section 2.1.3; sums as in Maxwell's
proof of liabilities, with both sums hashed (so that no node can hide one).
"""

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TypeVar

from ledger.amounts import MAX_SUM_UC
from ledger.errors import AmountRefused, OutOfWindow, ProofRefused

__all__ = [
    "EMPTY_ROOT",
    "MerkleSum",
    "Node",
    "climb",
    "inclusion_path",
    "leaf_hash",
    "node",
    "verify_inclusion",
]

_INNER = struct.Struct(">B32s32sQQ")
_BLOCK = 256  # leaves between two marks

Hashed = tuple[bytes, int]  # hash [32] and sum of a subtree
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Node:
    """Hash and sum of a subtree."""

    hash: bytes  # [32]
    sum_uc: int


EMPTY_ROOT = Node(sha256(b"").digest(), 0)


def leaf_hash(leaf: bytes) -> bytes:
    """Return the 32-byte hash of one leaf."""
    return sha256(b"\x00" + leaf).digest()


def node(left: Node, right: Node) -> Node:
    """Return the parent of two subtrees.

    Raises:
        ProofRefused: a hash is not 32 bytes long.
        AmountRefused: a sum is negative or the total above 2^63 - 1.
    """
    if len(left.hash) != 32 or len(right.hash) != 32:
        raise ProofRefused(f"hashes of {len(left.hash)} and {len(right.hash)} bytes")
    return Node(*_parent(left.hash, left.sum_uc, right.hash, right.sum_uc))


def inclusion_path(leaves: Sequence[Node], index: int) -> tuple[Node, ...]:
    """Return the siblings of leaf `index`, from the leaf up to the root.

    Args:
        leaves: hash and amount of every leaf, in the tree's order.
        index: position in [0, len(leaves)).

    Raises:
        ProofRefused: the index is outside the tree.
    """
    if not 0 <= index < len(leaves):
        raise ProofRefused(f"leaf {index} of a tree of {len(leaves)}")
    path: list[Node] = []
    level, at = list(leaves), index
    while len(level) > 1:
        sibling = at ^ 1
        if sibling < len(level):
            path.append(level[sibling])
        odd = [level[-1]] if len(level) % 2 else []
        level = [node(level[i], level[i + 1]) for i in range(0, len(level) - 1, 2)]
        level += odd
        at //= 2
    return tuple(path)


def verify_inclusion(
    leaf: Node, index: int, size: int, path: Sequence[Node], root: Node
) -> None:
    """Check that `leaf` is at `index` in the tree of `size` leaves under `root`.

    Raises:
        ProofRefused: wrong length of path, or another root or sum results.
        AmountRefused: a sum on the way is negative or overflows.
    """
    if not 0 <= index < size:
        raise ProofRefused(f"leaf {index} of a tree of {size}")
    if climb(leaf, (index, size), path, node) != root:
        raise ProofRefused("path leads to another root or sum")


def climb(
    leaf: T, place: tuple[int, int], path: Sequence[T], join: Callable[[T, T], T]
) -> T:
    """Return the root that a path of siblings leads to, whatever a node is.

    Args:
        leaf: the hash, or hash and sum, to start from.
        place: the leaf's index and the number of leaves, index < number.
        path: siblings from the leaf up.
        join: makes the node above two subtrees, left and right.

    Raises:
        ProofRefused: a wrong length of the path.
    """
    at, last = place[0], place[1] - 1
    current = leaf
    for sibling in path:
        if last == 0:
            raise ProofRefused("path is longer than the tree is high")
        if at & 1 or at == last:
            current = join(sibling, current)
            while not at & 1 and at:
                at, last = at >> 1, last >> 1
        else:
            current = join(current, sibling)
        at, last = at >> 1, last >> 1
    if last != 0:
        raise ProofRefused("path is shorter than the tree is high")
    return current


class MerkleSum:
    """A growing tree: append is one node amortised, late leaves go in within a window.

    Memory: about 140 bytes for each leaf of the window, whatever the tree's size.
    """

    def __init__(self, window: int = 16_384) -> None:
        """Start empty; keep at least `window` leaf hashes for late insertions."""
        self._window = max(window, _BLOCK)
        self._size = 0
        self._total_uc = 0
        self._stack: list[Hashed] = []  # complete subtrees, largest first
        self._base = 0  # first leaf whose hash is kept; a multiple of _BLOCK
        self._recent: list[Hashed] = []
        self._marks: list[tuple[Hashed, ...]] = []  # stack at each block

    def __len__(self) -> int:
        """Return the number of leaves."""
        return self._size

    @property
    def root(self) -> Node:
        """Hash and sum of the whole tree; O(log n)."""
        if not self._stack:
            return EMPTY_ROOT
        right, sum_right = self._stack[-1]
        for left, sum_left in reversed(self._stack[:-1]):
            right, sum_right = _parent(left, sum_left, right, sum_right)
        return Node(right, sum_right)

    def copy(self) -> "MerkleSum":
        """Return an independent copy; O(window)."""
        twin = MerkleSum(self._window)
        twin._size, twin._base = self._size, self._base
        twin._total_uc = self._total_uc
        twin._stack = self._stack.copy()
        twin._recent = self._recent.copy()
        twin._marks = self._marks.copy()
        return twin

    def append(self, leaf: bytes, amount_uc: int) -> None:
        """Add a leaf at the end; see `extend`."""
        self.extend([leaf], [amount_uc])

    def extend(self, leaves: Sequence[bytes], amounts_uc: Sequence[int]) -> None:
        """Add leaves at the end, as many amounts as leaves.

        Raises:
            AmountRefused: an amount is negative, or the total would pass 2^63 - 1;
                nothing was changed.
        """
        hashes = [sha256(b"\x00" + leaf).digest() for leaf in leaves]
        hashed = list(zip(hashes, amounts_uc, strict=True))
        self._total_uc = self._checked_total(amounts_uc)
        self._push(hashed)

    def insert(self, items: Sequence[tuple[int, bytes, int]]) -> None:
        """Add leaves, each before the one that is now at its index; later ones move up.

        Args:
            items: (index in [0, size], leaf, amount_uc), indices ascending.

        Raises:
            OutOfWindow: the first place is no longer in memory; nothing was changed.
            AmountRefused: as for `extend`; nothing was changed.
        """
        if not items:
            return
        first = items[0][0]
        if first < self._size and first < self._base:
            raise OutOfWindow(f"leaf {first}: kept are {self._base} to {self._size}")
        self._total_uc = self._checked_total([amount for _, _, amount in items])
        later = self._cut(first)
        start, at = self._size, 0
        merged: list[Hashed] = []
        for index, leaf, amount_uc in items:
            merged += later[at : index - start]
            at = index - start
            merged.append((leaf_hash(leaf), amount_uc))
        self._push(merged + later[at:])

    def _cut(self, first: int) -> list[Hashed]:
        """Go back to the last mark at or before leaf `first`; return what was after."""
        if first >= self._size:
            return []
        block = (first - self._base) // _BLOCK
        later = self._recent[block * _BLOCK :]
        self._stack = list(self._marks[block])
        self._size = self._base + block * _BLOCK
        del self._recent[block * _BLOCK :]
        del self._marks[block:]
        return later

    def _checked_total(self, amounts_uc: Sequence[int]) -> int:
        total = self._total_uc + sum(amounts_uc)
        if min(amounts_uc, default=0) < 0 or total > MAX_SUM_UC:
            raise AmountRefused(f"sums {self._total_uc} and {total} overflow")
        return total

    def _push(self, leaves: Sequence[Hashed]) -> None:
        """Add hashed leaves: the largest whole subtrees that fit, from left to right.

        No subtree spans a mark, so that the stack at every mark is known.
        """
        start = 0
        while start < len(leaves):
            at = self._size % _BLOCK
            if at == 0:
                self._mark()
            n_fit = min(len(leaves) - start, (at & -at) or _BLOCK)
            n = 1 << (n_fit.bit_length() - 1)
            part = leaves[start : start + n]
            self._recent += part
            self._carry(_whole(part), n)
            start += n

    def _carry(self, subtree: Hashed, n: int) -> None:
        """Add a whole subtree of `n` leaves, a power of two that divides the size."""
        hashed, sum_uc = subtree
        size = self._size // n
        while size & 1:
            left, sum_left = self._stack.pop()
            hashed, sum_uc = _parent(left, sum_left, hashed, sum_uc)
            size >>= 1
        self._stack.append((hashed, sum_uc))
        self._size += n

    def _mark(self) -> None:
        self._marks.append(tuple(self._stack))
        if len(self._recent) >= self._window + _BLOCK:
            del self._recent[:_BLOCK]
            del self._marks[0]
            self._base += _BLOCK


def _whole(level: Sequence[Hashed]) -> Hashed:
    """Return the root over a power of two of subtrees; their sums were checked."""
    pack = _INNER.pack
    while len(level) > 1:
        level = [
            (sha256(pack(1, left, right, sum_l, sum_r)).digest(), sum_l + sum_r)
            for (left, sum_l), (right, sum_r) in zip(
                level[::2], level[1::2], strict=True
            )
        ]
    return level[0]


def _parent(left: bytes, sum_l: int, right: bytes, sum_r: int) -> Hashed:
    total = sum_l + sum_r
    if sum_l < 0 or sum_r < 0 or total > MAX_SUM_UC:
        raise AmountRefused(f"sums {sum_l} and {sum_r} overflow")
    return sha256(_INNER.pack(1, left, right, sum_l, sum_r)).digest(), total
