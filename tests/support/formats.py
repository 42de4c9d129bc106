"""Codecs of integer formats held against the plain-Python reading of the same bytes."""

import numpy as np

from mobile_worker.arithmetic.formats.block_format import block_size
from mobile_worker.arithmetic.matrix import Matrix
from mobile_worker.arithmetic.self_test import fixed_bytes, fixed_matrix
from tests.support.format_oracle import read_groups

__all__ = ["assert_as_oracle", "matrix_of", "one_block"]


def matrix_of(block_format, raw, n_cols):
    """Return a matrix of these bytes."""
    values, n_bytes = block_size(block_format)
    n_rows = len(raw) // (n_cols // values * n_bytes)
    return Matrix(
        format=block_format, n_rows=n_rows, n_cols=n_cols, raw=memoryview(raw)
    )


def assert_as_oracle(codec, *, n_rows=5, n_cols=512):
    """Compare codes, scales and minima of modest and of arbitrary bytes."""
    modest = fixed_matrix("modest", codec.format, n_rows, n_cols)
    arbitrary = matrix_of(
        codec.format, fixed_bytes("arbitrary", modest.raw.nbytes), n_cols
    )
    for matrix in (modest, arbitrary):
        size = matrix.raw.nbytes // n_rows
        with np.errstate(all="ignore"):
            codes, scales = codec.codes(matrix), codec.scales(matrix)
            minima = codec.minima(matrix)
        for row in range(n_rows):
            raw = bytes(matrix.raw[row * size : (row + 1) * size])
            groups = read_groups(codec.format.name, raw)
            assert codes[row].tolist() == [list(group[0]) for group in groups]
            assert_same(scales[row], [group[1] for group in groups])
            if minima is None:
                assert all(group[2] is None for group in groups)
            else:
                assert_same(minima[row], [group[2] for group in groups])


def assert_same(values, expected):
    """Compare floats bit for bit, one that is no number with another such."""
    other = np.array(expected, np.float32)
    same = values.view(np.uint32) == other.view(np.uint32)
    assert (same | (np.isnan(values) & np.isnan(other))).all()


def one_block(codec, raw):
    """Return (codes [n, width], scales [n], minima [n] or None) of one block."""
    values, n_bytes = block_size(codec.format)
    assert len(raw) == n_bytes
    matrix = matrix_of(codec.format, raw, values)
    minima = codec.minima(matrix)
    return (
        codec.codes(matrix)[0].tolist(),
        codec.scales(matrix)[0].tolist(),
        None if minima is None else minima[0].tolist(),
    )
