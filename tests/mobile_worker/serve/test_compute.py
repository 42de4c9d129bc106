"""A dispatch through the kernel."""

import struct

import numpy as np
import pytest

from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from mobile_worker.arithmetic.profiles import Profile, result_row_bytes
from mobile_worker.expert_id import ExpertId
from mobile_worker.messages.serving import CodedTensor, Dispatch, OutputError
from mobile_worker.serve.compute import Computed, compute
from mobile_worker.servings.hashes import out_hash, x_hash
from tests.support.small_model import N_EMBD, coded_zeros, small_model

MODEL = small_model()
_, HELD = MODEL.held()
KERNEL = NumpyKernel(decoded_cache_bytes=1 << 20)


def run(dispatch: Dispatch, held=HELD) -> Computed:
    weights = [
        held.weights[ExpertId(dispatch.layer, call.index)] for call in dispatch.calls
    ]
    return compute(KERNEL, dispatch, weights)


@pytest.mark.parametrize("profile", list(Profile))
def test_results_are_those_of_each_expert_alone(profile: Profile) -> None:
    calls = ((0, (0, 2)), (3, (0, 1, 2)), (1, (1,)))
    done = run(MODEL.dispatch(calls=calls, n_rows=3, profile=int(profile)))
    assert done.error == OutputError.OK
    assert done.n_rows == 6
    rows, at = MODEL.rows(3), 0
    for (index, which), hashes in zip(calls, done.hashes, strict=True):
        picked = rows.take(np.array(which))
        weights = HELD.weights[ExpertId(1, index)]
        alone = KERNEL.expert(weights, picked, profile)
        n_bytes = len(which) * result_row_bytes(profile, N_EMBD)
        assert done.results[at : at + n_bytes] == alone
        assert hashes.out == out_hash(alone)
        coded_only = type(picked)(coded=picked.coded)
        assert hashes.x == x_hash(coded_only)
        at += n_bytes
    assert at == len(done.results)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_b14_a_value_that_is_not_finite_is_arith_and_no_crash(value: float) -> None:
    model = small_model("f32", Format.F32)
    _, held = model.held()
    dispatch = model.dispatch(with_floats=True)
    floats = bytearray(dispatch.floats or b"")
    floats[8:12] = struct.pack("<f", value)
    bad = model.dispatch(floats=bytes(floats))
    done = run(bad, held)
    assert done.error == OutputError.ARITH
    assert (done.results, done.hashes) == (b"", ())


def test_b14_an_overflow_on_the_way_is_arith() -> None:
    model = small_model("f32", Format.F32)
    _, held = model.held()
    floats = np.full((1, N_EMBD), 3e38, "<f4").tobytes()
    assert run(model.dispatch(floats=floats), held).error == OutputError.ARITH


@pytest.mark.parametrize("scale", [float("nan"), float("inf"), -1.0])
def test_b25_scales_that_coding_cannot_make_are_a_bad_request(scale: float) -> None:
    scales = struct.pack("<2f", 1.0, scale)
    coded = CodedTensor(codes=bytes(N_EMBD), scales=scales)
    done = run(MODEL.dispatch(coded=coded))
    assert done.error == OutputError.BAD_REQUEST


def test_b25_code_minus_128_is_a_bad_request() -> None:
    codes = bytes([0x80]) + bytes(N_EMBD - 1)
    coded = CodedTensor(codes=codes, scales=struct.pack("<2f", 1.0, 1.0))
    assert run(MODEL.dispatch(coded=coded)).error == OutputError.BAD_REQUEST


def test_rows_of_zeros_are_rows_like_any_other() -> None:
    done = run(MODEL.dispatch(coded=coded_zeros(1)))
    assert done.error == OutputError.OK
    assert not any(done.results)
