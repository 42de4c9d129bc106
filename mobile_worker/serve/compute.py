"""One dispatch through the kernel: results in order, and the hashes of each call.

Runs in a worker thread; holds no session and touches nothing shared but the kernel.
Rows from outside are checked against what the block coding can produce before any
arithmetic; a non-finite value anywhere ends the whole dispatch.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mobile_worker.arithmetic.coding import CodedRows, ExpertInput, check_coded
from mobile_worker.arithmetic.errors import ArithmeticRefused, NonFinite
from mobile_worker.arithmetic.kernel import Kernel, KernelCall
from mobile_worker.arithmetic.matrix import ExpertWeights
from mobile_worker.arithmetic.profiles import Profile
from mobile_worker.messages.serving import Dispatch, OutputError
from mobile_worker.servings.hashes import out_hash, x_hash
from mobile_worker.servings.tab import CallHashes

__all__ = ["Computed", "call_hashes", "compute", "input_of"]

_I8 = np.dtype(np.int8)
_F32 = np.dtype("<f4")


@dataclass(frozen=True, slots=True, kw_only=True)
class Computed:
    """The outcome of a dispatch; without an error, the results and their hashes."""

    error: OutputError = OutputError.OK
    reason: str = ""
    results: bytes = b""
    n_rows: int = 0
    hashes: tuple[CallHashes, ...] = ()
    compute_us: int = 0


def input_of(dispatch: Dispatch) -> ExpertInput:
    """Return the rows of a dispatch as arrays over its own bytes.

    Raises:
        CodeRefused: a code or a scale that the block coding cannot produce.
    """
    shape = (dispatch.n_rows, dispatch.n_embd)
    coded = floats = None
    if dispatch.coded is not None:
        coded = CodedRows(
            codes=np.frombuffer(dispatch.coded.codes, _I8).reshape(shape),
            scales=np.frombuffer(dispatch.coded.scales, _F32).reshape(shape[0], -1),
        )
        check_coded(coded)
    if dispatch.floats is not None:
        floats = np.frombuffer(dispatch.floats, _F32).reshape(shape)
        if not np.isfinite(floats).all():
            raise NonFinite("a row of the dispatch is not finite")
    return ExpertInput(coded=coded, floats=floats)


def call_hashes(
    rows: ExpertInput,
    picked: Sequence[npt.NDArray[np.int64] | None],
    results: Sequence[bytes],
) -> tuple[CallHashes, ...]:
    """Return the hashes of calls, from the rows of each (None: all) and its results."""
    whole = x_hash(rows) if any(which is None for which in picked) else b""
    return tuple(
        CallHashes(
            x=whole if which is None else x_hash(rows.take(which)), out=out_hash(coded)
        )
        for which, coded in zip(picked, results, strict=True)
    )


def compute(
    kernel: Kernel, dispatch: Dispatch, weights: Sequence[ExpertWeights]
) -> Computed:
    """Compute all calls of a dispatch; `weights` are those of its calls, in order."""
    started = time.perf_counter_ns()
    try:
        rows = input_of(dispatch)
        picked = [
            None if len(call.rows) == dispatch.n_rows else np.array(call.rows, np.int64)
            for call in dispatch.calls
        ]
        results = kernel.experts(
            [
                KernelCall(weights=each, rows=which)
                for each, which in zip(weights, picked, strict=True)
            ],
            rows,
            Profile(dispatch.profile),
        )
    except NonFinite as error:
        return Computed(error=OutputError.ARITH, reason=str(error))
    except ArithmeticRefused as error:
        return Computed(error=OutputError.BAD_REQUEST, reason=str(error))
    hashes = call_hashes(rows, picked, results)
    return Computed(
        results=b"".join(results),
        n_rows=sum(len(call.rows) for call in dispatch.calls),
        hashes=hashes,
        compute_us=(time.perf_counter_ns() - started) // 1000,
    )
