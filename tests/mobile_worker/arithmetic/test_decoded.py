import gc

import numpy as np
import pytest

from mobile_worker.arithmetic.decoded import DecodedCache, decode_codes, decode_floats
from mobile_worker.arithmetic.errors import ShapeMismatch
from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.arithmetic.self_test import fixed_matrix

ONE = 4 * 64 * 64 + 4 * 64 * 2  # bytes of a decoded 64 x 64 matrix


def matrix(label: str = "m", block_format: Format = Format.Q4_0):
    return fixed_matrix(label, block_format, 64, 64)


def test_matrices_are_stacked_by_rows() -> None:
    first, second = matrix("a"), matrix("b", Format.Q8_0)
    both = decode_codes((first, second))
    assert both.codes.shape == (2, 128, 32)
    assert np.array_equal(both.codes[:, 64:], decode_codes((second,)).codes)
    assert np.array_equal(both.scales[:, :64], decode_codes((first,)).scales)
    floats = decode_floats((matrix("a", Format.F32), matrix("b", Format.F16)))
    assert floats.shape == (8, 8, 128)


def test_a_matrix_is_decoded_once_while_it_fits() -> None:
    cache = DecodedCache(ONE)
    own = matrix()
    assert cache.codes((own,)) is cache.codes((own,))
    assert cache.n_bytes == ONE
    other = matrix()
    assert cache.codes((other,)) is not cache.codes((own,))


def test_the_budget_holds_and_the_oldest_goes_first() -> None:
    cache = DecodedCache(2 * ONE + 10)
    a, b, c = matrix("a"), matrix("b"), matrix("c")
    kept = cache.codes((a,))
    second = cache.codes((b,))
    assert cache.codes((a,)) is kept
    cache.codes((c,))  # b goes
    assert cache.n_bytes == 2 * ONE
    assert cache.codes((a,)) is kept
    assert cache.codes((b,)) is not second


def test_nothing_is_kept_without_a_budget() -> None:
    cache = DecodedCache(0)
    own = matrix()
    assert cache.codes((own,)) is not cache.codes((own,))
    assert cache.n_bytes == 0


def test_a_matrix_that_is_gone_leaves_nothing() -> None:
    cache = DecodedCache(10 * ONE)
    own = matrix()
    cache.codes((own,))
    del own
    gc.collect()
    assert cache.n_bytes == 0


def test_codes_and_floats_are_not_mixed_up() -> None:
    cache = DecodedCache(10 * ONE)
    own, floats = matrix(), matrix("f", Format.F32)
    cache.codes((own,))
    cache.floats((floats,))
    with pytest.raises(TypeError):
        cache.floats((own,))
    with pytest.raises(TypeError):
        cache.codes((floats,))


def test_narrow_blocks_and_minima() -> None:
    own = fixed_matrix("k", Format.Q2_K, 4, 256)
    decoded = decode_codes((own,))
    assert decoded.codes.shape == (16, 4, 16)
    assert decoded.minima is not None
    assert decoded.minima.shape == (16, 4, 1)
    assert decoded.nbytes == 4 * (4 * 256 + 2 * 4 * 16)
    assert decode_codes((matrix(),)).minima is None


def test_only_equal_blocks_are_stacked() -> None:
    pair = [fixed_matrix("m", f, 4, 256) for f in (Format.Q4_K, Format.Q4_0)]
    with pytest.raises(ShapeMismatch, match="blocks"):
        decode_codes(tuple(pair))
