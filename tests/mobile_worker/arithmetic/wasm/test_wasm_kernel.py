"""What is the wasm kernel's own; its bytes are held in the golden vectors, too."""

import gc
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from mobile_worker.arithmetic.activation_kind import Activation, ActivationKind
from mobile_worker.arithmetic.coding import CodedRows, ExpertInput, quantize_rows
from mobile_worker.arithmetic.errors import (
    CodeRefused,
    KernelUnavailable,
    NonFinite,
    ShapeMismatch,
)
from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.arithmetic.kernel import KernelCall
from mobile_worker.arithmetic.matrix import ExpertWeights, Matrix
from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from mobile_worker.arithmetic.profiles import Profile
from mobile_worker.arithmetic.self_test import (
    FORMATS,
    SELF_TEST_DIGEST,
    fixed_matrix,
    fixed_rows,
    self_test,
)
from mobile_worker.arithmetic.wasm import wasm_kernel
from mobile_worker.arithmetic.wasm.build import FLAVOURS
from mobile_worker.arithmetic.wasm.instance import WasmInstance
from mobile_worker.arithmetic.wasm.wasm_kernel import WasmKernel

N_EMBD, N_FF = 256, 512


@pytest.fixture(params=FLAVOURS)
def kernel(request: pytest.FixtureRequest) -> WasmKernel:
    return WasmKernel(request.param, 16 << 20)


def expert(label: str, *formats: Format, with_bias: bool = False) -> ExpertWeights:
    gate, up, down = formats or (Format.Q4_0, Format.Q8_0, Format.Q4_K)
    bias = fixed_rows(label, 3, N_FF)
    return ExpertWeights(
        gate=fixed_matrix(f"{label} gate", gate, N_FF, N_EMBD),
        up=fixed_matrix(f"{label} up", up, N_FF, N_EMBD),
        down=fixed_matrix(f"{label} down", down, N_EMBD, N_FF),
        activation=Activation(kind=ActivationKind.SWIGLU_OAI),
        gate_bias=bias[0] if with_bias else None,
        up_bias=bias[1] if with_bias else None,
        down_bias=bias[2, :N_EMBD].copy() if with_bias else None,
    )


def rows_of(n: int, n_cols: int = N_EMBD) -> ExpertInput:
    x = fixed_rows("x", n, n_cols)
    return ExpertInput(coded=quantize_rows(x), floats=x)


def calls_of(*experts: ExpertWeights) -> list[KernelCall]:
    subsets = (None, np.array([4, 0]), np.array([2]), np.zeros(0, np.int64))
    return [
        KernelCall(weights=weights, rows=subsets[i % 4])
        for i, weights in enumerate(experts)
    ]


def test_it_is_named_by_its_flavour_and_passes_the_self_test(
    kernel: WasmKernel,
) -> None:
    assert kernel.name in {"wasm/plain", "wasm/relaxed"}
    assert kernel.decoded_bytes == 16 << 20
    assert self_test(kernel) == SELF_TEST_DIGEST


def test_an_unknown_flavour_is_refused() -> None:
    with pytest.raises(KernelUnavailable, match="'threaded'"):
        WasmKernel("threaded")


@pytest.mark.parametrize("n_rows", [1, 3, 4, 7])
@pytest.mark.parametrize("block_format", FORMATS)
def test_products_are_numpys(
    kernel: WasmKernel, block_format: Format, n_rows: int
) -> None:
    matrix = fixed_matrix("m", block_format, n_rows, N_EMBD)
    for n in (0, 1, 3, 70):  # 70: more than one pass
        rows = rows_of(n)
        right = NumpyKernel().matmul(matrix, rows)
        assert kernel.matmul(matrix, rows).tobytes() == right.tobytes()


@pytest.mark.parametrize("resident_bytes", [0, 300_000, 16 << 20])
@pytest.mark.parametrize("flavour", FLAVOURS)
def test_experts_are_numpys_whatever_is_resident(
    flavour: str, resident_bytes: int
) -> None:
    kernel = WasmKernel(flavour, resident_bytes)
    mixed = (Format.Q6_K, Format.F16, Format.BF16)
    calls = calls_of(
        expert("a"),
        expert("b", with_bias=True),
        expert("c", *mixed, with_bias=True),
        expert("d"),
    )
    for profile in Profile:
        for _ in range(2):
            coded = kernel.experts(calls, rows_of(5), profile)
            assert coded == NumpyKernel().experts(calls, rows_of(5), profile)
        values = kernel.expert_values(calls, rows_of(5), profile)
        right = NumpyKernel().expert_values(calls, rows_of(5), profile)
        assert [y.tobytes() for y in values] == [y.tobytes() for y in right]
    y = kernel.feed_forward(calls[2].weights, rows_of(3))
    assert np.array_equal(y, NumpyKernel().feed_forward(calls[2].weights, rows_of(3)))


