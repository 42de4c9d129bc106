"""What is asked of a kernel, as programs: products of rows, and whole experts.

Each function does some rows at one go in the memory of one instance; how many fit is
said by `product_rows` and `expert_rows`.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from mobile_worker.arithmetic.coding import (
    ACTIVATION_Q,
    CodedRows,
    ExpertInput,
    Floats,
    check_coded,
    check_input,
)
from mobile_worker.arithmetic.errors import ShapeMismatch
from mobile_worker.arithmetic.formats.codecs import is_integer
from mobile_worker.arithmetic.matrix import ExpertWeights, Matrix
from mobile_worker.arithmetic.profiles import (
    Profile,
    check_decodable,
    result_row_bytes,
)
from mobile_worker.arithmetic.wasm import steps
from mobile_worker.arithmetic.wasm.workspace import VALUES_BYTES, Program

__all__ = [
    "check_rows",
    "expert_rows",
    "multiply_rows",
    "part_of",
    "product_rows",
    "run_expert",
]

_RESULT_Q: Final = {Profile.R16: 32767, Profile.R8: ACTIVATION_Q}
_SPARE_BYTES: Final = 1 << 12  # for the gaps between values
_INPUT_BYTES: Final = 9  # of a value going into a product: coded, ready and float


def check_rows(matrices: Iterable[Matrix], rows: ExpertInput) -> None:
    """Refuse rows that the matrices cannot take.

    Raises ShapeMismatch if they are missing or of another width or type, CodeRefused
    if block coding cannot have produced them, FormatUnsupported.
    """
    check_input(rows)
    if rows.coded is not None:
        check_coded(rows.coded)
    for matrix in matrices:
        width = matrix.n_cols
        if is_integer(matrix.format):
            if rows.coded is None or rows.coded.codes.shape[1] != width:
                raise ShapeMismatch(f"no coded rows of {width} values to multiply")
        elif rows.floats is None or rows.floats.shape[1] != width:
            raise ShapeMismatch(f"no float rows of {width} values to multiply")


def part_of(rows: ExpertInput, part: slice) -> ExpertInput:
    """Return some of the rows, without a copy."""
    coded, floats = rows.coded, rows.floats
    return ExpertInput(
        coded=None
        if coded is None
        else CodedRows(codes=coded.codes[part], scales=coded.scales[part]),
        floats=None if floats is None else floats[part],
    )


def product_rows(matrices: Sequence[Matrix]) -> int:
    """Return how many rows fit into one program of `multiply_rows`."""
    n_cols = max(matrix.n_cols for matrix in matrices)
    width = sum(matrix.n_rows for matrix in matrices)
    row_bytes = _INPUT_BYTES * n_cols + 4 * width
    return max(1, (VALUES_BYTES - _SPARE_BYTES) // row_bytes)


def multiply_rows(
    program: Program, matrices: Sequence[Matrix], rows: ExpertInput
) -> Floats:
    """Return the products side by side, a view of the memory: f32 [n, sum n_rows]."""
    n, width = rows.n_rows, sum(matrix.n_rows for matrix in matrices)
    places = _put_rows(program, matrices, rows)
    y = program.place(4 * n * width)
    column = 0
    for matrix in matrices:
        x = places[is_integer(matrix.format)]
        program.multiply(matrix, (x, n), (y + 4 * column, width))
        column += matrix.n_rows
    program.run()
    return program.view(y, 4 * n * width).view(np.float32).reshape(n, width)


def expert_rows(weights: ExpertWeights) -> int:
    """Return how many rows fit into one program of `run_expert`."""
    n_embd, n_ff = weights.gate.n_cols, weights.gate.n_rows
    biases = 4 * (n_embd + 2 * n_ff)
    # the input, y and its coded form; g and u, h coded and ready
    row_bytes = (_INPUT_BYTES + 8) * n_embd + 13 * n_ff
    return max(1, (VALUES_BYTES - _SPARE_BYTES - biases) // row_bytes)


def run_expert(
    program: Program, weights: ExpertWeights, rows: ExpertInput, profile: Profile
) -> bytes:
    """Run rows through an expert; coded results. Specification 02, "The expert"."""
    gate, up, down = weights.gate, weights.up, weights.down
    n, n_ff, n_embd = rows.n_rows, gate.n_rows, down.n_rows
    x = _put_rows(program, (gate, up), rows)
    g = program.place(8 * n * n_ff)
    u = g + 4 * n * n_ff
    _product(program, gate, weights.gate_bias, (x[is_integer(gate.format)], n), g)
    _product(program, up, weights.up_bias, (x[is_integer(up.format)], n), u)
    program.add(steps.check(g, 2 * n * n_ff))
    program.add(steps.activate(weights.activation, g, u, n * n_ff, g))
    h = g
    if is_integer(down.format):
        coded = program.place(n * result_row_bytes(Profile.R8, n_ff))
        program.add(steps.code(h, n, n_ff, ACTIVATION_Q, coded))
        h = program.make_ready(coded, n, n_ff)
    y = program.place(4 * n * n_embd)
    _product(program, down, weights.down_bias, (h, n), y)
    return _coded_results(program, y, (n, n_embd), profile)


def _coded_results(
    program: Program, y: int, shape: tuple[int, int], profile: Profile
) -> bytes:
    """Code the values at `y` f32 [n, n_embd] by the profile, and run what is noted."""
    n, n_embd = shape
    if profile is Profile.R32:
        program.add(steps.check(y, n * n_embd))
        program.run()
        return program.view(y, 4 * n * n_embd).tobytes()
    n_bytes = n * result_row_bytes(profile, n_embd)
    place = program.place(n_bytes)
    program.add(steps.code(y, n, n_embd, _RESULT_Q[profile], place))
    program.run()
    coded = program.view(place, n_bytes)
    scales = coded.reshape(n, -1)[:, -(n_embd // 8) :]
    check_decodable(np.ascontiguousarray(scales).view(np.float32), profile)
    return coded.tobytes()


def _put_rows(
    program: Program, matrices: Sequence[Matrix], rows: ExpertInput
) -> dict[bool, int]:
    """Copy what the matrices read; return the addresses by `is_integer`."""
    places = {}
    kinds = {is_integer(matrix.format) for matrix in matrices}
    if True in kinds and rows.coded is not None:
        places[True] = program.put_coded(rows.coded)
    if False in kinds and rows.floats is not None:
        places[False] = program.put(rows.floats)
    return places


def _product(
    program: Program,
    matrix: Matrix,
    bias: Floats | None,
    rows: tuple[int, int],
    y: int,
) -> None:
    """Multiply rows (address, number) with a matrix and add the bias, into `y`."""
    width = matrix.n_rows
    program.multiply(matrix, rows, (y, width))
    if bias is not None:
        program.add(steps.add_bias(program.put(bias), width, y, rows[1], width))
