"""Claims and answers: canonical bytes, hashes that open a leaf, signatures."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.dispute_papers import (
    ANSWER_DOMAIN,
    CLAIM_DOMAIN,
    MAX_OPENING_BYTES,
    MAX_PAPER_BYTES,
    DisputeAnswer,
    DisputeClaim,
    Half,
    Opening,
    Reason,
    sign_dispute_answer,
    sign_dispute_claim,
    split_paper,
    verify_dispute_answer,
    verify_dispute_claim,
)
from ledger.errors import FormatRefused, LedgerError, ProofRefused, SignatureRefused
from tests.support.dispute_papers import (
    answer_of,
    claim_of,
    opened_results,
    opened_rows,
    signed_answer,
    signed_claim,
)
from tests.support.ledger_world import Party, TabSide, paper_tab


def tab_with_voucher() -> TabSide:
    tab = paper_tab()
    tab.next(0, 1, 2)
    return tab


@pytest.mark.parametrize("by_worker", [False, True])
def test_round_trip_and_signatures(by_worker):
    tab = tab_with_voucher()
    claim = claim_of(tab, 1, by_worker=by_worker)
    opener, other = tab.backbone, tab.worker
    if by_worker:
        opener, other = other, opener
    raw, signature = signed_claim(claim, opener)
    assert verify_dispute_claim(*split_paper(raw + signature)) == claim
    assert DisputeClaim.parse(raw).pack() == raw
    answer = answer_of(tab, claim)
    answer.check(claim)
    raw, signature = signed_answer(answer, other)
    assert verify_dispute_answer(raw, signature) == answer


def test_bytes_that_do_not_have_the_leafs_hash_open_nothing():
    tab = tab_with_voucher()
    claim = claim_of(tab, 1)
    for opening in (opened_rows(2), Opening(Half.ROWS, b"y1")):
        with pytest.raises(ProofRefused, match="opened rows have hash"):
            dataclasses.replace(claim, opening=opening)
    answer = answer_of(tab, claim)
    for opening, error in (
        (opened_results(2), "opened results have hash"),
        (opened_rows(1), "the half that is open"),
    ):
        with pytest.raises(ProofRefused, match=error):
            dataclasses.replace(answer, opening=opening).check(claim)
    with pytest.raises(ProofRefused, match="another claim"):
        answer.check(claim_of(tab, 1, issued_us=claim.issued_us + 1))


def test_each_side_opens_its_own_half():
    tab = tab_with_voucher()
    with pytest.raises(FormatRefused):
        claim_of(tab, 1, opening=opened_results(1))
    with pytest.raises(FormatRefused):
        claim_of(tab, 1, reason=Reason.UNKNOWN_ROWS)


def test_b39_a_wrong_bit_anywhere_is_refused():
    tab = tab_with_voucher()
    claim = claim_of(tab, 1)
    papers = (
        (*signed_claim(claim, tab.backbone), verify_dispute_claim),
        (*signed_answer(answer_of(tab, claim), tab.worker), verify_dispute_answer),
    )
    for raw, signature, check in papers:
        file = raw + signature
        for bit in range(0, 8 * len(file), 3):
            wrong = bytearray(file)
            wrong[bit // 8] ^= 1 << bit % 8
            with pytest.raises(LedgerError):
                check(*split_paper(bytes(wrong)))


def test_b39_a_signature_for_another_purpose_does_not_fit():
    tab = tab_with_voucher()
    claim = claim_of(tab, 1)
    raw = claim.pack()
    assert len({CLAIM_DOMAIN, ANSWER_DOMAIN}) == 2
    for signature in (
        sign_dispute_answer(raw, tab.backbone.sign),
        sign_dispute_claim(raw, Party("thief").sign),
        tab.backbone.sign(raw),
    ):
        with pytest.raises(SignatureRefused):
            verify_dispute_claim(raw, signature)


def test_bounds():
    tab = tab_with_voucher()
    claim = claim_of(tab, 1)
    answer = answer_of(tab, claim)
    for raw, parse in (
        (claim.pack(), DisputeClaim.parse),
        (answer.pack(), DisputeAnswer.parse),
    ):
        for bad in (raw[:-1], raw + b"\0", b"X" + raw[1:], raw[:4] + b"\2" + raw[5:]):
            with pytest.raises(LedgerError):
                parse(bad)
    for changes in ({"issued_us": 1 << 63}, {"opener": b""}, {"network": bytes(33)}):
        with pytest.raises(FormatRefused):
            dataclasses.replace(claim, **changes)
    for opened in (b"", bytes(MAX_OPENING_BYTES + 1)):
        with pytest.raises(FormatRefused):
            Opening(Half.ROWS, opened)
    for file in (b"", bytes(64), bytes(MAX_PAPER_BYTES + 1)):
        with pytest.raises(FormatRefused):
            split_paper(file)
    for raw in (b"", bytes(4), b"\4" + bytes(5), b"\0\0\0\0\2a"):
        with pytest.raises(FormatRefused):
            Opening.parse(raw)


@given(st.binary(max_size=400), st.sampled_from([b"PMDC\1", b"PMDA\1", b""]))
def test_noise_is_refused(raw, head):
    for parse in (DisputeClaim.parse, DisputeAnswer.parse):
        with pytest.raises(LedgerError):
            parse(head + raw)
