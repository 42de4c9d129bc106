from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from mobile_worker.arithmetic import numpy_kernel
from mobile_worker.arithmetic.activation_kind import Activation, ActivationKind
from mobile_worker.arithmetic.coding import CodedRows, ExpertInput, quantize_rows
from mobile_worker.arithmetic.errors import (
    CodeRefused,
    FormatUnsupported,
    NonFinite,
    ShapeMismatch,
)
from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.arithmetic.kernel import KernelCall
from mobile_worker.arithmetic.matrix import ExpertWeights, Matrix
from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from mobile_worker.arithmetic.profiles import Profile, decode_result
from mobile_worker.arithmetic.self_test import FORMATS, fixed_matrix, fixed_rows

OAI = Activation(kind=ActivationKind.SWIGLU_OAI)


def rows_of(x: np.ndarray) -> ExpertInput:
    return ExpertInput(coded=quantize_rows(x), floats=x)


def expert(label: str, *, n_ff: int = 96, formats=(Format.Q4_0,) * 3) -> ExpertWeights:
    gate, up, down = formats
    return ExpertWeights(
        gate=fixed_matrix(f"{label} gate", gate, n_ff, 64),
        up=fixed_matrix(f"{label} up", up, n_ff, 64),
        down=fixed_matrix(f"{label} down", down, 64, n_ff),
        activation=OAI,
    )


@pytest.mark.parametrize("block_format", FORMATS)
def test_a_row_alone_is_a_row_in_any_batch(block_format: Format) -> None:
    kernel = NumpyKernel()
    matrix = fixed_matrix("m", block_format, 40, 256)
    x = fixed_rows("x", 33, 256)
    together = kernel.matmul(matrix, rows_of(x))
    for n in (1, 2, 5, 17):
        part = kernel.matmul(matrix, rows_of(x[4 : 4 + n]))
        assert np.array_equal(part, together[4 : 4 + n])


def test_stacked_matrices_give_what_each_gives() -> None:
    kernel = NumpyKernel()
    matrices = [fixed_matrix(f.name, f, 8 + f, 256) for f in FORMATS]
    rows = rows_of(fixed_rows("x", 3, 256))
    for some in (matrices, matrices[:2], matrices[2:5], matrices[7:9]):
        stacked = kernel.matmul_stacked(some, rows)
        alone = np.hstack([kernel.matmul(matrix, rows) for matrix in some])
        assert np.array_equal(stacked, alone)


def test_many_experts_at_once_are_each_alone() -> None:
    kernel = NumpyKernel()
    x = fixed_rows("x", 6, 64)
    formats = (Format.Q4_0, Format.F16, Format.F32)
    calls = [
        KernelCall(weights=expert("a"), rows=np.array([0, 2, 5])),
        KernelCall(weights=expert("b", formats=formats), rows=np.array([1])),
        KernelCall(weights=expert("c", n_ff=32), rows=np.array([5, 0])),
        KernelCall(weights=expert("d")),
        KernelCall(weights=expert("e"), rows=np.zeros(0, np.int64)),
    ]
    for profile in Profile:
        coded = kernel.experts(calls, rows_of(x), profile)
        values = kernel.expert_values(calls, rows_of(x), profile)
        for call, own, value in zip(calls, coded, values, strict=True):
            part = x if call.rows is None else x[call.rows]
            alone = kernel.expert(call.weights, rows_of(part), profile)
            assert own == alone
            assert np.array_equal(value, decode_result(own, profile, len(part), 64))


def test_no_calls_no_results() -> None:
    rows = rows_of(fixed_rows("x", 2, 64))
    assert NumpyKernel().experts([], rows, Profile.R16) == []
    assert NumpyKernel().expert_values([], rows, Profile.R16) == []


def test_a_feed_forward_at_home_is_not_coded() -> None:
    weights, rows = expert("a"), rows_of(fixed_rows("x", 2, 64))
    kernel = NumpyKernel()
    coded = kernel.expert(weights, rows, Profile.R32)
    assert kernel.feed_forward(weights, rows).tobytes() == coded


def test_threads_and_a_small_cache_change_nothing() -> None:
    x = fixed_rows("x", 4, 64)
    some = [expert(str(i)) for i in range(6)]
    expected = [NumpyKernel().expert(w, rows_of(x), Profile.R16) for w in some]
    kernel = NumpyKernel(decoded_cache_bytes=60_000)
    with ThreadPoolExecutor(4) as pool:
        results = pool.map(
            lambda w: kernel.expert(w, rows_of(x), Profile.R16), some * 4
        )
        assert list(results) == expected * 4


@pytest.mark.parametrize("part", ["gate", "up", "down"])
@pytest.mark.parametrize("bits", [0x7C00, 0xFC00, 0x7E00])
def test_a_weight_that_is_not_finite_ends_the_call(part: str, bits: int) -> None:
    good = expert("a")
    bad = getattr(good, part)
    raw = bytearray(bad.raw)
    raw[:2] = bits.to_bytes(2, "little")
    broken = Matrix(
        format=bad.format, n_rows=bad.n_rows, n_cols=bad.n_cols, raw=memoryview(raw)
    )
    parts = {"gate": good.gate, "up": good.up, "down": good.down, part: broken}
    weights = ExpertWeights(**parts, activation=OAI)
    for profile in Profile:
        with pytest.raises(NonFinite):
            NumpyKernel().expert(weights, rows_of(fixed_rows("x", 2, 64)), profile)


