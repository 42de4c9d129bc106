"""What experts that are not at hand would about add to a layer: learned from passes.

A self-draft cannot ask them, but passes that did have seen their results. By layer, a
linear regression with a ridge says from a row's hidden state and its routing what all
absent experts together add:

    sum of w_e y_e(h)  ~  sum of w_e b_e + w (C P h + c)      with w = sum of w_e

with one b_e an expert, and C behind a fixed projection P to at most `RANK` dimensions.
Rows that later text is unlike fade (half-life `HALF_LIFE_ROWS`). How far it is to be
trusted is measured on each new row before that is learned: the answer is scaled down by
it, to nothing at first. It is for drafts alone, so what it says can cost time and never
a token; rows whose values are not finite or overflow are left out.

Learning sums rows up, in microseconds, and solves only where `settle` is called: a
drafter does, while nobody waits for an answer, for one layer at a time.

For any thread. Memory is taken once, when a layer is first taught: see `n_bytes`.
"""

import threading
from collections.abc import Collection, Container, Mapping
from typing import Final, Self

import numpy as np
import numpy.typing as npt

from mobile_worker.arithmetic.coding import Floats
from p2pmoe.model.experts import Routing

__all__ = ["HALF_LIFE_ROWS", "PART", "RANK", "StandIn", "StandIns"]

RANK: Final = 128
HALF_LIFE_ROWS: Final = 8192
PART: Final = 0.8  # of it; substitutes, which a draft computes beside, add the rest
_TRUST_ROWS: Final = 512  # half-life of how good it was of late
_AT_ONCE: Final = 64  # rows that are gathered before they are learned
_SOLVE_ROWS: Final = 128  # and, at least, between two solutions
_SOLVE_SHARE: Final = 8  # or this part of what was learned, if that is more
_RIDGE_EXPERT: Final = 10.0  # rows of average features, for each expert's own part
_RIDGE_HIDDEN: Final = 128.0  # and for what hidden states tell
_LARGEST: Final = np.float32(1e6)

F64 = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]


