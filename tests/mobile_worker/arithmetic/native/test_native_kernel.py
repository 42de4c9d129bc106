"""What is the native kernel's own; its bytes are held in test_kernel_equality."""

import threading

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
from mobile_worker.arithmetic.kernel import KernelCall, KernelOnThreads
from mobile_worker.arithmetic.matrix import ExpertWeights
from mobile_worker.arithmetic.native import native_kernel
from mobile_worker.arithmetic.native.native_kernel import NativeKernel, native_sets
from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from mobile_worker.arithmetic.profiles import Profile
from mobile_worker.arithmetic.self_test import fixed_matrix, fixed_rows

pytestmark = pytest.mark.skipif(not native_sets(), reason="the extension is not built")

N_EMBD, N_FF = 256, 320


def expert(block_format: Format, seed: int = 0) -> ExpertWeights:
    return ExpertWeights(
        gate=fixed_matrix(f"gate {seed}", block_format, N_FF, N_EMBD),
        up=fixed_matrix(f"up {seed}", Format.Q8_0, N_FF, N_EMBD),
        down=fixed_matrix(f"down {seed}", Format.Q4_0, N_EMBD, N_FF),
        activation=Activation(kind=ActivationKind.SWIGLU),
    )


def rows(n: int) -> ExpertInput:
    x = fixed_rows("native", n, N_EMBD)
    return ExpertInput(coded=quantize_rows(x), floats=x)


def test_it_is_named_by_its_set_and_keeps_nothing():
    best, *_ = native_sets()
    assert NativeKernel().name == f"native/{best}"
    assert NativeKernel("portable").name == "native/portable"
    assert NativeKernel().decoded_bytes == 0


def test_an_unknown_set_is_refused_with_those_there_are():
    with pytest.raises(KernelUnavailable, match="native/avx9000") as caught:
        NativeKernel("avx9000")
    assert "native/portable" in caught.value.advice


@pytest.mark.parametrize("isa", native_sets())
@pytest.mark.parametrize("n_threads", [2, 4])
def test_threads_give_the_bytes_of_one(isa, n_threads, monkeypatch):
    monkeypatch.setattr(native_kernel, "_WORTH_A_THREAD", 1 << 12)
    alone, many = NativeKernel(isa), NativeKernel(isa, n_threads=n_threads)
    x = rows(7)
    matrices = [
        fixed_matrix("a", Format.Q4_K, 77, N_EMBD),
        fixed_matrix("b", Format.F32, 5, N_EMBD),
        fixed_matrix("c", Format.Q6_K, 130, N_EMBD),
    ]
    expected = alone.matmul_stacked(matrices, x)
    assert np.array_equal(many.matmul_stacked(matrices, x), expected)
    calls = [
        KernelCall(weights=expert(Format.Q4_0, 1)),
        KernelCall(weights=expert(Format.F16, 2), rows=np.array([6, 0, 3])),
        KernelCall(weights=expert(Format.Q3_K, 3), rows=np.array([], np.int64)),
        KernelCall(weights=expert(Format.Q5_1, 4), rows=np.array([2])),
    ]
    for profile in Profile:
        expected = alone.experts(calls, x, profile)
        assert many.experts(calls, x, profile) == expected
        for own, other in zip(
            many.expert_values(calls, x, profile),
            alone.expert_values(calls, x, profile),
            strict=True,
        ):
            assert np.array_equal(own, other)
    one = calls[0].weights
    assert np.array_equal(many.feed_forward(one, x), alone.feed_forward(one, x))
    single = rows(1)
    assert np.array_equal(
        many.feed_forward(one, single), alone.feed_forward(one, single)
    )
    for profile in Profile:
        expected = alone.expert(one, single, profile)
        assert many.expert(one, single, profile) == expected


def test_a_thread_s_refusal_reaches_the_caller(monkeypatch):
    monkeypatch.setattr(native_kernel, "_WORTH_A_THREAD", 1 << 12)
    many = NativeKernel(n_threads=3)
    x = rows(4)
    bad = ExpertInput(
        coded=CodedRows(codes=x.coded.codes, scales=np.full_like(x.coded.scales, 1e38)),
        floats=x.floats,
    )
    calls = [KernelCall(weights=expert(Format.Q4_0, i)) for i in range(3)]
    with pytest.raises(NonFinite):
        many.experts(calls, bad, Profile.R16)
    assert len(many.experts(calls, x, Profile.R16)) == 3


def test_calls_from_several_threads_at_once_do_not_disturb_each_other(monkeypatch):
    monkeypatch.setattr(native_kernel, "_WORTH_A_THREAD", 1 << 12)
    kernel = NativeKernel(n_threads=2)
    x = rows(3)
    weights = [expert(Format.Q4_0, i) for i in range(4)]
    expected = [kernel.expert(each, x, Profile.R16) for each in weights]
    found = [None] * 4

    def work(i: int) -> None:
        found[i] = [kernel.expert(weights[i], x, Profile.R16) for _ in range(20)]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[one] * 20 for one in expected]


def test_codes_that_no_coding_gives_are_refused():
    kernel = NativeKernel()
    x = rows(2)
    low = x.coded.codes.copy()
    low[1, 5] = -128
    scales = [x.coded.scales.copy() for _ in range(3)]
    scales[0][0, 0], scales[1][0, 0], scales[2][1, 7] = np.nan, np.inf, -1.0
    bad = [CodedRows(codes=low, scales=x.coded.scales)]
    bad += [CodedRows(codes=x.coded.codes, scales=each) for each in scales]
    for coded in bad:
        own = ExpertInput(coded=coded, floats=x.floats)
        with pytest.raises(CodeRefused):
            kernel.matmul(fixed_matrix("m", Format.Q4_0, 8, N_EMBD), own)
        with pytest.raises(CodeRefused):
            kernel.expert(expert(Format.Q4_0), own, Profile.R16)


def test_rows_that_do_not_fit_are_refused():
    kernel = NativeKernel()
    matrix = fixed_matrix("m", Format.Q4_0, 8, 64)
    with pytest.raises(ShapeMismatch, match="of 64 values"):
        kernel.matmul(matrix, rows(1))
    with pytest.raises(ShapeMismatch, match="of 256 values"):
        kernel.expert(
            expert(Format.Q4_0), ExpertInput(floats=rows(1).floats), Profile.R8
        )
    with pytest.raises(ShapeMismatch, match="multiple of 32"):
        kernel.code_rows(np.zeros((1, 40), np.float32))
    call = KernelCall(weights=expert(Format.Q4_0), rows=np.array([9]))
    with pytest.raises(ShapeMismatch, match="among 2"):
        kernel.experts([call], rows(2), Profile.R16)


def test_a_row_that_is_no_number_is_refused():
    x = np.zeros((1, 64), np.float32)
    x[0, 40] = np.nan
    with pytest.raises(NonFinite):
        NativeKernel().code_rows(x)


def test_threads_may_be_fewer_for_a_while_and_never_more_than_at_first():
    kernel = NativeKernel(n_threads=4)
    assert isinstance(kernel, KernelOnThreads)
    for n_threads, n in ((2, 2), (9, 4), (0, 1)):
        kernel.use_threads(n_threads)
        assert kernel.n_parts(1 << 40) == kernel.n_threads == n
    assert not isinstance(NumpyKernel(decoded_cache_bytes=0), KernelOnThreads)
