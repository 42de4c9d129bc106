"""What every kernel owes its callers beside the bytes (test_kernel_equality)."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from mobile_worker.arithmetic.activation_kind import Activation, ActivationKind
from mobile_worker.arithmetic.candidates import KERNEL_NAMES
from mobile_worker.arithmetic.coding import CodedRows, ExpertInput, quantize_rows
from mobile_worker.arithmetic.errors import (
    CodeRefused,
    FormatUnsupported,
    NonFinite,
    ShapeMismatch,
)
from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.arithmetic.kernel import Kernel, KernelCall
from mobile_worker.arithmetic.matrix import ExpertWeights, Matrix
from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from mobile_worker.arithmetic.profiles import Profile
from mobile_worker.arithmetic.self_test import FORMATS, fixed_matrix, fixed_rows
from tests.support.formats import matrix_of
from tests.support.kernels import all_kernels, kernel_name

KERNELS = pytest.mark.parametrize("kernel", all_kernels(), ids=kernel_name)


def rows_of(n: int, n_cols: int = 64) -> ExpertInput:
    x = fixed_rows("x", n, n_cols)
    return ExpertInput(coded=quantize_rows(x), floats=x)


def expert(block_format: Format = Format.Q4_0, **more: object) -> ExpertWeights:
    return ExpertWeights(
        gate=fixed_matrix("gate", block_format, 32, 64),
        up=fixed_matrix("up", block_format, 32, 64),
        down=fixed_matrix("down", Format.Q8_0, 64, 32),
        activation=Activation(kind=ActivationKind.SWIGLU),
        **more,
    )


@KERNELS
def test_it_says_what_it_is_and_what_it_may_keep(kernel: Kernel) -> None:
    assert kernel.name in KERNEL_NAMES
    assert kernel.decoded_bytes >= 0


@KERNELS
def test_rows_of_a_call_default_to_all(kernel: Kernel) -> None:
    weights, rows = expert(), rows_of(3)
    calls = [
        KernelCall(weights=weights),
        KernelCall(weights=weights, rows=np.arange(3)),
    ]
    first, second = kernel.experts(calls, rows, Profile.R16)
    assert first == second == kernel.expert(weights, rows, Profile.R16)


@KERNELS
@pytest.mark.parametrize("block_format", FORMATS)
def test_weights_may_begin_anywhere_and_be_read_only(
    kernel: Kernel, block_format: Format
) -> None:
    matrix, rows = fixed_matrix("m", block_format, 5, 256), rows_of(2, 256)
    expected = kernel.matmul(matrix, rows)
    for start in (1, 2, 3, 7):
        padded = bytes(start) + bytes(matrix.raw) + b"\xff"
        view = memoryview(padded)[start:-1]
        moved = kernel.matmul(matrix_of(block_format, view, 256), rows)
        assert np.array_equal(moved, expected)


@KERNELS
@pytest.mark.parametrize("block_format", [Format.Q4_0, Format.Q6_K, Format.F32])
def test_rows_may_lie_any_way_in_memory(kernel: Kernel, block_format: Format) -> None:
    matrix, rows = fixed_matrix("m", block_format, 5, 256), rows_of(6, 256)
    assert rows.coded is not None
    assert rows.floats is not None
    expected = kernel.matmul(matrix, rows)[::2]
    codes, scales, floats = rows.coded.codes, rows.coded.scales, rows.floats
    for lay in (lambda a: a[::2], lambda a: np.asfortranarray(a[::2])):
        coded = CodedRows(codes=lay(codes), scales=lay(scales))
        laid = ExpertInput(coded=coded, floats=lay(floats))
        assert np.array_equal(kernel.matmul(matrix, laid), expected)
    for array in (codes, scales, floats):
        array.flags.writeable = False
    assert np.array_equal(kernel.matmul(matrix, rows)[::2], expected)


@KERNELS
def test_rows_to_be_coded_may_lie_any_way_in_memory(kernel: Kernel) -> None:
    x = fixed_rows("x", 6, 64)
    expected = kernel.code_rows(x)
    for laid in (np.repeat(x, 2, axis=0)[::2], np.asfortranarray(x)):
        coded = kernel.code_rows(laid)
        assert np.array_equal(coded.codes, expected.codes)
        assert np.array_equal(coded.scales, expected.scales)


@KERNELS
@pytest.mark.parametrize("row", [-1, 3, 1 << 40])
def test_a_row_that_is_not_there_is_refused(kernel: Kernel, row: int) -> None:
    call = KernelCall(weights=expert(), rows=np.array([0, row]))
    with pytest.raises(ShapeMismatch):
        kernel.experts([call], rows_of(3), Profile.R16)
    with pytest.raises(ShapeMismatch):
        kernel.expert_values([call], rows_of(3), Profile.R16)


@KERNELS
def test_input_of_the_wrong_kind_or_width_is_refused(kernel: Kernel) -> None:
    rows = rows_of(2)
    integer, floats = (fixed_matrix("m", f, 4, 64) for f in (Format.Q8_0, Format.F32))
    for matrix, some in (
        (integer, ExpertInput(floats=rows.floats)),
        (floats, ExpertInput(coded=rows.coded)),
        (integer, rows_of(2, 96)),
        (floats, rows_of(2, 96)),
        (integer, ExpertInput()),
    ):
        with pytest.raises(ShapeMismatch):
            kernel.matmul(matrix, some)
    with pytest.raises(ShapeMismatch):
        kernel.matmul_stacked([integer, fixed_matrix("n", Format.Q8_0, 4, 96)], rows)
    with pytest.raises(ShapeMismatch):
        kernel.expert(expert(), rows_of(2, 96), Profile.R16)
    with pytest.raises(ShapeMismatch):
        kernel.code_rows(np.zeros((1, 40), np.float32))


@KERNELS
def test_codes_and_scales_that_do_not_belong_together_are_refused(
    kernel: Kernel,
) -> None:
    codes = np.zeros((2, 64), np.int8)
    for scales in (np.ones((2, 1), "f4"), np.ones((1, 2), "f4")):
        rows = ExpertInput(coded=CodedRows(codes=codes, scales=scales))
        with pytest.raises(ShapeMismatch):
            kernel.matmul(fixed_matrix("m", Format.Q4_0, 4, 64), rows)


@KERNELS
def test_rows_of_another_type_or_shape_are_refused(kernel: Kernel) -> None:
    """Nothing is narrowed on the way in: a code of 200 would become one of -56."""
    whole = rows_of(3)
    assert whole.coded is not None
    assert whole.floats is not None
    codes, scales, x = whole.coded.codes, whole.coded.scales, whole.floats
    coded = [
        CodedRows(codes=codes.astype(np.int16), scales=scales),
        CodedRows(codes=codes, scales=scales.astype(np.float64)),
        CodedRows(codes=codes[0], scales=scales[0]),
    ]
    weights = expert(Format.F32)
    for rows in (
        *(ExpertInput(coded=each, floats=x) for each in coded),
        *(ExpertInput(floats=each) for each in (x.astype(np.float64), x[0])),
        ExpertInput(coded=whole.coded, floats=x[:2]),
    ):
        with pytest.raises(ShapeMismatch):
            kernel.matmul(weights.gate, rows)
        with pytest.raises(ShapeMismatch):
            kernel.expert(weights, rows, Profile.R16)
    for strange in (x.astype(np.float64), x[0]):
        with pytest.raises(ShapeMismatch, match="float32"):
            kernel.code_rows(strange)


@KERNELS
@pytest.mark.parametrize(
    ("code", "scale"), [(-128, 1.0), (1, -1.0), (1, np.nan), (1, np.inf)]
)
def test_rows_that_no_coding_gives_are_refused(
    kernel: Kernel, code: int, scale: float
) -> None:
    codes, scales = np.zeros((5, 64), np.int8), np.ones((5, 2), np.float32)
    codes[4, 63], scales[4, 1] = code, scale
    rows = ExpertInput(coded=CodedRows(codes=codes, scales=scales))
    for block_format in (Format.Q4_0, Format.Q4_1, Format.NVFP4):
        with pytest.raises(CodeRefused):
            kernel.matmul(fixed_matrix("m", block_format, 4, 64), rows)
    with pytest.raises(CodeRefused):
        kernel.expert(expert(), rows, Profile.R16)
    with pytest.raises(CodeRefused):
        kernel.feed_forward(expert(), rows)


@KERNELS
def test_a_format_that_is_not_computed_with_is_refused(kernel: Kernel) -> None:
    with pytest.raises(FormatUnsupported, match="IQ2_XS"):
        kernel.matmul(matrix_of(Format.IQ2_XS, bytes(74), 256), rows_of(1, 256))


@KERNELS
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("part", ["gate_bias", "up_bias", "down_bias"])
def test_a_value_that_is_no_number_ends_the_call(
    kernel: Kernel, part: str, bad: float
) -> None:
    bias = np.zeros(64 if part == "down_bias" else 32, np.float32)
    bias[-1] = bad
    for profile in Profile:
        with pytest.raises(NonFinite):
            kernel.expert(expert(**{part: bias}), rows_of(2), profile)
    with pytest.raises(NonFinite):
        kernel.feed_forward(expert(**{part: bias}), rows_of(2))


@KERNELS
def test_a_result_that_no_reader_could_decode_ends_the_call(kernel: Kernel) -> None:
    """The greatest float is finite, but what its code stands for rounds to infinity."""
    greatest = np.finfo(np.float32).max
    zeros = memoryview(bytes(32 * 32 * 4))
    part = Matrix(format=Format.F32, n_rows=32, n_cols=32, raw=zeros)
    weights = ExpertWeights(
        gate=part,
        up=part,
        down=part,
        activation=Activation(kind=ActivationKind.SWIGLU),
        down_bias=np.full(32, greatest, np.float32),
    )
    rows = rows_of(2, 32)
    assert np.all(kernel.feed_forward(weights, rows) == greatest)
    for profile in (Profile.R16, Profile.R8):
        with pytest.raises(NonFinite):
            kernel.expert(weights, rows, profile)
        with pytest.raises(NonFinite):
            kernel.expert_values([KernelCall(weights=weights)], rows, profile)


@KERNELS
def test_several_threads_may_call_it(kernel: Kernel) -> None:
    some = [expert(f) for f in (Format.Q4_0, Format.Q5_1, Format.F16, Format.NVFP4)]
    expected = [NumpyKernel().expert(w, rows_of(3), Profile.R16) for w in some]
    with ThreadPoolExecutor(4) as pool:
        results = pool.map(
            lambda w: kernel.expert(w, rows_of(3), Profile.R16), some * 8
        )
        assert list(results) == expected * 8


@KERNELS
@pytest.mark.parametrize("block_format", FORMATS)
def test_stacked_matrices_give_what_each_gives(
    kernel: Kernel, block_format: Format
) -> None:
    matrices = [fixed_matrix("m", f, 5, 256) for f in (block_format, Format.Q4_0)]
    rows = rows_of(3, 256)
    stacked = kernel.matmul_stacked(matrices, rows)
    alone = [kernel.matmul(matrix, rows) for matrix in matrices]
    assert np.array_equal(stacked, np.hstack(alone))


def test_matrices_are_the_same_only_if_they_are_one_object() -> None:
    """A kernel may keep what it made of one for as long as the object lives."""
    raw = bytearray(fixed_matrix("m", Format.Q8_0, 4, 64).raw)
    for kernel in all_kernels():
        own = Matrix(format=Format.Q8_0, n_rows=4, n_cols=64, raw=memoryview(raw))
        before = kernel.matmul(own, rows_of(1))
        del own
        raw[2] ^= 1
        own = Matrix(format=Format.Q8_0, n_rows=4, n_cols=64, raw=memoryview(raw))
        assert not np.array_equal(kernel.matmul(own, rows_of(1)), before), kernel.name
