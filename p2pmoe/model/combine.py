"""Mix expert results into one row per token, in one fixed order.

Specification 02, "Combine": per token over its experts in ascending id,
acc = fl(acc + fl(weight_e * y_e)), starting at 0. Every (token, slot) of the routing
gets exactly one finite row, else the results are refused (fault B14): nothing is ever
padded, dropped or taken twice.
"""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from mobile_worker.arithmetic.coding import Floats
from p2pmoe.model.errors import CombineRefused
from p2pmoe.model.experts import Routing
from p2pmoe.model.row_operations import NUMPY_OPERATIONS, RowOperations

__all__ = ["Indices", "combine", "rows_by_expert"]

Indices = npt.NDArray[np.int64]


def rows_by_expert(routing: Routing) -> dict[int, Indices]:
    """Return for each expert that is needed, ascending, its token rows, ascending."""
    if len(routing.experts) == 1:
        only = np.zeros(1, np.int64)
        return dict.fromkeys(routing.experts[0].tolist(), only)
    return {
        int(expert): np.nonzero((routing.experts == expert).any(axis=1))[0]
        for expert in np.unique(routing.experts)
    }


def combine(
    routing: Routing,
    outputs: Mapping[int, tuple[Indices, Floats]],
    operations: RowOperations = NUMPY_OPERATIONS,
) -> Floats:
    """Return the weighted sums, f32 [n_tokens, n_embd].

    `outputs` maps an expert to its token rows [m] and results f32 [m, n_embd], in any
    order. Raises CombineRefused unless they are exactly those that `routing` asks for.
    """
    n, top_k = routing.experts.shape
    if not outputs:
        raise CombineRefused(f"no results for {n} tokens with {top_k} experts each")
    for expert, (rows, values) in outputs.items():
        if rows.ndim != 1 or values.ndim != 2 or len(rows) != len(values):
            raise CombineRefused(
                f"expert {expert} returned {len(values)} rows for {len(rows)}"
            )
    values = np.concatenate([part for _, part in outputs.values()])
    order = _order(routing, outputs)
    if order is not None:
        values = values[order]
    if not np.isfinite(values).all():
        raise CombineRefused("an expert's result is not finite")
    return operations.weighted_sum(values.reshape(n, top_k, -1), routing.weights)


def _order(
    routing: Routing, outputs: Mapping[int, tuple[Indices, Floats]]
) -> Indices | None:
    """Return the order in which results, end to end, are what the routing asks for.

    None if that is their own order. CombineRefused if no order is.
    """
    n, top_k = routing.experts.shape
    if n == 1 and list(outputs) == routing.experts[0].tolist():
        of_row_0 = [len(rows) == 1 and rows[0] == 0 for rows, _ in outputs.values()]
        if all(of_row_0):  # the common case of decoding, told quickly
            return None
    if min(outputs) < 0:
        raise CombineRefused(f"there is no expert {min(outputs)}")
    span = np.int64(1 + max(int(routing.experts.max(initial=0)), *outputs))
    asked = np.arange(n)[:, None] * span + routing.experts
    given = np.concatenate([rows * span + e for e, (rows, _) in outputs.items()])
    order = np.argsort(given, kind="stable")
    if not np.array_equal(given[order], asked.ravel()):
        raise CombineRefused(
            f"{len(given)} results are not one for each of {n} x {top_k} asked for"
        )
    return order
