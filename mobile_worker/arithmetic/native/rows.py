"""The backbone's own operations in C: the Python face of `_rows`.

The same functions as numpy's in p2pmoe/model, for one instruction set, with the same
bytes: norm, rotary, attention, the router's products and choice, the mix of expert
results (specification 02, "The backbone's own operations"). The extension is optional:
where it was not built, `row_sets` is empty. It checks every array's type, shape and
contiguity, releases the GIL, and sets the float mode; here results are made and slices
are made contiguous.
"""

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import accumulate, pairwise
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from mobile_worker.arithmetic.coding import Floats
from mobile_worker.arithmetic.errors import KernelUnavailable
from mobile_worker.arithmetic.native.extension import BUILD_AGAIN

__all__ = ["AttentionRule", "ChoiceRule", "NativeRows", "row_sets"]

_MODULE: Final = "mobile_worker.arithmetic.native._rows"
_WORTH_A_THREAD: Final = 1 << 20  # multiply-adds of scores, some 0.1 ms with values
_contiguous = np.ascontiguousarray

# A sequence's keys and values, its first row's position, how many rows, what they see.
Run = tuple[Floats, Floats, int, int, npt.NDArray[np.bool_] | None]


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
        """1 for softmax, 2 for sigmoid, 3 for softmax of the chosen."""
        ...

    @property
    def top_k(self) -> int:
        """Experts a row."""
        ...

    @property
    def n_groups(self) -> int:
        """Equal runs of experts; 1 for no groups."""
        ...

    @property
    def n_groups_used(self) -> int:
        """Groups of which experts may be chosen."""
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
        self._rows.turn(self._set, heads, cosines, sines, interleaved)

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
        sinks = None if rule.sinks is None else _contiguous(rule.sinks)
        figures = (rule.scale, rule.window or 0, rule.soft_cap or 0.0, sinks)
        result = np.empty((*queries.shape[:3], values.shape[2]), np.float32)
        if seen is not None:
            seen = _contiguous(seen)
        queries = _contiguous(queries)
        whole = (self._set, queries, keys, values, first, seen, *figures, result)
        n, n_kv, group = queries.shape[:3]
        n_seen = min(first + n, rule.window or first + n)
        n_parts = min(self._n_threads, queries.size * n_seen // _WORTH_A_THREAD)
        if self._pool is None or n_parts <= 1:
            self._rows.attend(*whole, 0, n, 0, n_kv * group)
        else:
            parts = list(_parts(queries.shape, n_parts))
            self._share(self._pool, partial(self._rows.attend, *whole), parts)
        return result

    @staticmethod
    def _share(
        pool: ThreadPoolExecutor,
        attend: Callable[..., None],
        parts: Sequence[tuple[Any, ...]],
    ) -> None:
        """Call `attend` with the arguments of every part."""
        others = [pool.submit(attend, *part) for part in parts[1:]]
        try:
            attend(*parts[0])
        finally:
            for other in others:
                other.exception()  # none is left writing into our arrays
        for other in others:
            other.result()

    def attend_runs(
        self,
        queries: Floats,
        new_keys: Floats,
        new_values: Floats,
        runs: Sequence[Run],
        rule: AttentionRule,
    ) -> Floats:
        """Keep the rows' keys and values, then `attend`, each run in its own cache.

        `queries` [n, n_kv_heads, group, head_dim], `new_keys` [n, n_kv_heads,
        head_dim], `new_values` [n, n_kv_heads, value_dim]; `runs` follow each other and
        have all rows.
        """
        if any(run[4] is not None for run in runs):
            runs = [
                (keys, values, first, n, None if seen is None else _contiguous(seen))
                for keys, values, first, n, seen in runs
            ]
        result = np.empty((*queries.shape[:3], new_values.shape[2]), np.float32)
        rows = (_contiguous(queries), _contiguous(new_keys), _contiguous(new_values))
        if self._pool is None:
            self._attend_some(rows, tuple(runs), rule, result)
            return result
        width = queries[0].size
        work = [
            n * min(first + n, rule.window or first + n) for *_, first, n, _ in runs
        ]
        n_parts = min(self._n_threads, sum(work) * width // _WORTH_A_THREAD)
        if n_parts <= 1:
            self._attend_some(rows, tuple(runs), rule, result)
        elif max(work) * n_parts > sum(work):  # one is so long that it is cut itself
            self._attend_each(rows, runs, rule, result)
        else:
            self._attend_shared(rows, runs, rule, result, n_parts)
        return result

    def _attend_some(
        self,
        rows: tuple[Floats, Floats, Floats],
        runs: tuple[Run, ...],
        rule: AttentionRule,
        result: Floats,
    ) -> None:
        sinks = None if rule.sinks is None else _contiguous(rule.sinks)
        figures = (rule.scale, rule.window or 0, rule.soft_cap or 0.0, sinks)
        self._rows.attend_runs(self._set, *rows, runs, *figures, result)

    def _attend_each(
        self,
        rows: tuple[Floats, Floats, Floats],
        runs: Sequence[Run],
        rule: AttentionRule,
        result: Floats,
    ) -> None:
        queries, new_keys, new_values = rows
        start = 0
        for keys, values, first, n, seen in runs:
            end = start + n
            keys[:, :, first : first + n] = new_keys[start:end].transpose(1, 2, 0)
            values[first : first + n] = new_values[start:end]
            own = queries[start:end]
            result[start:end] = self.attend(own, keys, values, first, rule, seen)
            start = end

    def _attend_shared(
        self,
        rows: tuple[Floats, Floats, Floats],
        runs: Sequence[Run],
        rule: AttentionRule,
        result: Floats,
        n_parts: int,
    ) -> None:
        """Give each thread as many of the runs."""
        ends = [0, *accumulate(n for *_, n, _ in runs)]
        cuts = [len(runs) * step // n_parts for step in range(n_parts + 1)]
        jobs = []
        for low, high in pairwise(cuts):
            own = slice(ends[low], ends[high])
            some = tuple([part[own] for part in rows])
            jobs.append((some, tuple(runs[low:high]), rule, result[own]))
        if self._pool is not None:
            self._share(self._pool, self._attend_some, jobs)

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
        scored = (int(rule.score_function), rule.norm, rule.scale)
        groups = (rule.n_groups, rule.n_groups_used)
        self._rows.choose(self._set, logits, bias, *scored, *groups, experts, weights)
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


def _parts(shape: tuple[int, ...], n_parts: int) -> Iterator[tuple[int, int, int, int]]:
    """Cut queries into row_begin, row_end, head_begin, head_end, at least once.

    Rows are cut where there are enough, else KV heads, else the queries of a KV head,
    whose keys are then read by each part.
    """
    n, n_kv, group = shape[:3]
    by_row, by_kv = n >= n_parts, n_kv >= n_parts
    n_cut, unit = (n, 1) if by_row else (n_kv, group) if by_kv else (n_kv * group, 1)
    n_parts = max(1, min(n_parts, n_cut))
    cuts = [n_cut * step // n_parts * unit for step in range(n_parts + 1)]
    for cut in pairwise(cuts):
        yield (*cut, 0, n_kv * group) if by_row else (0, n, *cut)
