"""The tree over the log's entries: hashes, roots and both kinds of proof.

Contract: SHA-256; leaf `H(0x00 || entry)`, node `H(0x01 || left || right)`, split at
the largest power of two below the size; the empty tree has the hash of no bytes. A
proof is checked against roots alone: no step is trusted, none may be left over. Pure.

Specification: RFC 6962, section 2.1; checking as in RFC 9162, sections 2.1.3.2 and
2.1.4.2.
"""

from collections.abc import Sequence
from hashlib import sha256

from ledger.errors import ProofRefused
from ledger.merkle import climb

__all__ = [
    "EMPTY_ROOT",
    "HASH_BYTES",
    "MAX_SIZE",
    "node_hash",
    "root_of",
    "verify_consistency",
    "verify_inclusion",
]

HASH_BYTES = 32
MAX_SIZE = 1 << 63  # entries; no tree is larger
EMPTY_ROOT = sha256(b"").digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Return the 32-byte hash of the node above two subtrees."""
    return sha256(b"\x01" + left + right).digest()


def root_of(hashes: Sequence[bytes]) -> bytes:
    """Return the root over leaf hashes (or over equal subtrees' hashes), in order."""
    if not hashes:
        return EMPTY_ROOT
    level = list(hashes)
    while len(level) > 1:
        odd = level[-1:] if len(level) % 2 else []
        pairs = zip(level[::2], level[1::2], strict=False)
        level = [node_hash(left, right) for left, right in pairs] + odd
    return level[0]


def verify_inclusion(
    leaf: bytes, index: int, size: int, path: Sequence[bytes], root: bytes
) -> None:
    """Check that a leaf hash is at `index` of the tree of `size` entries.

    Args:
        leaf: 32-byte leaf hash.
        index: in [0, size).
        size: number of entries under `root`.
        path: siblings from the leaf up.
        root: 32 bytes.

    Raises:
        ProofRefused: a wrong length of the path, or another root results.
    """
    if not 0 <= index < size <= MAX_SIZE:
        raise ProofRefused(f"entry {index} of a log of {size}")
    if climb(leaf, (index, size), path, node_hash) != root:
        raise ProofRefused(f"entry {index} is not under the root")


def verify_consistency(
    old: tuple[int, bytes], new: tuple[int, bytes], path: Sequence[bytes]
) -> None:
    """Check that the old tree's entries are the first of the new one's.

    Args:
        old: size and 32-byte root of the earlier tree; may be empty.
        new: size and root of the later one.
        path: the consistency proof; empty for equal sizes and for an empty old tree.

    Raises:
        ProofRefused: sizes go back, a wrong length of the path, or other roots result.
    """
    (old_size, old_root), (new_size, new_root) = old, new
    if not 0 <= old_size <= new_size <= MAX_SIZE:
        raise ProofRefused(f"log of {new_size} entries after one of {old_size}")
    if old_size in {0, new_size}:
        expected = EMPTY_ROOT if old_size == 0 else new_root
        if path or old_root != expected or (new_size == 0 and new_root != EMPTY_ROOT):
            raise ProofRefused(f"roots of {old_size} and {new_size} entries differ")
        return
    steps = list(path)
    if old_size & (old_size - 1) == 0:
        steps.insert(0, old_root)
    if not steps:
        raise ProofRefused("consistency proof is empty")
    from_old, from_new = _roots_of_steps(old_size - 1, new_size - 1, steps)
    if from_old != old_root or from_new != new_root:
        raise ProofRefused(f"log of {new_size} entries does not extend {old_size}")


def _roots_of_steps(at: int, last: int, steps: list[bytes]) -> tuple[bytes, bytes]:
    """Return the old and the new root that the steps lead to."""
    while at & 1:
        at, last = at >> 1, last >> 1
    from_old = from_new = steps[0]
    for step in steps[1:]:
        if last == 0:
            raise ProofRefused("consistency proof is too long")
        if at & 1 or at == last:
            from_old, from_new = node_hash(step, from_old), node_hash(step, from_new)
            while not at & 1 and at:
                at, last = at >> 1, last >> 1
        else:
            from_new = node_hash(from_new, step)
        at, last = at >> 1, last >> 1
    if last != 0:
        raise ProofRefused("consistency proof is too short")
    return from_old, from_new
