"""How many rows a step may have, so that it does not touch too many cold experts.

Rows that differ ask for different experts: in a large batch each cold expert that is
read serves few rows and pushes another out of the cache. After each step the bound is
told how many distinct experts had to be read. Above the limit, the next step may have
as many rows as would have kept it; below, and if rows were short, one more. One row is
always allowed. Pure.
"""

__all__ = ["ColdBound"]


class ColdBound:
    """Rows that the next step may have: `max_rows` while little is cold."""

    def __init__(self, max_cold: int | None, max_rows: int) -> None:
        """Allow all rows; `max_cold` None never bounds."""
        self._max_cold = max_cold
        self._max_rows = max_rows
        self.rows = max_rows

    def observe(self, n_rows: int, n_cold: int) -> None:
        """Take a step's rows and the distinct experts that it had to read."""
        if self._max_cold is None or n_rows < 1:
            return
        if n_cold > self._max_cold:
            self.rows = max(1, min(self.rows, n_rows * self._max_cold // n_cold))
        elif n_rows >= self.rows:
            self.rows = min(self._max_rows, self.rows + 1)
