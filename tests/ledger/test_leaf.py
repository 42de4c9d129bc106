"""The leaf: 79 bytes, one encoding."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.errors import FormatRefused
from ledger.leaf import LEAF_BYTES, Leaf, LeafPacker, split_leaves

LEAVES = st.builds(
    Leaf,
    tab=st.binary(min_size=8, max_size=8),
    serving=st.integers(0, 2**32 - 1),
    request=st.integers(0, 2**64 - 1),
    layer=st.integers(0, 2**16 - 1),
    expert=st.integers(0, 2**16 - 1),
    rows=st.integers(1, 2**16 - 1),
    price_epoch=st.integers(0, 2**32 - 1),
    x_hash=st.binary(min_size=16, max_size=16),
    out_hash=st.binary(min_size=16, max_size=16),
    nonce=st.binary(min_size=8, max_size=8),
    amount_uc=st.integers(0, 2**53 - 1),
)
LEAF = Leaf(
    tab=b"12345678",
    serving=1,
    request=2,
    layer=3,
    expert=4,
    rows=5,
    price_epoch=6,
    x_hash=bytes(16),
    out_hash=bytes(16),
    nonce=bytes(8),
    amount_uc=7,
)


@given(LEAVES)
def test_round_trip(leaf):
    raw = leaf.pack()
    assert len(raw) == LEAF_BYTES == 79
    assert Leaf.parse(raw) == leaf


@given(st.binary(min_size=79, max_size=79))
def test_what_parses_packs_to_the_same_bytes(raw):
    try:
        leaf = Leaf.parse(raw)
    except FormatRefused:
        return
    assert leaf.pack() == raw


@pytest.mark.parametrize(
    "changes",
    [
        {"rows": 0},
        {"rows": 65536},
        {"amount_uc": -1},
        {"amount_uc": 2**53},
        {"tab": b"short"},
        {"x_hash": bytes(15)},
        {"nonce": b""},
        {"serving": 2**32},
        {"layer": -1},
        {"request": 2**64},
    ],
)
def test_fields_out_of_bounds(changes):
    import dataclasses

    with pytest.raises(FormatRefused):
        dataclasses.replace(LEAF, **changes).pack()


def test_bad_bytes():
    raw = LEAF.pack()
    for bad in (raw[:-1], raw + b"\0", b"\x02" + raw[1:], raw[:71] + b"\xff" * 8):
        with pytest.raises(FormatRefused):
            Leaf.parse(bad)


def test_split():
    raw = LEAF.pack()
    assert split_leaves(raw * 3) == [raw] * 3
    assert split_leaves(b"") == []
    with pytest.raises(FormatRefused):
        split_leaves(raw[:-1])


def packed(leaf: Leaf) -> bytes:
    packer = LeafPacker(
        tab=leaf.tab,
        request=leaf.request,
        layer=leaf.layer,
        price_epoch=leaf.price_epoch,
        nonce=leaf.nonce,
    )
    call = (leaf.expert, leaf.rows, leaf.amount_uc)
    return packer.pack(leaf.serving, call, leaf.x_hash, leaf.out_hash)


@given(LEAVES)
def test_a_packer_gives_the_same_bytes(leaf):
    assert packed(leaf) == leaf.pack()


@pytest.mark.parametrize(
    "changes",
    [
        {"rows": 0},
        {"rows": 65536},
        {"amount_uc": -1},
        {"amount_uc": 1 << 53},
        {"expert": 1 << 16},
        {"serving": -1},
        {"request": 1 << 64},
        {"tab": bytes(7)},
        {"nonce": bytes(9)},
        {"x_hash": bytes(15)},
        {"out_hash": bytes(17)},
    ],
)
def test_a_packer_refuses_what_a_leaf_refuses(changes):
    with pytest.raises(FormatRefused):
        packed(dataclasses.replace(LEAF, **changes))
