"""Which row operations belong to a kernel, and whether the native ones are right.

A native kernel brings native operations of its own instruction set, every other kernel
numpy's; so P2PMOE_KERNEL chooses both. Native ones are held against numpy's on fixed
rows before they are first used (some milliseconds): where one bit differs, as from a
compiler that fuses a product and a sum, or where they were not built, numpy's serve.
"""

import functools
import logging
from collections.abc import Callable
from itertools import product
from typing import Final

import numpy as np

from mobile_worker.arithmetic.coding import Floats
from mobile_worker.arithmetic.errors import KernelUnavailable
from mobile_worker.arithmetic.kernel import Kernel
from mobile_worker.arithmetic.native.native_kernel import NativeKernel
from mobile_worker.arithmetic.native.rows import NativeRows
from mobile_worker.arithmetic.self_test import fixed_rows
from p2pmoe.model.attention import AttentionRule
from p2pmoe.model.choice import RouterSettings, ScoreFunction
from p2pmoe.model.row_operations import NUMPY_OPERATIONS, RowOperations

__all__ = ["first_difference", "operations_for"]

log = logging.getLogger("p2pmoe.model")

_EPS: Final = np.float32(1e-6)


def operations_for(kernel: Kernel) -> RowOperations:
    """Return what belongs to a kernel, the same object for equal kernels."""
    if not isinstance(kernel, NativeKernel):
        return NUMPY_OPERATIONS
    return _native(kernel.isa, kernel.n_threads)


@functools.cache
def _native(instruction_set: str, n_threads: int) -> RowOperations:
    try:
        own = NativeRows(instruction_set, n_threads=n_threads)
    except (KernelUnavailable, AttributeError) as error:  # the latter: a stale build
        log.warning("%s; numpy computes attention and norms", error)
        return NUMPY_OPERATIONS
    differs = first_difference(own)
    if differs is None:
        return own
    log.warning(
        "%s of %s gives other bytes than the specification; numpy computes it",
        differs,
        own.name,
    )
    return NUMPY_OPERATIONS


def first_difference(own: RowOperations) -> str | None:
    """Return the first operation that is not numpy's to the bit; None if all are."""
    for name, run in _TRIALS.items():
        try:
            if run(own) != run(NUMPY_OPERATIONS):
                return name
        except (
            AttributeError,
            TypeError,
            ValueError,
        ):  # an extension of another version
            return name
    return None


def _made(name: str, *shape: int) -> Floats:
    rows = fixed_rows(name, int(np.prod(shape[:-1])), shape[-1])
    return np.ascontiguousarray(rows.reshape(shape))


def _rms_norm(own: RowOperations) -> bytes:
    return own.rms_norm(_made("x", 2, 3, 40), _made("w", 3, 40), _EPS).tobytes()


def _turn(own: RowOperations) -> bytes:
    heads = _made("h", 2, 3, 48)
    own.turn(heads, _made("c", 2, 20), _made("s", 2, 20), False)
    own.turn(heads, _made("d", 2, 22), _made("t", 2, 22), True)
    return heads.tobytes()


def _attend(own: RowOperations) -> bytes:
    n, first = 3, 270
    queries, keys = _made("q", n, 2, 3, 40), _made("k", 2, 40, first + n)
    values = _made("v", first + n, 2, 24)
    seen = _made("m", n, 2, first + n) > 0
    seen[:, :, first:] = True
    sinks = _made("o", 2, 3)
    rules = (
        AttentionRule(scale=0.16),
        AttentionRule(scale=0.16, window=130, sinks=sinks),
        AttentionRule(scale=0.5, soft_cap=30.0),
    )
    return b"".join(
        own.attend(queries, keys, values, first, rule, mask).tobytes()
        for rule in rules
        for mask in (None, seen)
    )


def _attend_runs(own: RowOperations) -> bytes:
    rule = AttentionRule(scale=0.16, window=4)
    places = [(_made("k", 2, 40, 9), _made("v", 9, 2, 24)) for _ in range(2)]
    seen = _made("m", 1, 2, 9) > 0
    seen[:, :, 8] = True
    runs = ((*places[0], 0, 2, None), (*places[1], 8, 1, seen))
    new_keys, new_values = _made("i", 3, 2, 40), _made("j", 3, 2, 24)
    mixed = own.attend_runs(_made("q", 3, 2, 3, 40), new_keys, new_values, runs, rule)
    kept = (part.tobytes() for place in places for part in place)
    return b"".join((mixed.tobytes(), *kept))


def _dot_scores(own: RowOperations) -> bytes:
    return own.dot_scores(
        _made("q", 2, 2, 2, 24), _made("k", 2, 24, 150), 149
    ).tobytes()


def _lane_product(own: RowOperations) -> bytes:
    return own.lane_product(_made("w", 7, 64))(_made("x", 2, 64)).tobytes()


def _choose(own: RowOperations) -> bytes:
    chosen = []
    for function, groups in product(ScoreFunction, ((1, 1), (4, 2))):
        rule = RouterSettings(
            score_function=function,
            top_k=5,
            norm=True,
            scale=2.5,
            n_groups=groups[0],
            n_groups_used=groups[1],
        )
        experts, weights = own.choose(_made("l", 4, 36), _made("b", 1, 36)[0], rule)
        chosen.append(experts.tobytes() + weights.tobytes())
    return b"".join(chosen)


def _weighted_sum(own: RowOperations) -> bytes:
    return own.weighted_sum(_made("y", 2, 6, 72), _made("w", 2, 6)).tobytes()


_TRIALS: Final[dict[str, Callable[[RowOperations], bytes]]] = {
    "rms_norm": _rms_norm,
    "turn": _turn,
    "attend": _attend,
    "attend_runs": _attend_runs,
    "dot_scores": _dot_scores,
    "lane_product": _lane_product,
    "choose": _choose,
    "weighted_sum": _weighted_sum,
}
