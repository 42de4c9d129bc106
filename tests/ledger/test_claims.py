"""Claims: signatures before everything, one reason for each fault."""

import dataclasses

import pytest

from ledger import errors
from ledger.claims import (
    Claim,
    FiledStatus,
    GrantOrder,
    Refusal,
    RejectReason,
    reason_of,
    verify_claim,
)
from ledger.voucher import sign_voucher
from tests.support.ledger_world import paper_tab


def test_a_claim_is_verified():
    tab = paper_tab()
    signed, block = tab.next(0, 1)
    claim = verify_claim(signed, block, b"f" * 32)
    assert isinstance(claim, Claim)
    assert claim.voucher.leaves == 2


def test_b39_unsigned_and_foreign_bytes_are_refusals():
    tab = paper_tab()
    signed, block = tab.next(0, 1)
    weak = dataclasses.replace(tab.previous, backbone=b"\x01" + bytes(31))
    raw = weak.pack()
    cases = {
        RejectReason.SIGNATURE: dataclasses.replace(signed, worker_signature=b""),
        RejectReason.FORMAT: dataclasses.replace(signed, raw=signed.raw[:-1]),
        RejectReason.KEY: dataclasses.replace(
            signed,
            raw=raw,
            worker_signature=sign_voucher(raw, tab.worker.sign),
            # This verifies for every message under the weak key.
            backbone_signature=b"\x01" + bytes(63),
        ),
    }
    for reason, forged in cases.items():
        refusal = verify_claim(forged, block, b"f" * 32)
        assert isinstance(refusal, Refusal)
        assert refusal.reason is reason


def test_what_is_refused_is_put_down_to_a_worker_only_if_it_took_part():
    tab = paper_tab()
    signed, block = tab.next(0, 1)
    half = dataclasses.replace(signed, backbone_signature=bytes(64))
    none = dataclasses.replace(half, worker_signature=bytes(64))
    cases = [
        (half, b"f" * 32, tab.previous),  # it signed
        (none, tab.worker.id, tab.previous),  # it sent
        (none, tab.backbone.id, None),
        (none, b"f" * 32, None),
    ]
    for forged, filed_by, expected in cases:
        refusal = verify_claim(forged, block, filed_by)
        assert isinstance(refusal, Refusal)
        assert refusal.voucher == expected


def test_reasons_and_numbers_of_the_wire():
    assert reason_of(errors.CeilingReached("x")) is RejectReason.CEILING
    assert reason_of(errors.ProofRefused("x")) is RejectReason.FORMAT
    assert [s.value for s in FiledStatus] == [0, 1, 2, 3]


@pytest.mark.parametrize("request_", [-1, 2**64])
def test_orders_are_bounded(request_):
    with pytest.raises(errors.FormatRefused):
        GrantOrder(
            request=request_,
            backbone=bytes(32),
            worker=bytes(32),
            ceiling_uc=1,
            price_table=b"",
            price_signature=b"",
        )
