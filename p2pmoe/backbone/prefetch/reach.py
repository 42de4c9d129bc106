"""How much of a list of foreseen experts a layer turns out to need. Pure.

A list is ranked, the likeliest first. A layer costs no trip if all cold experts that
its rows need are among those fetched, so what counts is the rank of the last of them.
It grows with the list (more rows, more experts), so it is kept as a share of the
list's length: in 16 parts, beside the cases that nothing cold was needed and that
something was not on the list at all. Of late: older passes fade. Before the first
pass a layer is taken to need its whole list in four of five cases: so it is tried.
"""

from collections.abc import Collection, Sequence
from typing import Final

__all__ = ["Reach"]

_N_PARTS: Final = 16
_ALPHA: Final = 0.1
_NOTHING: Final = 0  # index: nothing cold was needed; 1 to 16: the parts
_MISSED: Final = _N_PARTS + 1
_FIRST_CHANCE: Final = 0.8


class Reach:
    """Shares of passes by layer; for one thread at a time."""

    def __init__(self) -> None:
        """Begin with nothing seen."""
        self._layers: dict[int, list[float]] = {}

    def saw(self, layer: int, foreseen: Sequence[int], cold: Collection[int]) -> None:
        """Take in what a layer needed, `cold`, of its list."""
        ranks = {expert: rank for rank, expert in enumerate(foreseen, start=1)}
        if not cold:
            at = _NOTHING
        elif all(expert in ranks for expert in cold):
            last = max(ranks[expert] for expert in cold)
            at = -(-last * _N_PARTS // len(foreseen))
        else:
            at = _MISSED
        shares = self._shares(layer)
        for part in range(len(shares)):
            shares[part] += _ALPHA * ((part == at) - shares[part])

    def within(self, layer: int, n: int) -> list[float]:
        """Return for the first 0 to n of a list of n the chance that they save a trip.

        That is: something cold is needed, and all of it is among them.
        """
        shares = self._shares(layer)
        found, chance, part = [0.0], 0.0, 0
        for rank in range(1, n + 1):
            until = rank * _N_PARTS // n
            while part < until:
                part += 1
                chance += shares[part]
            found.append(chance)
        return found

    def _shares(self, layer: int) -> list[float]:
        shares = self._layers.get(layer)
        if shares is None:
            shares = self._layers[layer] = [0.0] * (_N_PARTS + 2)
            shares[_N_PARTS] = _FIRST_CHANCE
            shares[_MISSED] = 1.0 - _FIRST_CHANCE
        return shares
