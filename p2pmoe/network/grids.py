"""A model's experts as rows of text, one letter an expert, for the status page.

    copies  "a" none, "b" one live replica ... "z" 25 or more; upper case where the
            backbone has the expert in its own memory
    use     "0" not used of late, "1" a sixteenth of the mean or less, each step the
            double, "5" about the mean, "9" sixteen times the mean or more
    both    "." where the layer has no such expert

A row is a layer. Pure.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from mobile_worker.expert_id import ExpertId

__all__ = ["Grid"]

_NO_EXPERT: Final = "."
_MOST_COPIES: Final = 25
_UNUSED: Final = 0.06  # the share that the market spreads evenly is 0.05


class Grid:
    """Where each expert stands; made once for a model. `n_cells` includes the gaps."""

    def __init__(self, experts: Iterable[ExpertId]) -> None:
        rows: dict[int, list[ExpertId]] = {}
        for expert in experts:
            rows.setdefault(expert.layer, []).append(expert)
        self._rows = sorted(rows.items())
        last = (expert.index for row in rows.values() for expert in row)
        self.width = max(last, default=-1) + 1

    @property
    def layers(self) -> list[int]:
        """The layers that have experts, ascending."""
        return [layer for layer, _ in self._rows]

    @property
    def n_cells(self) -> int:
        """Letters in all rows together."""
        return self.width * len(self._rows)

    def copies(
        self, counts: Mapping[ExpertId, int], at_hand: Collection[ExpertId]
    ) -> list[str]:
        """Return live replicas, row by row."""

        def letter(expert: ExpertId) -> str:
            first = "A" if expert in at_hand else "a"
            return chr(ord(first) + min(counts.get(expert, 0), _MOST_COPIES))

        return [self._row(experts, letter) for _, experts in self._rows]

    def use(self, demand: Mapping[ExpertId, float]) -> list[str]:
        """Return how much each is used, in multiples of the mean, row by row."""

        def digit(expert: ExpertId) -> str:
            multiple = demand.get(expert, 0.0)
            if multiple <= _UNUSED:
                return "0"
            return str(min(9, max(1, 5 + round(math.log2(multiple)))))

        return [self._row(experts, digit) for _, experts in self._rows]

    def _row(
        self, experts: Iterable[ExpertId], letter: Callable[[ExpertId], str]
    ) -> str:
        row = [_NO_EXPERT] * self.width
        for expert in experts:
            row[expert.index] = letter(expert)
        return "".join(row)