def test_an_overflow_ends_the_call_without_a_warning() -> None:
    weights = expert("a", formats=(Format.F32,) * 3)
    x = np.full((1, 64), 3e38, np.float32)
    with pytest.raises(NonFinite):
        NumpyKernel().expert(weights, rows_of(x), Profile.R16)


def test_input_of_the_wrong_kind_or_width_is_refused() -> None:
    x = fixed_rows("x", 2, 64)
    kernel = NumpyKernel()
    integer, floats = (fixed_matrix("m", f, 4, 64) for f in (Format.Q8_0, Format.F32))
    with pytest.raises(ShapeMismatch, match="coded"):
        kernel.matmul(integer, ExpertInput(floats=x))
    with pytest.raises(ShapeMismatch, match="float"):
        kernel.matmul(floats, ExpertInput(coded=quantize_rows(x)))
    for matrix in (integer, floats):
        with pytest.raises(ShapeMismatch, match="64"):
            kernel.matmul(matrix, rows_of(fixed_rows("x", 2, 96)))
    with pytest.raises(ShapeMismatch, match="width"):
        kernel.matmul_stacked(
            [integer, fixed_matrix("m", Format.Q8_0, 4, 96)], rows_of(x)
        )


def test_an_unknown_format_is_refused_by_name() -> None:
    matrix = Matrix(
        format=Format.IQ2_XS, n_rows=1, n_cols=256, raw=memoryview(bytes(74))
    )
    with pytest.raises(FormatUnsupported, match="IQ2_XS"):
        NumpyKernel().matmul(matrix, rows_of(fixed_rows("x", 1, 256)))


@pytest.mark.parametrize("values", [1, 96, 200, 500, 1000, 5000])
def test_portions_change_nothing(values: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = rows_of(fixed_rows("portions", 13, 64))
    calls = [
        KernelCall(weights=expert("a")),
        KernelCall(weights=expert("b"), rows=np.array([2, 3, 12])),
        KernelCall(weights=expert("c", n_ff=32), rows=np.array([0])),
        KernelCall(weights=expert("d"), rows=np.arange(1, 9)),
        KernelCall(weights=expert("e"), rows=np.array([], np.int64)),
    ]
    whole = NumpyKernel().experts(calls, rows, Profile.R16)
    monkeypatch.setattr(numpy_kernel, "_PORTION_VALUES", values)
    assert NumpyKernel().experts(calls, rows, Profile.R16) == whole
    assert NumpyKernel().experts([], rows, Profile.R16) == []


def test_it_says_what_it_is_and_what_it_keeps() -> None:
    kernel = NumpyKernel(decoded_cache_bytes=12345)
    assert kernel.name == "numpy"
    assert kernel.decoded_bytes == 12345


def test_it_codes_rows() -> None:
    x = fixed_rows("x", 3, 64)
    coded, expected = NumpyKernel().code_rows(x), quantize_rows(x)
    assert np.array_equal(coded.codes, expected.codes)
    assert np.array_equal(coded.scales, expected.scales)


@pytest.mark.parametrize(("code", "scale"), [(-128, 1.0), (1, -1.0), (1, np.nan)])
def test_rows_that_no_coding_gives_are_refused(code: int, scale: float) -> None:
    codes, scales = np.zeros((2, 64), np.int8), np.ones((2, 2), np.float32)
    codes[1, 40], scales[1, 1] = code, scale
    rows = ExpertInput(coded=CodedRows(codes=codes, scales=scales))
    with pytest.raises(CodeRefused):
        NumpyKernel().matmul(fixed_matrix("m", Format.Q4_0, 4, 64), rows)
    with pytest.raises(CodeRefused):
        NumpyKernel().expert(expert("a"), rows, Profile.R16)


def test_a_bias_is_added_last_before_the_finite_check() -> None:
    plain, rows = expert("a"), rows_of(fixed_rows("x", 2, 64))
    bias = fixed_rows("bias", 1, 64)[0]
    parts = {"gate": plain.gate, "up": plain.up, "down": plain.down}
    biased = ExpertWeights(**parts, activation=OAI, down_bias=bias)
    kernel = NumpyKernel()
    expected = kernel.feed_forward(plain, rows) + bias
    assert np.array_equal(kernel.feed_forward(biased, rows), expected)
    bad = ExpertWeights(**parts, activation=OAI, up_bias=np.full(96, np.inf, "f4"))
    with pytest.raises(NonFinite):
        kernel.expert(bad, rows, Profile.R16)


@pytest.mark.parametrize("row", [-1, 2])
def test_a_row_that_is_not_there_is_refused(row: int) -> None:
    rows = rows_of(fixed_rows("x", 2, 64))
    call = KernelCall(weights=expert("a"), rows=np.array([0, row]))
    with pytest.raises(ShapeMismatch, match=f"no row {row} among 2"):
        NumpyKernel().experts([call], rows, Profile.R16)
