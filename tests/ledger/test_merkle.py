"""The Merkle-sum tree: every size to 300, every proof to 64, every bit."""

import random
from hashlib import sha256

import pytest

from ledger.amounts import MAX_SUM_UC
from ledger.errors import AmountRefused, OutOfWindow, ProofRefused
from ledger.merkle import (
    EMPTY_ROOT,
    MerkleSum,
    Node,
    inclusion_path,
    leaf_hash,
    node,
    verify_inclusion,
)
from tests.support.merkle import tree_root

LEAVES = [b"leaf %d" % i for i in range(301)]
AMOUNTS = [i * i % 97 for i in range(301)]
NODES = [Node(leaf_hash(raw), a) for raw, a in zip(LEAVES, AMOUNTS, strict=True)]


def rfc6962(nodes: list[Node]) -> Node:
    """The definition itself, recursively."""
    if not nodes:
        return Node(sha256(b"").digest(), 0)
    if len(nodes) == 1:
        return nodes[0]
    split = 1
    while split * 2 < len(nodes):
        split *= 2
    left, right = rfc6962(nodes[:split]), rfc6962(nodes[split:])
    sums = left.sum_uc.to_bytes(8, "big") + right.sum_uc.to_bytes(8, "big")
    hashed = sha256(b"\x01" + left.hash + right.hash + sums).digest()
    return Node(hashed, left.sum_uc + right.sum_uc)


def test_every_size_to_300():
    tree = MerkleSum()
    for n in range(301):
        assert len(tree) == n
        assert tree.root == tree_root(NODES[:n]) == rfc6962(NODES[:n])
        if n < 300:
            tree.append(LEAVES[n], AMOUNTS[n])
    assert tree_root([]) == EMPTY_ROOT


@pytest.mark.parametrize("seed", range(4))
def test_many_at_once_are_the_same_tree(seed):
    rng = random.Random(seed)
    tree, n = MerkleSum(window=256), 0
    while n < 1500:
        group = range(n, n + rng.choice([1, 2, 7, 100, 256, 300, 513]))
        tree.extend([b"%d" % i for i in group], [i % 7 for i in group])
        n = group.stop
        expected = tree_root([Node(leaf_hash(b"%d" % i), i % 7) for i in range(n)])
        assert (tree.root, len(tree)) == (expected, n)
    tree.insert([(n - 40, b"late", 1)])  # what it kept is in order
    leaves = [Node(leaf_hash(b"%d" % i), i % 7) for i in range(n)]
    leaves.insert(n - 40, Node(leaf_hash(b"late"), 1))
    assert tree.root == tree_root(leaves)


@pytest.mark.parametrize("amounts", [(MAX_SUM_UC, 1), (5, -1), (1, MAX_SUM_UC)])
def test_sums_that_overflow_change_nothing(amounts):
    tree = MerkleSum()
    tree.append(b"first", 3)
    before = tree.root
    with pytest.raises(AmountRefused):
        tree.extend([b"a", b"b"], amounts)
    with pytest.raises(AmountRefused):
        tree.insert([(0, b"a", amounts[0]), (1, b"b", amounts[1])])
    assert (tree.root, len(tree)) == (before, 1)
    tree.extend([], [])
    assert tree.root == before


def test_leaf_hash_is_rfc6962s():
    assert leaf_hash(b"") == sha256(b"\x00").digest()


def test_every_proof_to_64_and_no_other_place():
    for n in range(1, 65):
        root = tree_root(NODES[:n])
        for i in range(n):
            path = inclusion_path(NODES[:n], i)
            verify_inclusion(NODES[i], i, n, path, root)
            if n > 1:
                with pytest.raises(ProofRefused):
                    verify_inclusion(NODES[i], (i + 1) % n, n, path, root)


