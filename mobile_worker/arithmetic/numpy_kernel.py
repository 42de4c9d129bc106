"""The reference kernel: specification 02 in numpy, written to be read.

Products are made in `block_product` (integer formats) and `lanes` (float formats).
Here they are put together to experts: gate and up side by side, the activation over
all experts of a call at one go, down, the biases, the profile's coding. Rows never
influence each other, and each output row of a matrix is on its own, so what is done
at one go is a matter of speed and memory alone.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from mobile_worker.arithmetic.activation import activate
from mobile_worker.arithmetic.block_product import (
    Upright,
    block_product,
    stand_up,
    upright,
)
from mobile_worker.arithmetic.coding import (
    ACTIVATION_Q,
    BLOCK,
    CodedRows,
    ExpertInput,
    Floats,
    block_codes,
    quantize_rows,
)
from mobile_worker.arithmetic.decoded import DecodedCache
from mobile_worker.arithmetic.errors import NonFinite, ShapeMismatch
from mobile_worker.arithmetic.formats.codecs import (
    block_layout,
    is_integer,
)
from mobile_worker.arithmetic.kernel import KernelCall
from mobile_worker.arithmetic.lanes import lane_matmul
from mobile_worker.arithmetic.matrix import ExpertWeights, Matrix
from mobile_worker.arithmetic.profiles import Profile, encode_result, round_result

__all__ = ["DEFAULT_DECODED_BYTES", "NumpyKernel"]

DEFAULT_DECODED_BYTES: Final = 256 << 20

_PORTION_VALUES: Final = 1 << 23  # of the hidden layer, held at once with its kin


@dataclass(frozen=True, slots=True, eq=False)
class _Job:
    """One expert with its rows."""

    weights: ExpertWeights
    rows: Upright


class NumpyKernel:
    """Exact products and experts in numpy; a `Kernel`."""

    def __init__(self, *, decoded_cache_bytes: int = DEFAULT_DECODED_BYTES) -> None:
        """Keep at most `decoded_cache_bytes` of unpacked weights."""
        self._decoded = DecodedCache(decoded_cache_bytes)

    @property
    def name(self) -> str:
        """Its name in tables and settings."""
        return "numpy"

    @property
    def decoded_bytes(self) -> int:
        """How much it may keep of unpacked weights."""
        return self._decoded.max_bytes

    def code_rows(self, x: Floats) -> CodedRows:
        """Code activations `x` f32 [n, n_cols], q = 127; NonFinite, ShapeMismatch."""
        return quantize_rows(x)

    def matmul(self, matrix: Matrix, rows: ExpertInput) -> Floats:
        """Return rows x matrix^T, f32 [n, matrix.n_rows]; ShapeMismatch."""
        return self.matmul_stacked((matrix,), rows)

    def matmul_stacked(self, matrices: Sequence[Matrix], rows: ExpertInput) -> Floats:
        """Return the products with several matrices side by side; ShapeMismatch."""
        with np.errstate(all="ignore"):
            return self._product(tuple(matrices), upright(rows))

    def expert(
        self, weights: ExpertWeights, rows: ExpertInput, profile: Profile
    ) -> bytes:
        """Run all rows through one expert; coded results. NonFinite, ShapeMismatch."""
        return self.experts((KernelCall(weights=weights),), rows, profile)[0]

    def experts(
        self, calls: Sequence[KernelCall], rows: ExpertInput, profile: Profile
    ) -> list[bytes]:
        """Run each call's rows through its expert; NonFinite, ShapeMismatch."""
        results: list[list[bytes]] = [[] for _ in calls]
        with np.errstate(all="ignore"):
            for portion in _portions(calls, rows.n_rows):
                outputs = self._run([call for _, call in portion], rows)
                for (at, _), y in zip(portion, outputs, strict=True):
                    results[at].append(encode_result(y, profile))
        return [b"".join(parts) for parts in results]

    def expert_values(
        self, calls: Sequence[KernelCall], rows: ExpertInput, profile: Profile
    ) -> list[Floats]:
        """Return the values of `experts` as they arrive elsewhere; NonFinite."""
        with np.errstate(all="ignore"):
            outputs = self._run(calls, rows)
            if len({y.shape[1] for y in outputs}) != 1:
                return [round_result(y, profile) for y in outputs]
            rounded = round_result(np.concatenate(outputs), profile)
        return np.split(rounded, np.cumsum([len(y) for y in outputs])[:-1])

    def feed_forward(self, weights: ExpertWeights, rows: ExpertInput) -> Floats:
        """Return an expert's uncoded results, f32 [n, n_embd]; NonFinite."""
        with np.errstate(all="ignore"):
            (y,) = self._run((KernelCall(weights=weights),), rows)
            return round_result(y, Profile.R32)

    def _run(self, calls: Sequence[KernelCall], rows: ExpertInput) -> list[Floats]:
        """Return each call's uncoded results."""
        columns = upright(rows)
        jobs = [_Job(call.weights, columns.take(call.rows)) for call in calls]
        shapes = {(j.weights.gate.n_rows, j.weights.activation) for j in jobs}
        if len(shapes) > 1:
            return [y for job in jobs for y in self._run_alike((job,))]
        return self._run_alike(jobs)

    def _run_alike(self, jobs: Sequence[_Job]) -> list[Floats]:
        """Run experts of one width and activation; what is element-wise at one go."""
        if not jobs:
            return []
        n_ff = jobs[0].weights.gate.n_rows
        gate_up = self._gate_up(jobs, n_ff)
        if not np.isfinite(gate_up).all():
            raise NonFinite("an expert's gate or up value is not finite")
        h = activate(jobs[0].weights.activation, gate_up[:, :n_ff], gate_up[:, n_ff:])
        return self._down(jobs, h)

    def _gate_up(self, jobs: Sequence[_Job], n_ff: int) -> Floats:
        """Return gate and up values side by side, f32 [all rows, 2 n_ff]."""
        gate_up = np.empty((sum(job.rows.n for job in jobs), 2 * n_ff), np.float32)
        first = 0
        for job in jobs:
            weights = job.weights
            own = gate_up[first : first + job.rows.n]
            own[:] = self._product((weights.gate, weights.up), job.rows)
            _add_bias(own[:, :n_ff], weights.gate_bias)
            _add_bias(own[:, n_ff:], weights.up_bias)
            first += job.rows.n
        return gate_up

    def _down(self, jobs: Sequence[_Job], h: Floats) -> list[Floats]:
        """Return each job's results of its rows of the hidden layer `h`."""
        codes = scales = None
        if any(is_integer(job.weights.down.format) for job in jobs):
            codes, scales = block_codes(h, ACTIVATION_Q)
        outputs = []
        first = 0
        for job in jobs:
            part = slice(first, first + job.rows.n)
            hidden = Upright(job.rows.n, None, None, h[part])
            if codes is not None and scales is not None:
                hidden = stand_up(codes[part], scales[part], h[part])
            y = self._product((job.weights.down,), hidden)
            _add_bias(y, job.weights.down_bias)
            outputs.append(y)
            first += job.rows.n
        return outputs

    def _product(self, matrices: tuple[Matrix, ...], x: Upright) -> Floats:
        """Return the stacked products, f32 [n, sum of n_rows]."""
        n_cols = matrices[0].n_cols
        if any(matrix.n_cols != n_cols for matrix in matrices):
            raise ShapeMismatch("stacked matrices differ in width")
        layout = block_layout(matrices[0].format)
        if any(block_layout(matrix.format) != layout for matrix in matrices[1:]):
            return np.hstack([self._product((matrix,), x) for matrix in matrices])
        if layout is not None:
            if x.codes is None or x.scales is None or len(x.codes) * BLOCK != n_cols:
                raise ShapeMismatch(f"no coded rows of {n_cols} values to multiply")
            return block_product(self._decoded.codes(matrices), x.codes, x.scales)
        floats = x.floats
        if floats is None or floats.shape[1] != n_cols:
            raise ShapeMismatch(f"no float rows of {n_cols} values to multiply")
        return lane_matmul(self._decoded.floats(matrices), floats)


def _portions(
    calls: Sequence[KernelCall], n_rows: int
) -> Iterator[list[tuple[int, KernelCall]]]:
    """Yield the calls in parts that are computed at one go, with their places.

    The values between the products take room by rows times experts times width, which
    may be far more than the rows and the results do.
    """
    portion: list[tuple[int, KernelCall]] = []
    room = _PORTION_VALUES
    for at, call in enumerate(calls):
        width = max(call.weights.gate.n_rows, call.weights.gate.n_cols)
        rows = np.arange(n_rows) if call.rows is None else call.rows
        if len(rows) * width <= room:
            portion.append((at, call))
            room -= len(rows) * width
            continue
        most = max(1, _PORTION_VALUES // width)
        for first in range(0, max(1, len(rows)), most):
            if portion:
                yield portion
            part = KernelCall(weights=call.weights, rows=rows[first : first + most])
            portion = [(at, part)]
            room = _PORTION_VALUES - min(most, len(rows) - first) * width
    yield portion


def _add_bias(y: Floats, bias: Floats | None) -> None:
    if bias is not None:
        y += bias
