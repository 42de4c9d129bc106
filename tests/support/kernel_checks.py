"""Calls of a kernel as cases for the C driver, each with what numpy makes of it.

Numbers that are not finite need not be the same ones: a product's result is compared
where numpy's is finite, and must be no number where that is none.
"""

from dataclasses import dataclass

import numpy as np

from mobile_worker.arithmetic.activation import activate
from mobile_worker.arithmetic.activation_kind import Activation
from mobile_worker.arithmetic.coding import ExpertInput, block_codes, quantize_rows
from mobile_worker.arithmetic.errors import CodeRefused, NonFinite
from mobile_worker.arithmetic.matrix import ExpertWeights, Matrix
from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from mobile_worker.arithmetic.profiles import Profile, decode_result
from tests.support.kernel_driver import (
    Answer,
    Case,
    Driver,
    Mode,
    Operation,
    Place,
    float_bits,
)

__all__ = [
    "PADDING",
    "Check",
    "Layout",
    "NumpyRecorder",
    "activation_check",
    "coding_check",
    "expert_check",
    "product_check",
    "rounding_check",
    "run_checks",
]

_REFERENCE = NumpyKernel(decoded_cache_bytes=0)
PADDING = 0xA5  # of a result, where the driver writes nothing
_DONE, _NOT_FINITE, _CODE_REFUSED = range(3)


@dataclass(frozen=True)
class Check:
    """A case and what must come of it; `floats` compares where they are finite."""

    case: Case
    outcome: int
    expected: bytes
    floats: bool = False

    def hold(self, answer: Answer) -> None:
        """Assert that the answer is the expected one."""
        assert answer.outcome == self.outcome, self.case
        assert answer.mode_kept, self.case
        if self.outcome == _NOT_FINITE:
            return
        if not self.floats:
            assert answer.result == self.expected, self.case
            return
        found, wanted = (
            np.frombuffer(b, "<f4") for b in (answer.result, self.expected)
        )
        finite = np.isfinite(wanted)
        assert np.array_equal(np.isfinite(found), finite), self.case
        assert (found.view("<u4") == wanted.view("<u4"))[finite].all(), self.case


@dataclass(frozen=True)
class Layout:
    """Where things lie, and the mode of the process: no result depends on it.

    `odd` puts every buffer off the alignment that it need not have.
    """

    mode: Mode = Mode.PLAIN
    odd: bool = False
    before: int = 0  # columns of the result before and behind those that are written
    behind: int = 0

    def place(self, held: np.ndarray | None, unit: int) -> Place:
        """Return a buffer whose values must lie at multiples of `unit` bytes."""
        raw = None if held is None else held.tobytes()
        return Place(raw, unit if self.odd else 0)

    def case(self, operation: Operation, numbers: tuple, places: list) -> Case:
        """Return a case of this layout."""
        shift = 4 if self.odd and operation is not Operation.CHOOSE else 0
        return Case(operation, numbers, tuple(places), self.mode, shift)


def run_checks(driver: Driver, own: str, checks: list[Check]) -> None:
    """Run all checks in one process and hold each."""
    answers = driver.run(own, [check.case for check in checks])
    for check, answer in zip(checks, answers, strict=True):
        check.hold(answer)


def matrix_parts(matrix: Matrix, bias: np.ndarray | None, layout: Layout):
    """Return a matrix's numbers and places."""
    raw = np.frombuffer(matrix.raw, np.uint8)
    numbers = (int(matrix.format), matrix.n_rows, matrix.n_cols)
    return numbers, [layout.place(raw, 1), layout.place(bias, 4)]


def input_places(rows: ExpertInput, layout: Layout) -> list[Place]:
    """Return the places of codes, scales and floats."""
    coded = rows.coded
    return [
        layout.place(None if coded is None else coded.codes, 1),
        layout.place(None if coded is None else coded.scales, 4),
        layout.place(rows.floats, 4),
    ]


def product_check(
    matrix: Matrix, rows: ExpertInput, bias: np.ndarray | None, layout: Layout
) -> Check:
    """Return the check of a product whose columns lie within a wider result."""
    n, n_rows = rows.n_rows, matrix.n_rows
    stride = layout.before + n_rows + layout.behind
    numbers, places = matrix_parts(matrix, bias, layout)
    numbers += (n, stride, layout.before)
    places += input_places(rows, layout)
    result = np.full((n, 4 * stride), PADDING, np.uint8).view("<f4")
    outcome = _DONE
    try:
        y = _REFERENCE.matmul(matrix, rows)
        with np.errstate(all="ignore"):
            y = y if bias is None else y + bias
        result[:, layout.before : layout.before + n_rows] = y
    except CodeRefused:
        outcome = _CODE_REFUSED
    case = layout.case(Operation.PRODUCT, numbers, places)
    return Check(case, outcome, result.tobytes(), floats=True)


