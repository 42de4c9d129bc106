import numpy as np
import pytest

from mobile_worker.arithmetic.activation_kind import Activation, ActivationKind
from mobile_worker.arithmetic.coding import CodedRows, ExpertInput, quantize_rows
from mobile_worker.arithmetic.errors import CodeRefused, NonFinite, ShapeMismatch
from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.arithmetic.kernel import KernelCall
from mobile_worker.arithmetic.matrix import ExpertWeights
from mobile_worker.arithmetic.native.arguments import (
    call_arguments,
    check_width,
    contiguous,
    count_rows,
    cut_call,
    macs,
    matrix_arguments,
    refuse,
    row_arguments,
)
from mobile_worker.arithmetic.self_test import fixed_matrix, fixed_rows

WEIGHTS = ExpertWeights(
    gate=fixed_matrix("gate", Format.Q4_0, 96, 64),
    up=fixed_matrix("up", Format.F16, 96, 64),
    down=fixed_matrix("down", Format.Q8_0, 64, 96),
    activation=Activation(kind=ActivationKind.SWIGLU_OAI, alpha=1.5, limit=6.0),
    down_bias=np.ones(64, np.float32),
)
X = fixed_rows("x", 5, 64)
ROWS = ExpertInput(coded=quantize_rows(X), floats=X)


def test_a_matrix_is_its_own_bytes():
    matrix = WEIGHTS.gate
    assert matrix_arguments(matrix, None) == (2, 96, 64, matrix.raw, None)
    assert matrix_arguments(matrix, None)[3] is matrix.raw


def test_a_call_carries_activation_matrices_and_rows():
    whole = call_arguments(KernelCall(weights=WEIGHTS))
    assert whole[:3] == (1, 1.5, 6.0)
    assert [part[0] for part in whole[3:6]] == [Format.Q4_0, Format.F16, Format.Q8_0]
    assert whole[6] is None
    assert whole[5][4].tolist() == [1.0] * 64
    some = call_arguments(KernelCall(weights=WEIGHTS, rows=np.array([3, 0], np.int32)))
    assert some[6].dtype == np.int64
    assert some[6].tolist() == [3, 0]


def test_values_are_made_contiguous_and_aligned():
    strided = np.arange(12, dtype=np.float32).reshape(3, 4).T
    misaligned = np.frombuffer(bytes(17), np.uint8)[1:].view("<f4")
    for x in (strided, misaligned):
        ready = contiguous(x)
        assert ready.flags["C_CONTIGUOUS"]
        assert ready.ctypes.data % 4 == 0
        assert np.array_equal(ready, x)


def test_chosen_rows_are_copied_so_that_no_thread_changes_them_once_checked():
    chosen = np.array([3, 0], np.int64)
    *_, own = call_arguments(KernelCall(weights=WEIGHTS, rows=chosen))
    chosen[:] = 1 << 40
    assert own.tolist() == [3, 0]


def test_rows_come_in_the_kinds_they_have():
    codes, scales, floats, n = row_arguments(ROWS)
    assert (codes.shape, scales.shape, floats.shape, n) == ((5, 64), (5, 2), (5, 64), 5)
    assert row_arguments(ExpertInput(floats=X))[:2] == (None, None)
    assert row_arguments(ExpertInput(coded=ROWS.coded))[2] is None


@pytest.mark.parametrize(
    "rows",
    [
        ExpertInput(coded=CodedRows(codes=ROWS.coded.codes, scales=X[:, :1])),
        ExpertInput(coded=CodedRows(codes=ROWS.coded.codes[:, :40], scales=X[:, :1])),
        ExpertInput(coded=ROWS.coded, floats=X[:4]),
    ],
)
def test_kinds_that_do_not_agree_are_refused(rows):
    with pytest.raises(ShapeMismatch):
        row_arguments(rows)


def test_a_matrix_takes_its_kind_of_rows_only():
    check_width(WEIGHTS.gate, ROWS)
    check_width(WEIGHTS.up, ROWS)
    for matrix, rows in (
        (WEIGHTS.gate, ExpertInput(floats=X)),
        (WEIGHTS.up, ExpertInput(coded=ROWS.coded)),
        (WEIGHTS.down, ROWS),
    ):
        with pytest.raises(ShapeMismatch, match=f"of {matrix.n_cols} values"):
            check_width(matrix, rows)


def test_rows_are_counted_and_must_be_there():
    calls = [
        KernelCall(weights=WEIGHTS),
        KernelCall(weights=WEIGHTS, rows=np.array([4, 4])),
        KernelCall(weights=WEIGHTS, rows=np.array([], np.int64)),
    ]
    assert count_rows(calls, ROWS) == [5, 2, 0]
    for bad in ([5], [-1], [0, 2**40]):
        call = KernelCall(weights=WEIGHTS, rows=np.array(bad))
        with pytest.raises(ShapeMismatch, match="among 5"):
            count_rows([call], ROWS)


def test_a_call_is_cut_with_its_results():
    out = np.zeros((5, 3), np.float32)
    whole = KernelCall(weights=WEIGHTS)
    assert cut_call(whole, out, 0, 5) == (whole, out)
    part, place = cut_call(whole, out, 1, 3)
    assert part.rows.tolist() == [1, 2]
    place[:] = 1.0
    assert out[:, 0].tolist() == [0, 1, 1, 0, 0]
    chosen = KernelCall(weights=WEIGHTS, rows=np.array([4, 2, 0]))
    assert cut_call(chosen, out[:3], 1, 3)[0].rows.tolist() == [2, 0]


def test_the_work_of_a_row():
    assert macs(WEIGHTS) == 3 * 64 * 96


def test_outcomes_become_errors():
    refuse(0)
    with pytest.raises(NonFinite):
        refuse(1)
    with pytest.raises(CodeRefused):
        refuse(2)
