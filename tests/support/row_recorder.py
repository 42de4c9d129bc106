"""Numpy's row operations, each call kept as a case for the C driver with its results.

Looks like the operations themselves, so that `row_cases` draws the work. The layout and
the float mode change from call to call; no result depends on them.
"""

from itertools import cycle, product

import numpy as np

from p2pmoe.model.row_operations import NUMPY_OPERATIONS
from tests.support.kernel_checks import PADDING, Check, Layout
from tests.support.kernel_driver import Mode, Operation, float_bits

__all__ = ["RowRecorder"]


class RowRecorder:
    """The operations of `p2pmoe.model.row_operations`, written down."""

    def __init__(self) -> None:
        self.checks: list[Check] = []
        self._layouts = cycle(
            Layout(mode, odd) for mode, odd in product(Mode, (False, True))
        )

    def _keep(self, operation, numbers, places, *results) -> None:
        """Keep a check; `places` are arrays with the bytes that their types take."""
        layout = next(self._layouts)
        places = [layout.place(array, unit) for array, unit in places]
        case = layout.case(operation, tuple(map(int, numbers)), places)
        expected = b"".join(each.tobytes() for each in results)
        self.checks.append(Check(case, 0, expected))

    def attend(self, queries, keys, values, first, rule, seen):
        out = NUMPY_OPERATIONS.attend(queries, keys, values, first, rule, seen)
        n, n_heads = len(queries), queries.shape[1] * queries.shape[2]
        turn = len(self.checks)
        part = (0, n, 0, n_heads)  # rows and heads; now and then not all of them
        if turn % 3 == 2:
            part = (turn % n, n, *sorted((turn % n_heads, 5 * turn % (n_heads + 1))))
        rows, heads = slice(*part[:2]), slice(*part[2:])
        written = np.full((n, n_heads, 4 * out.shape[-1]), PADDING, np.uint8)
        floats = written.view("<f4")
        floats[rows, heads] = out.reshape(floats.shape)[rows, heads]
        places = ((queries, 4), (keys, 4), (values, 4), (seen, 1), (rule.sinks, 4))
        numbers = (
            *(*queries.shape, values.shape[2], keys.shape[2], first),
            *(rule.window or 0, float_bits(rule.scale), float_bits(rule.soft_cap or 0)),
            *(*part, 1 + turn % n, 1 + turn % 7, len(values)),
        )
        self._keep(Operation.ATTEND, numbers, places, written)
        return out

    def dot_scores(self, queries, keys, n_keys):
        out = NUMPY_OPERATIONS.dot_scores(queries, keys, n_keys)
        sizes = (*queries.shape, keys.shape[2], n_keys)
        self._keep(Operation.DOT_SCORES, sizes, ((queries, 4), (keys, 4)), out)
        return out

    def rms_norm(self, x, weight, eps):
        out = NUMPY_OPERATIONS.rms_norm(x, weight, eps)
        width = x.shape[-1]
        sizes = (x.size // width, weight.size // width, width, float_bits(float(eps)))
        self._keep(Operation.RMS_NORM, sizes, ((x, 4), (weight, 4)), out)
        return out

    def turn(self, heads, cosines, sines, interleaved) -> None:
        before = heads.copy()
        NUMPY_OPERATIONS.turn(heads, cosines, sines, interleaved)
        places = ((before, 4), (cosines, 4), (sines, 4))
        sizes = (*heads.shape, cosines.shape[1], interleaved)
        self._keep(Operation.TURN, sizes, places, heads)

    def lane_product(self, weight):
        own = NUMPY_OPERATIONS.lane_product(weight)

        def multiply(x):
            out = own(x)
            sizes = (len(x), *weight.shape)
            self._keep(Operation.LANE_PRODUCT, sizes, ((weight, 4), (x, 4)), out)
            return out

        return multiply

    def choose(self, logits, bias, rule):
        experts, weights = NUMPY_OPERATIONS.choose(logits, bias, rule)
        numbers = (
            *(*logits.shape, rule.top_k, float_bits(rule.scale)),
            *(rule.score_function, rule.norm, rule.n_groups, rule.n_groups_used),
        )
        places = ((logits, 4), (bias, 4))
        own = experts.astype(np.int64)
        self._keep(Operation.CHOOSE, numbers, places, own, weights)
        return experts, weights

    def weighted_sum(self, values, weights):
        out = NUMPY_OPERATIONS.weighted_sum(values, weights)
        places = ((values, 4), (weights, 4))
        self._keep(Operation.WEIGHTED_SUM, values.shape, places, out)
        return out
