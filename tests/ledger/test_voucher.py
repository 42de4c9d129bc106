"""The voucher: bytes, signatures, what extends what, equivocation."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.errors import (
    AmountRefused,
    ChainRefused,
    FormatRefused,
    LedgerError,
    SignatureRefused,
)
from ledger.ranges import count, union
from ledger.voucher import (
    MAX_RANGES,
    NO_VOUCHER,
    SignedVoucher,
    Voucher,
    check_extends,
    equivocating_signers,
    sign_voucher,
    verify_voucher,
    voucher_hash,
)
from tests.support.ledger_world import Party, paper_tab

KEY = st.binary(min_size=32, max_size=32)


@st.composite
def vouchers(draw) -> Voucher:
    ranges = union([(n, n) for n in draw(st.sets(st.integers(0, 2**32 - 1)))], [])
    number = draw(st.integers(1, 2**32 - 1))
    leaves = count(ranges)
    previous = draw(KEY.filter(lambda raw: raw != NO_VOUCHER))
    return Voucher(
        network=draw(KEY),
        manifest_hash=draw(KEY),
        profile=draw(st.integers(0, 255)),
        worker=draw(KEY),
        backbone=draw(KEY),
        tab=draw(st.binary(min_size=8, max_size=8)),
        price_epoch=draw(st.integers(0, 2**32 - 1)),
        number=number,
        previous=NO_VOUCHER if number == 1 else previous,
        final=draw(st.booleans()),
        ranges=ranges,
        leaves=leaves,
        rows=leaves + draw(st.integers(0, 2**40)),
        amount_uc=draw(st.integers(0, 2**53 - 1)),
        price_table_hash=draw(KEY),
        grant_hash=draw(KEY),
        root=draw(KEY),
        issued_us=draw(st.integers(0, 2**63 - 1)),
    )


@given(vouchers())
def test_round_trip(voucher):
    raw = voucher.pack()
    assert Voucher.parse(raw) == voucher
    assert Voucher.parse(raw).pack() == raw


@given(st.binary(max_size=600))
def test_noise_is_refused(raw):
    with pytest.raises(FormatRefused):
        Voucher.parse(raw)


def test_b39_every_wrong_bit_is_refused():
    tab = paper_tab()
    signed, _ = tab.next(0, 1, 2, 5)
    assert signed.verified().leaves == 4
    for bit in range(8 * len(signed.raw)):
        raw = bytearray(signed.raw)
        raw[bit // 8] ^= 1 << bit % 8
        forged = dataclasses.replace(signed, raw=bytes(raw))
        with pytest.raises(LedgerError):
            forged.verified()
    for name in ("worker_signature", "backbone_signature"):
        for bit in range(0, 512, 7):
            signature = bytearray(getattr(signed, name))
            signature[bit // 8] ^= 1 << bit % 8
            with pytest.raises(SignatureRefused):
                dataclasses.replace(signed, **{name: bytes(signature)}).verified()


def test_b39_a_voucher_of_one_worker_does_not_name_another():
    tab = paper_tab()
    world = tab.world
    tab.serve(0)
    raw = tab.draft().pack()
    thief = Party("thief")
    with pytest.raises(SignatureRefused):
        verify_voucher(raw, sign_voucher(raw, thief.sign), world.worker.id)
    swapped = SignedVoucher(
        raw=raw,
        worker_signature=sign_voucher(raw, world.backbone.sign),
        backbone_signature=sign_voucher(raw, world.worker.sign),
    )
    with pytest.raises(SignatureRefused):
        swapped.verified()


@pytest.mark.parametrize(
    "changes",
    [
        {"number": 0},
        {"number": 2},
        {"previous": b"x" * 32},
        {"ranges": ((0, 1), (2, 3))},
        {"ranges": ((3, 2),)},
        {"leaves": 1},
        {"rows": 3},
        {"rows": 2**63},
        {"issued_us": 2**63},
        {"tab": b""},
        {"root": b""},
        {"worker": bytes(31)},
    ],
)
def test_fields_that_do_not_agree(changes):
    tab = paper_tab()
    tab.serve(0, 1, 2, 5)
    with pytest.raises(FormatRefused):
        dataclasses.replace(tab.draft(), **changes)


def test_bounds_and_lengths():
    tab = paper_tab()
    tab.serve(0, 1)
    voucher = tab.draft()
    with pytest.raises(AmountRefused):
        dataclasses.replace(voucher, amount_uc=2**53)
    with pytest.raises(FormatRefused):
        dataclasses.replace(voucher, profile=256).pack()
    holes = tuple((2 * n, 2 * n) for n in range(MAX_RANGES + 1))
    with pytest.raises(FormatRefused):
        dataclasses.replace(voucher, ranges=holes, leaves=len(holes), rows=10**6)
    raw = voucher.pack()
    for bad in (raw + b"\0", raw[:-1], b"X" + raw[1:], raw[:4] + b"\x09" + raw[5:]):
        with pytest.raises(FormatRefused):
            Voucher.parse(bad)


def test_what_extends():
    tab = paper_tab()
    tab.serve(0, 1)
    first = tab.draft()
    check_extends(None, first)
    tab.serve(2, 3)
    second = tab.draft()
    check_extends(first, second)
    assert second.previous == voucher_hash(first.pack())
    tab.serve(7)
    third = tab.draft(final=True)
    check_extends(second, third)
    check_extends(first, third)  # the one between was never filed
    for previous, following in (
        (second, first),
        (second, second),
        (third, dataclasses.replace(third, number=4)),  # closed
        (first, dataclasses.replace(second, previous=b"x" * 32)),
        (second, dataclasses.replace(third, ranges=((0, 2), (8, 9)))),
        (first, dataclasses.replace(second, amount_uc=first.amount_uc - 1)),
        (first, dataclasses.replace(second, issued_us=0)),
        (first, dataclasses.replace(second, profile=1)),
        (first, dataclasses.replace(second, tab=b"another!")),
        (first, dataclasses.replace(second, price_table_hash=bytes(32))),
    ):
        with pytest.raises(ChainRefused):
            check_extends(previous, following)


def test_equivocation_is_provable():
    tab = paper_tab()
    world = tab.world
    tab.serve(0, 1)
    voucher = tab.draft()
    one = tab.sign(voucher)
    other = tab.sign(dataclasses.replace(voucher, amount_uc=voucher.amount_uc + 1))
    assert equivocating_signers(one, other) == (world.worker.id, world.backbone.id)
    half = dataclasses.replace(other, worker_signature=bytes(64))
    assert equivocating_signers(one, half) == (world.backbone.id,)
    assert equivocating_signers(one, one) == ()
    later = tab.sign(dataclasses.replace(voucher, number=2, previous=b"p" * 32))
    assert equivocating_signers(one, later) == ()