def test_any_flipped_bit_is_refused():
    n, i = 13, 9
    root, path = tree_root(NODES[:n]), inclusion_path(NODES[:n], i)
    for bit in range(256):
        flip = bytes(
            b ^ (1 << bit % 8 if k == bit // 8 else 0)
            for k, b in enumerate(NODES[i].hash)
        )
        with pytest.raises(ProofRefused):
            verify_inclusion(Node(flip, NODES[i].sum_uc), i, n, path, root)
    for step, sibling in enumerate(path):
        for bit in range(0, 256, 5):
            changed = bytearray(sibling.hash)
            changed[bit // 8] ^= 1 << bit % 8
            forged = [*path]
            forged[step] = Node(bytes(changed), sibling.sum_uc)
            with pytest.raises(ProofRefused):
                verify_inclusion(NODES[i], i, n, forged, root)
        for bit in range(50):
            forged = [*path]
            forged[step] = Node(sibling.hash, sibling.sum_uc ^ 1 << bit)
            with pytest.raises((ProofRefused, AmountRefused)):
                verify_inclusion(NODES[i], i, n, forged, root)


def test_wrong_sizes_lengths_and_sums_are_refused():
    n, i = 11, 3
    root, path = tree_root(NODES[:n]), inclusion_path(NODES[:n], i)
    for index, size, steps, claimed in (
        (i, n + 6, path, root),
        (i, n, path[:-1], root),
        (i, n, (*path, NODES[0]), root),
        (i, n, path, Node(root.hash, root.sum_uc + 1)),
        (n, n, path, root),
        (-1, n, path, root),
    ):
        with pytest.raises(ProofRefused):
            verify_inclusion(NODES[i], index, size, steps, claimed)
    with pytest.raises(ProofRefused):
        inclusion_path(NODES[:n], n)


@pytest.mark.parametrize("n_bytes", [0, 31, 33])
def test_a_hash_of_another_length_is_refused(n_bytes):
    root, path = tree_root(NODES[:4]), list(inclusion_path(NODES[:4], 0))
    cut = (path[0].hash + b"\0")[:n_bytes]
    path[0] = Node(cut, path[0].sum_uc)
    with pytest.raises(ProofRefused):
        verify_inclusion(NODES[0], 0, 4, path, root)
    with pytest.raises(ProofRefused):
        node(Node(cut, 0), NODES[0])


def test_a_node_is_no_leaf():
    left, right = NODES[0], NODES[1]
    parent = node(left, right)
    sums = left.sum_uc.to_bytes(8, "big") + right.sum_uc.to_bytes(8, "big")
    forged = Node(leaf_hash(left.hash + right.hash + sums), parent.sum_uc)
    with pytest.raises(ProofRefused):
        verify_inclusion(forged, 0, 1, (), parent)


def test_sums_do_not_overflow():
    big = Node(bytes(32), MAX_SUM_UC)
    node(big, Node(bytes(32), 0))
    for one, other in ((big, Node(bytes(32), 1)), (Node(bytes(32), -1), big)):
        with pytest.raises(AmountRefused):
            node(one, other)


@pytest.mark.parametrize("seed", range(8))
def test_late_leaves_within_the_window(seed):
    rng = random.Random(seed)
    n = rng.randrange(1, 1400)
    order = sorted(range(n), key=lambda i: i + rng.random() * 200)
    tree, present = MerkleSum(window=256), []
    at = 0
    while at < n:
        group = sorted(order[at : at + rng.randrange(1, 60)])
        at += len(group)
        items = [(sum(p < i for p in present), b"%d" % i, i % 7) for i in group]
        tree.insert(items)
        present = sorted(present + group)
        if rng.random() < 0.2 or at >= n:
            expected = [Node(leaf_hash(b"%d" % i), i % 7) for i in present]
            assert tree.root == tree_root(expected)
            assert len(tree) == len(present)


def test_too_late_leaves_are_refused_and_change_nothing():
    tree = MerkleSum(window=256)
    for i in range(2000):
        tree.append(b"%d" % i, 1)
    before, twin = tree.root, tree.copy()
    with pytest.raises(OutOfWindow):
        tree.insert([(5, b"late", 1)])
    assert tree.root == before
    tree.insert([(1990, b"late", 1)])
    assert twin.root == before
    assert tree.root != before
    tree.insert([])
    assert len(tree) == 2001
