import hashlib

import numpy as np

from mobile_worker.arithmetic.formats.codecs import dequantize
from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from mobile_worker.arithmetic.self_test import (
    FORMATS,
    SELF_TEST_DIGEST,
    fixed_bytes,
    fixed_matrix,
    fixed_rows,
    self_test,
)


def test_this_machine_passes() -> None:
    assert self_test(NumpyKernel()) == SELF_TEST_DIGEST


def test_one_bit_is_noticed() -> None:
    class OneBitOff(NumpyKernel):
        def expert(self, weights, rows, profile):
            coded = bytearray(super().expert(weights, rows, profile))
            coded[0] ^= 1
            return bytes(coded)

    assert self_test(OneBitOff()) != SELF_TEST_DIGEST


def test_inputs_are_hashes_in_counter_mode() -> None:
    expected = (
        hashlib.sha256(b"x\0\0\0\0").digest() + hashlib.sha256(b"x\1\0\0\0").digest()
    )
    assert fixed_bytes("x", 40) == expected[:40]
    assert np.abs(fixed_rows("x", 2, 32)).max() <= 8.0


def test_fixed_matrices_are_numbers() -> None:
    for block_format in FORMATS:
        values = dequantize(fixed_matrix("m", block_format, 8, 64))
        assert np.isfinite(values).all()
        assert np.abs(values).max() > 0.01
