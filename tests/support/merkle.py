"""The Merkle-sum root, level by level: what `MerkleSum` must give, in O(n)."""

from collections.abc import Sequence

from ledger.merkle import EMPTY_ROOT, Node, node


def tree_root(leaves: Sequence[Node]) -> Node:
    """Return the root over hashed leaves."""
    if not leaves:
        return EMPTY_ROOT
    level = list(leaves)
    while len(level) > 1:
        odd = [level[-1]] if len(level) % 2 else []
        level = [
            node(level[at], level[at + 1]) for at in range(0, len(level) - 1, 2)
        ] + odd
    return level[0]
