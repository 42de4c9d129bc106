"""The tree of RFC 6962: known roots, every small proof, and nothing else passes.

The oracle is the RFC's own recursive definition, written a second time here.
"""

from functools import lru_cache
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.errors import ProofRefused
from ledger.log.entry import entry_hash
from ledger.log.tree import (
    EMPTY_ROOT,
    root_of,
    verify_consistency,
    verify_inclusion,
)

# The reference entries of Certificate Transparency and the root after each.
REFERENCE = [
    ("", "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"),
    ("00", "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125"),
    ("10", "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77"),
    ("2021", "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7"),
    ("3031", "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4"),
    ("40414243", "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef"),
    (
        "5051525354555657",
        "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    ),
    (
        "606162636465666768696a6b6c6d6e6f",
        "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
    ),
]
LEAVES = [entry_hash(b"entry %d" % n) for n in range(301)]


def split(n: int) -> int:
    k = 1
    while 2 * k < n:
        k *= 2
    return k


@lru_cache(None)
def mth(start: int, end: int) -> bytes:
    if end == start:
        return sha256(b"").digest()
    if end - start == 1:
        return LEAVES[start]
    k = start + split(end - start)
    return sha256(b"\x01" + mth(start, k) + mth(k, end)).digest()


def path(m: int, start: int, end: int) -> list[bytes]:
    if end - start == 1:
        return []
    k = split(end - start)
    if m < k:
        return [*path(m, start, start + k), mth(start + k, end)]
    return [*path(m - k, start + k, end), mth(start, start + k)]


def subproof(m: int, start: int, end: int, whole: bool) -> list[bytes]:
    if m == end - start:
        return [] if whole else [mth(start, end)]
    k = split(end - start)
    if m <= k:
        return [*subproof(m, start, start + k, whole), mth(start + k, end)]
    return [*subproof(m - k, start + k, end, False), mth(start, start + k)]


def test_the_reference_roots():
    hashes = [entry_hash(bytes.fromhex(text)) for text, _ in REFERENCE]
    for n, (_, root) in enumerate(REFERENCE, 1):
        assert root_of(hashes[:n]).hex() == root
    assert root_of([]) == EMPTY_ROOT == sha256(b"").digest()


def test_every_size_to_300_has_the_defined_root():
    for n in range(301):
        assert root_of(LEAVES[:n]) == mth(0, n)


@pytest.mark.parametrize("half", [range(1, 48), range(48, 65)], ids=["47", "64"])
def test_every_inclusion_proof_to_64(half):
    for n in half:
        for m in range(n):
            verify_inclusion(LEAVES[m], m, n, path(m, 0, n), mth(0, n))


def test_every_consistency_proof_to_64():
    for n in range(65):
        for m in range(n + 1):
            proof = subproof(m, 0, n, True) if m else []
            verify_consistency((m, mth(0, m)), (n, mth(0, n)), proof)


@pytest.mark.parametrize("n", [1, 2, 3, 7, 8, 13])
def test_a_proof_fits_no_other_place(n):
    for m in range(n):
        proof = path(m, 0, n)
        for index in range(n):
            for size in range(1, n + 3):
                if (index, size) == (m, n):
                    continue
                # a place of the same turns is told apart by the size in the checkpoint
                if size != n:
                    continue
                with pytest.raises(ProofRefused):
                    verify_inclusion(LEAVES[m], index, size, proof, mth(0, n))


def flip(raw: bytes, bit: int) -> bytes:
    return (int.from_bytes(raw, "big") ^ (1 << bit)).to_bytes(32, "big")


@given(st.data())
def test_any_flipped_bit_of_an_inclusion_proof_is_refused(data):
    n = data.draw(st.integers(1, 64))
    m = data.draw(st.integers(0, n - 1))
    parts = [LEAVES[m], mth(0, n), *path(m, 0, n)]
    at = data.draw(st.integers(0, len(parts) - 1))
    parts[at] = flip(parts[at], data.draw(st.integers(0, 255)))
    with pytest.raises(ProofRefused):
        verify_inclusion(parts[0], m, n, parts[2:], parts[1])


@given(st.data())
def test_any_flipped_bit_of_a_consistency_proof_is_refused(data):
    n = data.draw(st.integers(1, 64))
    m = data.draw(st.integers(1, n))
    parts = [mth(0, m), mth(0, n), *subproof(m, 0, n, True)]
    at = data.draw(st.integers(0, len(parts) - 1))
    parts[at] = flip(parts[at], data.draw(st.integers(0, 255)))
    with pytest.raises(ProofRefused):
        verify_consistency((m, parts[0]), (n, parts[1]), parts[2:])


def insert_step(steps: list[bytes], at: int) -> list[bytes]:
    return [*steps[:at], LEAVES[300], *steps[at:]]


def drop_step(steps: list[bytes], at: int) -> list[bytes]:
    at %= len(steps)
    return [*steps[:at], *steps[at + 1 :]]


@given(st.data())
def test_a_step_more_or_less_is_refused(data):
    n = data.draw(st.integers(2, 64))
    m = data.draw(st.integers(1, n - 1))
    inclusion, consistency = path(m, 0, n), subproof(m, 0, n, True)
    old, new = (m, mth(0, m)), (n, mth(0, n))
    at = data.draw(st.integers(0, 7))
    for change in (insert_step, drop_step):
        with pytest.raises(ProofRefused):
            verify_inclusion(LEAVES[m], m, n, change(inclusion, at), new[1])
        with pytest.raises(ProofRefused):
            verify_consistency(old, new, change(consistency, at))


def test_a_node_is_no_leaf_and_a_leaf_is_no_node():
    left, right = LEAVES[0], LEAVES[1]
    assert entry_hash(left + right) != root_of([left, right])
    with pytest.raises(ProofRefused):
        verify_inclusion(entry_hash(left + right), 0, 1, [], mth(0, 2))


@pytest.mark.parametrize(
    ("old", "new", "proof"),
    [
        ((5, mth(0, 5)), (4, mth(0, 4)), []),
        ((-1, EMPTY_ROOT), (4, mth(0, 4)), []),
        ((0, mth(0, 1)), (4, mth(0, 4)), []),
        ((0, EMPTY_ROOT), (4, mth(0, 4)), [LEAVES[0]]),
        ((0, EMPTY_ROOT), (0, LEAVES[0]), []),
        ((4, mth(0, 4)), (4, mth(0, 5)), []),
        ((4, mth(0, 4)), (4, mth(0, 4)), [LEAVES[0]]),
        ((3, mth(0, 3)), (4, mth(0, 4)), []),
        ((1 << 64, mth(0, 3)), (1 << 64, mth(0, 4)), []),
    ],
    ids=range(9),
)
def test_sizes_and_roots_that_cannot_be(old, new, proof):
    with pytest.raises(ProofRefused):
        verify_consistency(old, new, proof)


@pytest.mark.parametrize(
    ("index", "size"), [(0, 0), (1, 1), (-1, 4), (0, 1 << 64)], ids=range(4)
)
def test_places_that_cannot_be(index, size):
    with pytest.raises(ProofRefused):
        verify_inclusion(LEAVES[0], index, size, [], LEAVES[0])
