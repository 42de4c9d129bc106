"""Log entries: one encoding, read back exactly, everything else refused."""

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.errors import FormatRefused
from ledger.log.entry import MAX_ENTRY_BYTES, LogEntry, entry_hash, pack_entry
from ledger.voucher import MAX_VOUCHER_BYTES, SignedVoucher
from tests.support.ledger_world import paper_tab

POLICY = sha256(b"policy").digest()


def signed_voucher() -> SignedVoucher:
    signed, _ = paper_tab().next(0, 1, 2, final=True)
    return signed


SIGNED = signed_voucher()
RAW = pack_entry(SIGNED, POLICY)


def test_an_entry_reads_back():
    assert LogEntry.parse(RAW) == LogEntry(SIGNED, POLICY)
    assert RAW[:7] == b"PMLE\x01" + len(SIGNED.raw).to_bytes(2, "big")
    assert len(RAW) == 7 + len(SIGNED.raw) + 64 + 64 + 32
    LogEntry.parse(RAW).signed.verified()


def test_its_hash_is_the_leaf_hash_of_rfc_6962():
    assert entry_hash(RAW) == sha256(b"\0" + RAW).digest()
    # the empty leaf of the test vectors of Certificate Transparency
    empty = "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"
    assert entry_hash(b"").hex() == empty


def test_the_longest_voucher_fits_an_entry_of_a_tile():
    assert MAX_ENTRY_BYTES < 1 << 16
    longest = SignedVoucher(
        raw=bytes(MAX_VOUCHER_BYTES),
        worker_signature=bytes(64),
        backbone_signature=bytes(64),
    )
    raw = pack_entry(longest, POLICY)
    assert len(raw) == MAX_ENTRY_BYTES
    assert LogEntry.parse(raw).signed == longest


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        RAW[:-1],
        RAW + b"\0",
        b"PMLF" + RAW[4:],
        RAW[:4] + b"\x02" + RAW[5:],
        RAW[:5] + b"\xff\xff" + RAW[7:],
        bytes(MAX_ENTRY_BYTES + 1),
    ],
    ids=range(7),
)
def test_other_bytes_are_refused(raw):
    with pytest.raises(FormatRefused):
        LogEntry.parse(raw)


@given(st.binary(max_size=300))
def test_noise_never_ends_in_another_error(noise):
    try:
        entry = LogEntry.parse(noise)
    except FormatRefused:
        return
    assert pack_entry(entry.signed, entry.policy_hash) == noise


@pytest.mark.parametrize(
    "parts",
    [
        (b"", bytes(64), bytes(64), bytes(32)),
        (b"v", bytes(63), bytes(64), bytes(32)),
        (b"v", bytes(64), b"", bytes(32)),
        (b"v", bytes(64), bytes(64), bytes(31)),
        (bytes(MAX_VOUCHER_BYTES + 1), bytes(64), bytes(64), bytes(32)),
    ],
    ids=range(5),
)
def test_parts_of_a_wrong_length_are_refused(parts):
    raw, worker, backbone, policy = parts
    signed = SignedVoucher(
        raw=raw, worker_signature=worker, backbone_signature=backbone
    )
    with pytest.raises(FormatRefused):
        pack_entry(signed, policy)