def test_the_way_rows_are_cut_changes_nothing(
    kernel: WasmKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    matrices = [fixed_matrix(f.name, f, 9 + f, N_EMBD) for f in FORMATS]
    weights = expert("a", with_bias=True)
    products = kernel.matmul_stacked(matrices, rows_of(7))
    coded = kernel.expert(weights, rows_of(7), Profile.R16)
    monkeypatch.setattr(wasm_kernel, "product_rows", lambda _: 3)
    monkeypatch.setattr(wasm_kernel, "expert_rows", lambda _: 2)
    assert np.array_equal(kernel.matmul_stacked(matrices, rows_of(7)), products)
    assert kernel.expert(weights, rows_of(7), Profile.R16) == coded
    alone = np.hstack([kernel.matmul(matrix, rows_of(7)) for matrix in matrices])
    assert np.array_equal(alone, products)


@pytest.mark.parametrize("n_threads", [1, 2, 4])
@pytest.mark.parametrize("resident_bytes", [0, 400_000, 16 << 20])
def test_threads_give_the_bytes_of_one(n_threads: int, resident_bytes: int) -> None:
    kernel = WasmKernel("relaxed", resident_bytes)
    calls = calls_of(*(expert(label) for label in "abcdef"))
    right = NumpyKernel().experts(calls, rows_of(5), Profile.R16)
    barrier = threading.Barrier(n_threads)

    def work(_: int) -> list[bytes]:
        barrier.wait()
        return kernel.experts(calls, rows_of(5), Profile.R16)

    with ThreadPoolExecutor(n_threads) as pool:
        for results in pool.map(work, range(n_threads)):
            assert results == right
    assert 1 <= len(kernel._free) <= n_threads


def test_a_call_gets_the_instance_that_holds_its_weights() -> None:
    kernel = WasmKernel("plain", 16 << 20)
    one, other = (fixed_matrix(label, Format.Q4_0, 8, 64) for label in "ab")
    with kernel._borrow(one) as first, kernel._borrow(one) as second:
        first.resident.add(one)
        second.resident.add(other)
        assert first is not second
    for matrix, holder in ((one, first), (other, second), (one, first)):
        with kernel._borrow(matrix) as borrowed:
            assert borrowed is holder


def test_copies_stay_within_the_budget_and_go_with_their_matrices() -> None:
    kernel = WasmKernel("plain", 1 << 20)
    kernel.matmul(fixed_matrix("m", Format.Q8_0, 8, 64), rows_of(1, 64))
    (workspace,) = kernel._free
    for i in range(40):
        matrix = fixed_matrix(f"m{i}", Format.Q8_0, 1024, 64)
        kernel.matmul(matrix, rows_of(1, 64))
    assert len(workspace.instance.bytes) <= workspace.end + (1 << 20) + (1 << 16)
    assert kernel._free == [workspace]
    watch = weakref.ref(matrix)
    del matrix
    gc.collect()
    assert watch() is None
    assert not workspace.resident._copies


def test_rows_that_do_not_fit_are_refused(kernel: WasmKernel) -> None:
    weights = expert("a")
    with pytest.raises(ShapeMismatch):
        kernel.expert(weights, rows_of(2, 64), Profile.R16)
    with pytest.raises(ShapeMismatch):
        kernel.expert(weights, ExpertInput(floats=rows_of(2).floats), Profile.R16)
    narrow = fixed_matrix("m", Format.Q4_0, 8, 64)
    with pytest.raises(ShapeMismatch):
        kernel.matmul_stacked((weights.gate, narrow), rows_of(2))
    call = KernelCall(weights=weights, rows=np.array([2]))
    with pytest.raises(ShapeMismatch):
        kernel.experts((call,), rows_of(2), Profile.R16)


@pytest.mark.parametrize("scale", [-1.0, np.nan, np.inf])
def test_impossible_codes_are_refused(kernel: WasmKernel, scale: float) -> None:
    weights = expert("a")
    codes = np.zeros((1, N_EMBD), np.int8)
    scales = np.ones((1, N_EMBD // 32), np.float32)
    scales[0, 1] = scale
    bad_scale = ExpertInput(coded=CodedRows(codes=codes, scales=scales))
    codes = codes.copy()
    codes[0, 9] = -128
    bad_code = ExpertInput(coded=CodedRows(codes=codes, scales=np.zeros_like(scales)))
    for rows in (bad_scale, bad_code):
        with pytest.raises(CodeRefused):
            kernel.expert(weights, rows, Profile.R16)
        with pytest.raises(CodeRefused):
            kernel.matmul(weights.gate, rows)


def test_a_value_that_is_no_number_ends_the_call(kernel: WasmKernel) -> None:
    weights = expert("a")
    raw = bytearray(weights.gate.raw)
    raw[1] = 0x7C  # the first scale is infinite or not a number
    gate = Matrix(
        format=weights.gate.format,
        n_rows=N_FF,
        n_cols=N_EMBD,
        raw=memoryview(bytes(raw)),
    )
    broken = ExpertWeights(
        gate=gate, up=weights.up, down=weights.down, activation=weights.activation
    )
    for profile in Profile:
        with pytest.raises(NonFinite):
            kernel.expert(broken, rows_of(2), profile)
    assert not np.isfinite(kernel.matmul(gate, rows_of(1))[0, 0])
    assert len(kernel.expert(weights, rows_of(1), Profile.R8)) == N_EMBD // 32 * 36


def test_an_instance_that_trapped_is_not_used_again(
    kernel: WasmKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    matrix = fixed_matrix("m", Format.Q4_0, 8, 64)
    right = kernel.matmul(matrix, rows_of(2, 64))
    (trapped,) = kernel._free
    monkeypatch.setattr(WasmInstance, "run", _trap)
    with pytest.raises(KernelUnavailable, match="trapped"):
        kernel.matmul(matrix, rows_of(2, 64))
    monkeypatch.undo()
    assert kernel._free == []
    assert np.array_equal(kernel.matmul(matrix, rows_of(2, 64)), right)
    assert trapped not in kernel._free


def _trap(instance: WasmInstance, steps: int, n: int) -> int:
    raise KernelUnavailable("the wasm kernel trapped: out of bounds")
