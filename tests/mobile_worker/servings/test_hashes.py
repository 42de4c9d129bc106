"""The hashes of a leaf, against bytes written out here."""

import hashlib
import struct

import numpy as np

from mobile_worker.arithmetic.coding import CodedRows, ExpertInput
from mobile_worker.servings.hashes import out_hash, x_hash


def test_rows_in_both_forms() -> None:
    codes = np.arange(64, dtype=np.int8).reshape(2, 32)
    scales = np.array([[0.5], [2.0]], np.float32)
    floats = np.linspace(0, 1, 64, dtype=np.float32).reshape(2, 32)
    plain_codes = bytes(range(64))
    plain_scales = struct.pack("<2f", 0.5, 2.0)
    plain_floats = struct.pack("<64f", *floats.ravel())
    coded = CodedRows(codes=codes, scales=scales)
    assert (
        x_hash(ExpertInput(coded=coded))
        == hashlib.sha256(plain_codes + plain_scales).digest()[:16]
    )
    assert (
        x_hash(ExpertInput(coded=coded, floats=floats))
        == hashlib.sha256(plain_codes + plain_scales + plain_floats).digest()[:16]
    )
    assert (
        x_hash(ExpertInput(floats=floats)) == hashlib.sha256(plain_floats).digest()[:16]
    )


def test_only_the_rows_of_the_call_count() -> None:
    codes = np.arange(96, dtype=np.int8).reshape(3, 32)
    coded = CodedRows(codes=codes, scales=np.ones((3, 1), np.float32))
    whole = ExpertInput(coded=coded)
    picked = whole.take(np.array([0, 2]))
    other = ExpertInput(
        coded=CodedRows(codes=codes[[0, 2]].copy(), scales=np.ones((2, 1), np.float32))
    )
    assert x_hash(picked) == x_hash(other)
    assert x_hash(picked) != x_hash(whole.take(np.array([2, 0])))


def test_results() -> None:
    assert out_hash(b"results") == hashlib.sha256(b"results").digest()[:16]
    assert out_hash(memoryview(b"results")) == out_hash(b"results")
