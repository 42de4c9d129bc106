"""Demand for money: rows that were paid for, as the ledger tells them.

The ledger names rows of filed, doubly signed vouchers by span of time. It says each
span several times, since nothing acknowledges it; a span that begins before the end of
the last one counted is ignored, so nothing counts twice. Rows are added into a moving
sum that halves in 30 minutes.

Integers alone, in 1/256 of a row, so that a file keeps them exactly. Pure.
"""

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType

__all__ = ["HALF_LIFE_US", "MAX_ROWS", "MAX_TIME_US", "PaidDemand"]

HALF_LIFE_US = 1_800_000_000
MAX_ROWS = 1 << 40  # of one expert, in all: far above what is ever paid in an hour
MAX_TIME_US = 1 << 62
_UNIT = 256
_FADE_ONE = 1 << 32


class PaidDemand:
    """The paid rows of one model's experts; `version` counts changes."""

    def __init__(
        self, units: Mapping[int, int] | None = None, counted_to_us: int = 0
    ) -> None:
        """Go on with sums in 1/256 of a row, and the end of the last span counted."""
        self.version = 0
        self.counted_to_us = counted_to_us
        self._units = dict(units or {})
        self._recent: dict[int, int] = {}

    @property
    def units(self) -> Mapping[int, int]:
        """The moving sums by packed expert, in 1/256 of a row."""
        return MappingProxyType(self._units)

    def take(
        self,
        span_us: tuple[int, int],
        counts: Iterable[tuple[int, int]],
        experts: Collection[int],
    ) -> bool:
        """Add one span's rows of known experts; return whether it counted."""
        from_us, to_us = span_us
        if not self.counted_to_us <= from_us < to_us <= MAX_TIME_US:
            return False
        self.counted_to_us = to_us
        for expert, n_rows in counts:
            if expert in experts:
                units = self._units.get(expert, 0) + n_rows * _UNIT
                self._units[expert] = min(units, MAX_ROWS * _UNIT)
                recent = self._recent.get(expert, 0) + n_rows
                self._recent[expert] = min(recent, MAX_ROWS)
        self.version += 1
        return True

    @property
    def recent(self) -> Mapping[int, int]:
        """Rows by packed expert since `begin_epoch` was called last."""
        return MappingProxyType(self._recent)

    def begin_epoch(self) -> None:
        """Count recent rows from here."""
        self._recent = {}

    def fade(self, elapsed_us: int) -> None:
        """Let time go by."""
        if not self._units or elapsed_us <= 0:
            return
        fade = round(_FADE_ONE * 0.5 ** (elapsed_us / HALF_LIFE_US))
        faded = {e: units * fade // _FADE_ONE for e, units in self._units.items()}
        self._units = {expert: units for expert, units in faded.items() if units}
        self.version += 1
