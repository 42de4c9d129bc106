"""The policy: canonical bytes, a signature of its own, a split that loses nothing."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.amounts import MAX_AMOUNT_UC
from ledger.errors import FormatRefused, SignatureRefused
from ledger.grant import GRANT_DOMAIN
from ledger.policy import POLICY_BYTES, Policy, Split, sign_policy, verify_policy
from tests.support.ledger_world import Party

PPM = st.integers(0, 1_000_000)
SPAN = st.integers(0, 100 * 86_400_000_000)


@given(
    fee_ppm=PPM,
    holdback_ppm=PPM,
    spans=st.lists(SPAN.map(lambda us: us + 1), min_size=3, max_size=3).map(sorted),
    since_us=st.integers(0, 1 << 61),
)
def test_bytes_come_back_as_the_same_policy(fee_ppm, holdback_ppm, spans, since_us):
    answer_us, dispute_us, holdback_us = spans
    policy = Policy(
        fee_ppm=fee_ppm,
        holdback_ppm=holdback_ppm,
        holdback_us=holdback_us,
        dispute_us=dispute_us,
        answer_us=answer_us,
        retention_us=dispute_us + answer_us,
        since_us=since_us,
    )
    assert Policy.parse(policy.pack()) == policy
    assert len(policy.pack()) == POLICY_BYTES


@given(standby_uc=st.integers(1, MAX_AMOUNT_UC))
def test_terms_with_standby_pay_are_of_the_second_version(standby_uc):
    terms = Policy(standby_uc=standby_uc, since_us=5)
    raw = terms.pack()
    assert raw[:5] == b"PMPO\x02"
    assert raw[POLICY_BYTES:] == standby_uc.to_bytes(8, "big")
    assert Policy.parse(raw) == terms
    assert replace(terms, standby_uc=0).pack() == b"PMPO\x01" + raw[5:POLICY_BYTES]


def test_one_encoding_of_terms_without_standby_pay():
    raw = Policy().pack()
    for second in (
        b"PMPO\x02" + raw[5:] + bytes(8),
        raw + (7).to_bytes(8, "big"),
        b"PMPO\x02" + raw[5:],
    ):
        with pytest.raises(FormatRefused):
            Policy.parse(second)


@given(fee_ppm=PPM, holdback_ppm=PPM, amount_uc=st.integers(0, MAX_AMOUNT_UC))
def test_the_parts_add_up_and_none_is_negative(fee_ppm, holdback_ppm, amount_uc):
    policy = Policy(fee_ppm=fee_ppm, holdback_ppm=holdback_ppm)
    split = policy.split(amount_uc)
    assert split.fee_uc + split.held_uc + split.net_uc == amount_uc
    assert min(split.fee_uc, split.held_uc, split.net_uc) >= 0
    assert split.fee_uc * 1_000_000 <= amount_uc * fee_ppm


def test_a_split_is_rounded_in_favour_of_the_worker():
    assert Policy(fee_ppm=25_000, holdback_ppm=100_000).split(999) == Split(24, 97, 878)


def test_the_terms_unless_told_otherwise_take_nothing():
    assert Policy().split(1_000_003) == Split(0, 0, 1_000_003)


@pytest.mark.parametrize(
    "wrong",
    [
        {"fee_ppm": -1},
        {"fee_ppm": 1_000_001},
        {"holdback_ppm": 1_000_001},
        {"dispute_us": -1},
        {"dispute_us": 4000 * 86_400_000_000},
        {"answer_us": 0},
        {"retention_us": 1},
        {"holdback_ppm": 1, "holdback_us": 1},
        {"since_us": 1 << 62},
        {"standby_uc": -1},
        {"standby_uc": MAX_AMOUNT_UC + 1},
    ],
)
def test_terms_out_of_bounds_are_refused(wrong):
    with pytest.raises(FormatRefused, match="policy"):
        Policy(**wrong)


@pytest.mark.parametrize("raw", [b"", b"PMPO", bytes(POLICY_BYTES), b"x" * 60])
def test_other_bytes_are_refused(raw):
    with pytest.raises(FormatRefused):
        Policy.parse(raw)


def test_its_signature_fits_no_other_document():
    ledger, raw = Party("ledger"), Policy().pack()
    assert verify_policy(raw, sign_policy(raw, ledger.sign), ledger.id) == Policy()
    with pytest.raises(SignatureRefused):
        verify_policy(raw, ledger.sign(GRANT_DOMAIN + raw), ledger.id)
