"""What one step of a model runs: several sequences' next tokens, as one matrix of rows.

A `SequencePart` is a sequence's share: tokens at the end of its own cache. The rows of
all parts lie one behind another in the order of the parts; what works row by row works
on all of them at once, and attention takes each `Run` of rows with its own cache.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from mobile_worker.arithmetic.coding import Floats
from p2pmoe.model.attention import AttentionRun, Mask
from p2pmoe.model.errors import TokenRefused
from p2pmoe.model.kv_cache import KvCache, LayerCache
from p2pmoe.model.logits import Logits
from p2pmoe.model.rope import Rope

__all__ = ["Run", "SequencePart", "StepRows"]


@dataclass(frozen=True, slots=True)
class SequencePart:
    """Tokens of one sequence in a step, at the end of its cache."""

    tokens: Sequence[int]
    cache: KvCache
    logits: Logits = Logits.LAST


class Run(NamedTuple):
    """Rows start..end of a step: one sequence's, at positions first, first + 1, ..."""

    start: int
    end: int
    first: int

    @property
    def n_seen(self) -> int:
        """Positions up to and with the run's last row."""
        return self.first + self.end - self.start


class StepRows:
    """Which rows of a step belong together, and where in their sequences they are."""

    def __init__(self, runs: Sequence[Run]) -> None:
        """Take runs that follow each other from row 0 without a gap."""
        self.runs = tuple(runs)
        self.n = self.runs[-1].end
        self._positions: npt.NDArray[np.intp] | None = None
        self._tables: dict[int, tuple[Floats, Floats]] = {}  # by the Rope's id

    @classmethod
    def of(cls, parts: Sequence[SequencePart]) -> Self:
        """Return the rows of a step.

        Raises TokenRefused for no parts or one without tokens, CacheFull if tokens do
        not fit their cache, ValueError if two parts have the same.
        """
        if not parts:
            raise TokenRefused("a step of no sequences")
        if len({id(part.cache) for part in parts}) < len(parts):
            raise ValueError("a sequence is in a step twice")
        runs, start = [], 0
        for part in parts:
            n = len(part.tokens)
            if n == 0:
                raise TokenRefused("a step of no tokens")
            runs.append(Run(start, start + n, part.cache.reserve(n)))
            start += n
        return cls(runs)

    @classmethod
    def one(cls, first: int, n: int) -> Self:
        """Return n rows of a single sequence from position `first` on."""
        return cls((Run(0, n, first),))

    @property
    def positions(self) -> npt.NDArray[np.intp]:
        """Each row's position in its sequence, [n]."""
        if self._positions is None:
            spans = [np.arange(run.first, run.n_seen) for run in self.runs]
            self._positions = np.concatenate(spans)
        return self._positions

    def attention_runs(
        self, kept: Sequence[LayerCache], masks: Sequence[Mask | None] | None = None
    ) -> list[AttentionRun]:
        """Return the runs with a layer's caches, and what each sees; None: all."""
        masks = masks or [None] * len(kept)
        return [
            (cache.keys, cache.values, first, end - start, seen)
            for (start, end, first), cache, seen in zip(
                self.runs, kept, masks, strict=True
            )
        ]

    def tables(self, rope: Rope) -> tuple[Floats, Floats]:
        """Return the rows' cosines and sines, [n, half] each; made once a step."""
        tables = self._tables.get(id(rope))
        if tables is None:
            if len(self.runs) == 1:
                tables = rope.tables(self.runs[0].first, self.n)
            else:
                last = max(run.n_seen for run in self.runs)
                cosines, sines = rope.tables(0, last)
                tables = cosines[self.positions], sines[self.positions]
            self._tables[id(rope)] = tables
        return tables
