"""Dispatches computed together: each gets what it would get by itself."""

import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from mobile_worker.arithmetic.profiles import Profile
from mobile_worker.expert_id import ExpertId
from mobile_worker.messages.serving import Dispatch, OutputError
from mobile_worker.serve.compute import compute
from mobile_worker.serve.merging import Asked, compute_together, may_merge
from tests.support.small_model import N_EMBD, SmallModel, small_model

MODEL = small_model()
FLOATS = small_model("f32", Format.F32)
HELD = {model.name: model.held()[1] for model in (MODEL, FLOATS)}


class Counting(NumpyKernel):
    """Notes the rows of each call."""

    def __init__(self) -> None:
        super().__init__(decoded_cache_bytes=1 << 20)
        self.calls: list[list[int]] = []

    def experts(self, calls, rows, profile):
        self.calls.append([len(call.rows) for call in calls if call.rows is not None])
        return super().experts(calls, rows, profile)


KERNEL = Counting()


def asked(dispatch: Dispatch, model: SmallModel = MODEL) -> Asked:
    weights = HELD[model.name].weights
    return Asked(
        dispatch, [weights[ExpertId(dispatch.layer, c.index)] for c in dispatch.calls]
    )


def alone(each: Asked) -> tuple:
    done = compute(KERNEL, each.dispatch, each.weights)
    return done.error, done.results, done.n_rows, done.hashes


def together(*each: Asked) -> list[tuple]:
    return [
        (done.error, done.results, done.n_rows, done.hashes)
        for done in compute_together(KERNEL, each)
    ]


ROWS = st.sets(st.integers(0, 4), min_size=1).map(lambda rows: tuple(sorted(rows)))
CALLS = st.dictionaries(st.integers(0, 3), ROWS, min_size=1).map(
    lambda calls: tuple(sorted(calls.items()))
)


@given(calls=st.lists(CALLS, min_size=1, max_size=4), profile=st.sampled_from(Profile))
def test_each_gets_the_bytes_and_hashes_of_its_own(calls, profile) -> None:
    each = [
        asked(MODEL.dispatch(i, own, n_rows=5, seed=f"rows {i}", profile=int(profile)))
        for i, own in enumerate(calls)
    ]
    assert together(*each) == [alone(one) for one in each]


def test_the_kernel_sees_each_expert_once() -> None:
    one = asked(MODEL.dispatch(0, ((0, (0, 1)), (2, (1,))), n_rows=2))
    other = asked(MODEL.dispatch(1, ((2, (0,)), (3, (0,))), seed="other"))
    KERNEL.calls.clear()
    first, second = compute_together(KERNEL, [one, other])
    assert KERNEL.calls == [[2, 2, 1]]  # experts 0, 2, 3
    assert (first.n_rows, second.n_rows) == (3, 2)
    assert first.compute_us >= second.compute_us >= 0


def test_floats_go_with_floats() -> None:
    each = [
        asked(FLOATS.dispatch(i, with_floats=True, coded=None, seed=str(i)), FLOATS)
        for i in range(3)
    ]
    assert together(*each) == [alone(one) for one in each]


def with_a_bad_float(bad: float) -> Dispatch:
    floats = bytearray(FLOATS.dispatch(with_floats=True).floats or b"")
    floats[8:12] = struct.pack("<f", bad)
    return FLOATS.dispatch(1, floats=bytes(floats))


@pytest.mark.parametrize("bad", [float("nan"), 3e38])
def test_b14_what_one_sends_is_nobody_elses_error(bad: float) -> None:
    good = asked(FLOATS.dispatch(0, with_floats=True), FLOATS)
    wrong = asked(with_a_bad_float(bad), FLOATS)
    first, second, third = together(good, wrong, good)
    assert (first, third) == (alone(good), alone(good))
    assert second == (OutputError.ARITH, b"", 0, ())


def test_b25_a_refused_row_is_its_senders_alone() -> None:
    good = asked(MODEL.dispatch(0))
    codes = MODEL.dispatch(1)
    assert codes.coded is not None
    broken = replace(codes.coded, codes=bytes([0x80]) + bytes(N_EMBD - 1))
    wrong = asked(MODEL.dispatch(1, coded=broken))
    first, second = together(good, wrong)
    assert first == alone(good)
    assert second[0] is OutputError.BAD_REQUEST


def test_only_what_shares_experts_in_one_way_gains() -> None:
    one = asked(MODEL.dispatch(0, ((0, (0,)), (1, (0,)))))
    other = asked(MODEL.dispatch(1, ((1, (0,)), (3, (0,)))))
    last = asked(MODEL.dispatch(2, ((3, (0,)),)))
    assert may_merge([one], other)
    assert not may_merge([one], last)
    assert may_merge([one, other], last)
    for stranger in (
        asked(MODEL.dispatch(1, ((2, (0,)), (3, (0,))))),
        asked(MODEL.dispatch(1, layer=2)),
        asked(MODEL.dispatch(1, profile=2)),
        asked(MODEL.dispatch(1, with_floats=True)),
        asked(FLOATS.dispatch(1), FLOATS),
    ):
        assert not may_merge([one], stranger)
        assert not may_merge([stranger], one)
