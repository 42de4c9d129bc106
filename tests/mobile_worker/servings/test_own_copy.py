"""A worker's own receipts: durable, bounded, read back as written."""

import contextlib
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.claims import FiledStatus
from ledger.errors import FormatRefused, StoreUnavailable
from ledger.voucher import SignedVoucher
from mobile_worker.servings import own_copy as module
from mobile_worker.servings.own_copy import (
    OwnCopy,
    OwnReceipt,
    parse_receipt,
    read_receipts,
)


def receipt(
    n: int = 1,
    reason: str = "",
    status: FiledStatus = FiledStatus.STORED,
) -> OwnReceipt:
    return OwnReceipt(
        signed=SignedVoucher(
            raw=b"voucher %d" % n,
            worker_signature=b"w" * 64,
            backbone_signature=b"b" * 64,
        ),
        status=status,
        reason=reason,
        answered_us=n,
    )


def test_what_was_added_comes_back_in_order_after_a_restart(tmp_path):
    for part in (range(3), range(3, 5)):
        copy = OwnCopy(tmp_path / "receipts")
        for n in part:
            copy.add(receipt(n, reason="held" if n == 1 else ""))
    assert list(read_receipts(tmp_path / "receipts")) == [
        receipt(n, reason="held" if n == 1 else "") for n in range(5)
    ]


def test_no_folder_has_no_receipts(tmp_path):
    assert list(read_receipts(tmp_path / "none")) == []


@given(
    reason=st.text(max_size=40),
    status=st.sampled_from(FiledStatus),
    raw=st.binary(min_size=1, max_size=300),
)
def test_a_record_is_its_receipt(reason, status, raw):
    signed = SignedVoucher(
        raw=raw, worker_signature=b"w" * 64, backbone_signature=b"b" * 64
    )
    one = OwnReceipt(signed=signed, status=status, reason=reason, answered_us=2**63)
    again = parse_receipt(one.pack())
    assert (again.signed, again.status) == (signed, status)
    assert again.reason == reason.encode("utf-8", "replace").decode()


@given(raw=st.binary(max_size=300))
def test_any_bytes_are_a_record_or_refused(raw):
    with contextlib.suppress(FormatRefused):
        assert parse_receipt(raw).pack()[:9] == raw[:9]


@pytest.mark.parametrize("n_cut", [1, 7, 100])
def test_a_torn_end_is_cut_and_what_follows_is_whole(tmp_path, n_cut):
    copy = OwnCopy(tmp_path)
    copy.add(receipt(1))
    copy.add(receipt(2))
    (path,) = tmp_path.glob("*.receipts")
    os.truncate(path, path.stat().st_size - n_cut)
    assert list(read_receipts(tmp_path)) == [receipt(1)]
    OwnCopy(tmp_path).add(receipt(3))
    assert list(read_receipts(tmp_path)) == [receipt(1), receipt(3)]


@pytest.mark.parametrize("n_zeros", [3, 8, 4096])
def test_zeros_that_a_power_cut_left_are_cut(tmp_path, n_zeros):
    OwnCopy(tmp_path).add(receipt(1))
    (path,) = tmp_path.glob("*.receipts")
    with path.open("ab") as file:
        file.write(bytes(n_zeros))
    assert list(read_receipts(tmp_path)) == [receipt(1)]
    OwnCopy(tmp_path).add(receipt(2))
    assert list(read_receipts(tmp_path)) == [receipt(1), receipt(2)]


def test_what_follows_a_flipped_bit_is_not_cut_away(tmp_path):
    copy = OwnCopy(tmp_path)
    for n in range(3):
        copy.add(receipt(n))
    (path,) = tmp_path.glob("*.receipts")
    raw = bytearray(path.read_bytes())
    raw[20] ^= 1
    path.write_bytes(raw)
    OwnCopy(tmp_path).add(receipt(3))
    assert path.read_bytes() == raw
    with pytest.raises(StoreUnavailable, match="damaged at byte 0"):
        list(read_receipts(tmp_path))


def test_damage_before_the_end_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_FILE_BYTES", 300)
    copy = OwnCopy(tmp_path)
    for n in range(4):
        copy.add(receipt(n))
    first, *_ = sorted(tmp_path.glob("*.receipts"))
    raw = bytearray(first.read_bytes())
    raw[20] ^= 1
    first.write_bytes(raw)
    with pytest.raises(StoreUnavailable, match="damaged at byte 0"):
        list(read_receipts(tmp_path))


def test_beyond_its_bound_the_oldest_go(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_FILE_BYTES", 400)
    copy = OwnCopy(tmp_path, max_bytes=1000)
    for n in range(50):
        copy.add(receipt(n))
    kept = list(read_receipts(tmp_path))
    assert kept[-1] == receipt(49)
    assert kept == [receipt(n) for n in range(50 - len(kept), 50)]
    assert sum(path.stat().st_size for path in Path(tmp_path).iterdir()) <= 1000
    assert len(kept) >= 4


def test_a_full_disk_adds_nothing(tmp_path, monkeypatch):
    copy = OwnCopy(tmp_path)
    copy.add(receipt(1))
    write = os.write
    monkeypatch.setattr(os, "write", lambda handle, raw: write(handle, raw[:30]))
    with pytest.raises(StoreUnavailable, match="No space left"):
        copy.add(receipt(2))
    monkeypatch.undo()
    copy.add(receipt(3))
    assert list(read_receipts(tmp_path)) == [receipt(1), receipt(3)]


def test_a_folder_that_cannot_be_one(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnavailable):
        OwnCopy(tmp_path / "file")
