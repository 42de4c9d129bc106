"""The backbone's own operations in C: the Python face of `_rows`.

The same functions as numpy's in p2pmoe/model, for one instruction set, with the same
bytes: norm, rotary, attention, the router's products and choice, the mix of expert
results (specification 02, "The backbone's own operations"). The extension is optional:
where it was not built, `row_sets` is empty. It checks every array's type, shape and
contiguity, releases the GIL, and sets the float mode; here results are made and slices
are made contiguous.
"""

import importlib
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from mobile_worker.arithmetic.coding import Floats
from mobile_worker.arithmetic.errors import KernelUnavailable
from mobile_worker.arithmetic.native.extension import BUILD_AGAIN

__all__ = ["AttentionRule", "ChoiceRule", "NativeRows", "row_sets"]

_MODULE: Final = "mobile_worker.arithmetic.native._rows"
_SIGMOID: Final = 2  # GGUF's expert_gating_func; 1 is softmax
_WORTH_A_THREAD: Final = 1 << 20  # multiply-adds of scores, some 0.1 ms with values
_contiguous = np.ascontiguousarray


class AttentionRule(Protocol):
    """How scores become weights, as `NativeRows.attend` reads it."""

    @property
    def scale(self) -> float:
        """What a dot product is multiplied with."""
        ...

    @property
    def window(self) -> int | None:
        """Positions that a row sees, itself included; None for all."""
        ...

    @property
    def soft_cap(self) -> float | None:
        """What scores are drawn below."""
        ...

    @property
    def sinks(self) -> Floats | None:
        """One more logit a head, without a value; [n_kv_heads, group]."""
        ...


class ChoiceRule(Protocol):
    """How experts are chosen and weighed, as `NativeRows.choose` reads it."""

    @property
    def score_function(self) -> int:
        """1 for softmax, 2 for sigmoid."""
        ...

    @property
    def top_k(self) -> int:
        """Experts a row."""
        ...

    @property
    def norm(self) -> bool:
        """Whether the chosen scores are divided by their sum."""
        ...

    @property
    def scale(self) -> float:
        """What the weights are multiplied with."""
        ...


def row_sets() -> Mapping[str, int]:
    """Return the instruction sets that run here with their numbers, the best last."""
    try:
        extension = importlib.import_module(_MODULE)
    except ImportError:  # no compiler at the install, or another platform's file
        return {}
    sets: dict[str, int] = extension.sets()
    return sets