def expert_check(
    weights: ExpertWeights,
    rows: ExpertInput,
    chosen: np.ndarray | None,
    result: int,
    layout: Layout,
) -> Check:
    """Return the check of an expert; `result` 0 to 2 coded, 3 to 5 as values."""
    activation = weights.activation
    numbers: tuple = (
        int(activation.kind),
        float_bits(activation.alpha),
        float_bits(activation.limit),
        result,
    )
    places: list[Place] = []
    for part in ("gate", "up", "down"):
        bias = getattr(weights, f"{part}_bias")
        more, own = matrix_parts(getattr(weights, part), bias, layout)
        numbers, places = numbers + more, places + own
    numbers += (rows.n_rows, 0 if chosen is None else len(chosen))
    places += [*input_places(rows, layout), layout.place(chosen, 8)]
    case = layout.case(Operation.EXPERT, numbers, places)
    return Check(case, *expected_expert(weights, rows, chosen, result))


def expected_expert(
    weights: ExpertWeights, rows: ExpertInput, chosen: np.ndarray | None, result: int
) -> tuple[int, bytes]:
    """Return the outcome and the bytes that numpy gives."""
    profile, n_embd = Profile(result % 3), weights.down.n_rows
    n = rows.n_rows if chosen is None else len(chosen)
    width = 4 * n_embd if result > 2 else _row_bytes(profile, n_embd)
    try:
        own = rows if chosen is None else rows.take(chosen)
        _REFERENCE.matmul(weights.gate, rows)  # a code in no chosen row is refused, too
        coded = _REFERENCE.expert(weights, own, profile)
        if result > 2:
            values = decode_result(coded, profile, n, n_embd)
            return _DONE, values.astype("<f4").tobytes()
    except NonFinite:
        return _NOT_FINITE, b""
    except CodeRefused:
        return _CODE_REFUSED, bytes([PADDING]) * (n * width)
    return _DONE, coded


def _row_bytes(profile: Profile, n_embd: int) -> int:
    sizes = {Profile.R32: 4 * n_embd, Profile.R16: 2 * n_embd, Profile.R8: n_embd}
    return sizes[profile] + (0 if profile is Profile.R32 else n_embd // 8)


def coding_check(x: np.ndarray, q: int, layout: Layout) -> Check:
    """Return the check of coding the row `x` [n] with q = 127 or 32767."""
    operation = Operation.CODE_I8 if q == 127 else Operation.CODE_I16
    case = layout.case(operation, (len(x),), [layout.place(x, 4)])
    if not np.isfinite(x).all():
        return Check(case, _NOT_FINITE, b"")
    codes, scales = block_codes(x[None], q)
    raw = codes.astype("i1" if q == 127 else "<i2").tobytes()
    return Check(case, _DONE, raw + scales.astype("<f4").tobytes())


def rounding_check(x: np.ndarray, q: int, layout: Layout) -> Check:
    """Return the check of what a reader of the coded row `x` [n] sees."""
    numbers = (len(x), int(q == 32767))
    case = layout.case(Operation.ROUND, numbers, [layout.place(x, 4)])
    codes, scales = block_codes(x[None], q)
    with np.errstate(all="ignore"):
        values = codes * scales
    return Check(case, _DONE, values.astype("<f4").tobytes(), floats=True)


def activation_check(
    activation: Activation, g: np.ndarray, u: np.ndarray, layout: Layout
) -> Check:
    """Return the check of act(g, u) over `n` values; over g itself where it is odd."""
    numbers = (
        int(activation.kind),
        float_bits(activation.alpha),
        float_bits(activation.limit),
        len(g),
        int(layout.odd),
    )
    places = [layout.place(g, 4), layout.place(u, 4)]
    case = layout.case(Operation.ACTIVATE, numbers, places)
    with np.errstate(all="ignore"):
        h = activate(activation, g, u)
    return Check(case, _DONE, h.astype("<f4").tobytes(), floats=True)


class NumpyRecorder:
    """A kernel that is numpy's, and keeps each call as a check for others."""

    def __init__(self) -> None:
        self.checks: list[Check] = []

    def code_rows(self, x):
        """Code rows, and keep that as one row."""
        self.checks.append(coding_check(x.ravel(), 127, Layout()))
        return quantize_rows(x)

    def expert(self, weights, rows, profile):
        """Run an expert, and keep it; all results must be numbers."""
        check = expert_check(weights, rows, None, int(profile), Layout())
        self.checks.append(check)
        assert check.outcome == _DONE
        return check.expected
