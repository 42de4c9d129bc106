"""One wide expert over several threads, when there are no more rows or calls to cut.

A dense layer or a shared expert meets a single row in decoding; only its matrices can
be cut. The steps are those of `c/expert.c`, with the kernel's own products and numpy's
activation between: the same operations in the same order, so the same bytes.
"""

import numpy as np

from mobile_worker.arithmetic.activation import activate
from mobile_worker.arithmetic.coding import ExpertInput, Floats
from mobile_worker.arithmetic.errors import NonFinite
from mobile_worker.arithmetic.formats.codecs import is_integer
from mobile_worker.arithmetic.kernel import Kernel
from mobile_worker.arithmetic.matrix import ExpertWeights

__all__ = ["spread_expert"]


def spread_expert(kernel: Kernel, weights: ExpertWeights, rows: ExpertInput) -> Floats:
    """Return an expert's uncoded results, f32 [n, n_embd], by products alone.

    Raises NonFinite for a value that is not finite, ShapeMismatch, CodeRefused.
    """
    n_ff = weights.gate.n_rows
    both = kernel.matmul_stacked((weights.gate, weights.up), rows)
    g, u = both[:, :n_ff], both[:, n_ff:]
    with np.errstate(all="ignore"):
        _add(g, weights.gate_bias)
        _add(u, weights.up_bias)
        if not np.isfinite(both).all():
            raise NonFinite("an expert's gate or up value is not finite")
        h = activate(weights.activation, g, u)
        integer = is_integer(weights.down.format)
        coded = kernel.code_rows(h) if integer else None
        y = kernel.matmul(weights.down, ExpertInput(coded=coded, floats=h))
        _add(y, weights.down_bias)
    if not np.isfinite(y).all():
        raise NonFinite("an expert's result is not finite")
    return y


def _add(values: Floats, bias: Floats | None) -> None:
    if bias is not None:
        values += bias