class NativeRows:
    """The operations on one instruction set; stateless, safe to use from threads.

    Arrays are f32 unless stated. Wrong shapes are a ValueError, wrong types a
    TypeError.
    """

    def __init__(self, instruction_set: str, *, n_threads: int = 1) -> None:
        """Use `instruction_set`, one of `row_sets`; KernelUnavailable.

        Attention over many positions is spread over `n_threads`.
        """
        sets = row_sets()
        if instruction_set not in sets:
            raise KernelUnavailable(
                f"no native row operations for {instruction_set[:40]!r} here",
                advice=f"install a C compiler, then {BUILD_AGAIN}",
            )
        self.name = f"native/{instruction_set}"
        self._rows = importlib.import_module(_MODULE)
        self._set = sets[instruction_set]
        self._n_threads = max(1, n_threads)
        self._pool = (
            ThreadPoolExecutor(self._n_threads - 1, thread_name_prefix="rows")
            if self._n_threads > 1
            else None
        )

    def rms_norm(self, x: Floats, weight: Floats, eps: np.float32) -> Floats:
        """Return the normed rows of `x` [..., n].

        Row r takes row r modulo k of `weight` [k, n] or [n].
        """
        x = _contiguous(x)
        y = np.empty_like(x)
        self._rows.rms_norm(self._set, x, weight, float(eps), y)
        return y

    def turn(
        self, heads: Floats, cosines: Floats, sines: Floats, interleaved: bool
    ) -> None:
        """Turn contiguous `heads` [n, n_heads, head_dim] in place; tables [n, half].

        Pairs are neighbours if `interleaved`, else half apart.
        """
        self._rows.turn(self._set, heads, cosines, sines)

    def attend(
        self,
        queries: Floats,
        keys: Floats,
        values: Floats,
        first: int,
        rule: AttentionRule,
        seen: npt.NDArray[np.bool_] | None,
    ) -> Floats:
        """Attend causally; returns [n, n_kv_heads, group, value_dim].

        `queries` [n, n_kv_heads, group, head_dim], `keys` [n_kv_heads, head_dim,
        >= first + n], `values` [>= first + n, n_kv_heads, value_dim], `seen` bool
        [n, n_kv_heads, first + n] or None. Row i is position first + i.
        """
        result = np.empty((*queries.shape[:3], values.shape[2]), np.float32)
        if seen is not None:
            seen = _contiguous(seen)
        queries = _contiguous(queries)
        whole = (self._set, queries, keys, values, first, seen, rule.scale, result)
        self._each_part(partial(self._rows.attend, *whole), queries, first)
        return result

    def _each_part(
        self, attend: Callable[..., None], queries: Floats, first: int
    ) -> None:
        """Call `attend` with row_begin, row_end, kv_begin, kv_end of every part."""
        n, n_kv = queries.shape[:2]
        work = queries.size * (first + n)
        n_parts = min(self._n_threads, work // _WORTH_A_THREAD)
        if self._pool is None or n_parts < 2:
            attend(0, n, 0, n_kv)
            return
        by_row = n >= n_parts
        steps = range(min(n_parts, n if by_row else n_kv) + 1)
        cuts = [(n if by_row else n_kv) * step // steps[-1] for step in steps]
        parts = [(*cut, 0, n_kv) if by_row else (0, n, *cut) for cut in pairwise(cuts)]
        others = [self._pool.submit(attend, *part) for part in parts[1:]]
        try:
            attend(*parts[0])
        finally:
            for other in others:
                other.exception()  # none is left writing into our arrays
        for other in others:
            other.result()

    def dot_scores(self, queries: Floats, keys: Floats, n_keys: int) -> Floats:
        """Return the dot products with the first keys [n, n_kv_heads, group, n_keys].

        `queries` [n, n_kv_heads, group, head_dim], `keys` [n_kv_heads, head_dim,
        >= n_keys].
        """
        scores = np.empty((*queries.shape[:3], n_keys), np.float32)
        self._rows.dot_scores(self._set, _contiguous(queries), keys, scores)
        return scores

    def lane_product(self, weight: Floats) -> Callable[[Floats], Floats]:
        """Return x [n, n_cols] -> x times `weight`^T, `weight` [n_rows, n_cols]."""
        weight = _contiguous(weight)

        def product(x: Floats) -> Floats:
            result = np.empty((len(x), len(weight)), np.float32)
            self._rows.lane_product(self._set, weight, _contiguous(x), result)
            return result

        return product

    def choose(
        self, logits: Floats, bias: Floats | None, rule: ChoiceRule
    ) -> tuple[npt.NDArray[np.int64], Floats]:
        """Return the experts of each row, ascending, and their weights [n, top_k].

        `logits` [n, n_expert], `bias` [n_expert] for choosing only.
        """
        experts = np.empty((len(logits), rule.top_k), np.int64)
        weights = np.empty(experts.shape, np.float32)
        sigmoid = rule.score_function == _SIGMOID
        self._rows.choose(
            self._set, logits, bias, sigmoid, rule.norm, rule.scale, experts, weights
        )
        return experts, weights

    def weighted_sum(self, values: Floats, weights: Floats) -> Floats:
        """Return the sums over slots ascending [n, n_embd].

        `values` [n, top_k, n_embd], `weights` [n, top_k].
        """
        result = np.empty((values.shape[0], values.shape[2]), np.float32)
        self._rows.weighted_sum(
            self._set, _contiguous(values), _contiguous(weights), result
        )
        return result