class StandIns:
    """One `StandIn` a layer, made when it is first taught."""

    def __init__(self, n_expert: int, n_embd: int, *, rank: int = RANK) -> None:
        """Begin without any."""
        self._sizes = n_expert, n_embd, min(rank, n_embd)
        self._layers: dict[int, StandIn] = {}
        self._lock = threading.Lock()

    @classmethod
    def within(
        cls, n_expert: int, n_embd: int, n_layers: int, most_bytes: int
    ) -> Self | None:
        """Return those of the largest rank that take no more; None if none fit."""
        for rank in (RANK, RANK // 2, RANK // 4, RANK // 8):
            if n_layers * cls.bytes_per_layer(n_expert, n_embd, rank) <= most_bytes:
                return cls(n_expert, n_embd, rank=rank)
        return None

    def settle(self) -> None:
        """Solve for what one layer learned, where that is due; some milliseconds."""
        for layer in list(self._layers.values()):
            if layer.settle():
                return

    @property
    def n_bytes(self) -> int:
        """Memory taken so far."""
        return sum(layer.n_bytes for layer in self._layers.values())

    @staticmethod
    def bytes_per_layer(n_expert: int, n_embd: int, rank: int = RANK) -> int:
        """Return what a layer takes, in bytes."""
        rank = min(rank, n_embd)
        n = n_expert + rank + 1
        projection = 0 if rank == n_embd else rank * n_embd
        return 8 * n * n + 4 * (2 * n * n_embd + projection)

    def layer(self, layer: int) -> "StandIn | None":
        """Return a layer's, None if nothing was learned of it yet."""
        return self._layers.get(layer)

    def teach(self, layer: int, hidden: Floats, absent: Floats, added: Floats) -> None:
        """Take in rows that asked absent experts.

        `hidden` [n, n_embd] is the layer's input, `absent` [n, n_expert] the weights of
        the experts that are not at hand, 0 for all others, `added` [n, n_embd] what
        those added.
        """
        own = self._layers.get(layer)
        if own is None:
            with self._lock:
                own = self._layers.setdefault(layer, StandIn(*self._sizes))
        own.teach(hidden, absent, added)

    def teach_from(
        self,
        layer: int,
        hidden: Floats,
        routing: Routing,
        outputs: Mapping[int, tuple[Indices, Floats]],
        at_hand: Container[int],
    ) -> None:
        """Take in a layer's results: by expert its rows [m] and values [m, n_embd]."""
        absent = np.zeros((len(hidden), self._sizes[0]), np.float32)
        added = np.zeros_like(hidden)
        for expert, (rows, values) in outputs.items():
            if expert in at_hand:
                continue
            slots = (routing.experts[rows] == expert).argmax(axis=1)
            weights = routing.weights[rows, slots]
            absent[rows, expert] = weights
            added[rows] += weights[:, None] * values
        self.teach(layer, hidden, absent, added)

    def teach_values(
        self,
        layer: int,
        hidden: Floats,
        routing: Routing,
        values: Floats,
        at_hand: Collection[int],
    ) -> None:
        """Take in a layer's results: `values` [n, top_k, n_embd] in routing's order."""
        is_here = np.zeros(self._sizes[0], np.bool_)
        is_here[list(at_hand)] = True
        away = ~is_here[routing.experts]
        if not away.any():
            return
        weights = np.where(away, routing.weights, np.float32(0.0))
        absent = np.zeros((len(hidden), self._sizes[0]), np.float32)
        np.put_along_axis(absent, routing.experts, weights, axis=1)
        added = np.matmul(weights[:, None, :], values)[:, 0]
        self.teach(layer, hidden, absent, added)


class StandIn:
    """The regression of one layer."""

    def __init__(self, n_expert: int, n_embd: int, rank: int) -> None:
        """Begin without a row; `rank` <= `n_embd` dimensions of the hidden state."""
        n = n_expert + rank + 1
        self._n_expert = n_expert
        self._projection: Floats | None = None
        if rank < n_embd:
            drawn = np.random.default_rng(n_embd).standard_normal((n_embd, rank))
            self._projection = (drawn / np.sqrt(rank)).astype(np.float32)
        self._products: F64 = np.zeros((n, n))
        self._answers: Floats = np.zeros((n, n_embd), np.float32)
        self._solution: Floats | None = None
        self._n_rows = 0.0  # learned, decayed
        self._n_unsolved = 0
        self._agreement = self._square = 0.0
        self._trust = np.float32(0.0)
        self._rows: list[tuple[Floats, Floats]] = []
        self._n_gathered = 0
        self._lock = threading.Lock()

    @property
    def n_bytes(self) -> int:
        """Memory taken, with a solution."""
        own = 0 if self._projection is None else self._projection.nbytes
        return own + self._products.nbytes + 2 * self._answers.nbytes

    @property
    def trust(self) -> float:
        """By how much answers are scaled, 0 to 1."""
        return float(self._trust)

    def add(self, hidden: Floats, absent: Floats) -> Floats | None:
        """Return what absent experts about add, f32 [n, n_embd]; None: no idea."""
        solution, trust = self._solution, self._trust
        if solution is None or trust <= 0.0:
            return None
        added: Floats = (self._features(hidden, absent) @ solution) * (PART * trust)
        return added

    def teach(self, hidden: Floats, absent: Floats, added: Floats) -> None:
        """Gather rows, and learn once there are enough; see `StandIns.teach`."""
        use = absent.any(axis=1) & (np.abs(absent) < _LARGEST).all(axis=1)
        use &= (np.abs(added) < _LARGEST).all(axis=1)  # not if it is no number
        use &= (np.abs(hidden) < _LARGEST).all(axis=1)
        if not use.any():
            return
        features = self._features(hidden[use], absent[use])
        with self._lock:
            self._rows.append((features, added[use]))
            self._n_gathered += len(features)
            if self._n_gathered >= _AT_ONCE:
                self._learn()

    def _features(self, hidden: Floats, absent: Floats) -> Floats:
        kept = hidden if self._projection is None else hidden @ self._projection
        total = absent.sum(axis=1, keepdims=True)
        return np.concatenate([absent, total * kept, total], axis=1)

    def _learn(self) -> None:
        features = np.concatenate([rows for rows, _ in self._rows])
        added = np.concatenate([values for _, values in self._rows])
        n = self._n_gathered
        self._rows, self._n_gathered = [], 0
        self._judge(features, added)
        keeps = 0.5 ** (n / HALF_LIFE_ROWS)
        self._products *= keeps
        self._answers *= np.float32(keeps)
        self._products += features.T.astype(np.float64) @ features
        self._answers += features.T @ added
        self._n_rows = self._n_rows * keeps + n
        self._n_unsolved += n

    def settle(self) -> bool:
        """Solve for what was learned, if that is enough; say whether it was.

        Some milliseconds: not to be done where answers of workers are waited for.
        """
        if self._n_unsolved < max(_SOLVE_ROWS, self._n_rows / _SOLVE_SHARE):
            return False
        with self._lock:
            self._solve()
        return True

    def _judge(self, features: Floats, added: Floats) -> None:
        """Compare what would have been said of these rows with what came true."""
        if self._solution is None:
            return
        guess = features @ self._solution
        keeps = 0.5 ** (len(features) / _TRUST_ROWS)
        agreement = float(np.vdot(guess, added)) + keeps * self._agreement
        square = float(np.vdot(guess, guess)) + keeps * self._square
        if not np.isfinite(agreement + square):
            agreement = square = 0.0
        self._agreement, self._square = agreement, square
        share = agreement / square if square > 0.0 else 0.0
        self._trust = np.float32(min(1.0, max(0.0, share)))

    def _solve(self) -> None:
        n, diagonal = self._n_expert, np.diagonal(self._products)
        ridge = np.empty(len(diagonal))
        ridge[:n] = _RIDGE_EXPERT * float(diagonal[:n].sum()) / self._n_rows
        ridge[n:] = _RIDGE_HIDDEN * float(diagonal[n:].mean()) / self._n_rows
        try:
            solution = np.linalg.solve(
                self._products + np.diag(ridge), self._answers.astype(np.float64)
            )
        except np.linalg.LinAlgError:
            self._n_unsolved = 0
            return
        if np.isfinite(solution).all():
            self._solution = solution.astype(np.float32)
        self._n_unsolved = 0
