"""The rows of servings that were accepted, kept until the beacon has spoken.

What a worker was sent is kept by the number of its serving, the newest first, within
so many bytes (`--audit-rows`); the ledger names a serving some seconds after its
voucher was filed, and is shown the rows, whose hash both sides signed. Who asks without
being the ledger is not answered; a question for what is gone is answered so, and counts
against this backbone in the ledger's books. A restart forgets everything. State only.

A step's rows are one array that many servings name rows of: it is kept once, as it is.
"""

from collections import deque
from dataclasses import dataclass

import numpy as np

from mobile_worker.arithmetic.coding import ExpertInput
from mobile_worker.messages.audits import Open, Opened
from mobile_worker.servings.opened_rows import opened_bytes
from p2pmoe.backbone.servings import Served

__all__ = ["DEFAULT_BYTES", "ServedRows", "default_bytes"]

DEFAULT_BYTES = 64 << 20
MAX_OPENED_BYTES = 8 << 20  # of one serving, as a message takes them
MAX_SERVINGS = 100_000
_SHARE_OF_RAM = 32


@dataclass(slots=True)
class _Kept:
    """A step's rows, and how many servings here still name some of them."""

    rows: ExpertInput
    n_bytes: int
    n_servings: int = 0


def default_bytes(ram_bytes: int | None) -> int:
    """Return how much is kept where nothing is said: a small part of the memory."""
    if ram_bytes is None:
        return DEFAULT_BYTES
    return min(DEFAULT_BYTES, ram_bytes // _SHARE_OF_RAM)


class ServedRows:
    """A ring of rows by (tab, serving)."""

    def __init__(self, max_bytes: int = DEFAULT_BYTES) -> None:
        """Begin empty; 0 keeps nothing."""
        self._max_bytes = max_bytes
        self._order: deque[tuple[bytes, int]] = deque()
        self._rows: dict[tuple[bytes, int], tuple[_Kept, tuple[int, ...]]] = {}
        self._kept: dict[int, _Kept] = {}  # by the identity of what it holds
        self.n_bytes = 0

    def __len__(self) -> int:
        """Return how many servings can be shown."""
        return len(self._rows)

    def keep(self, served: Served) -> None:
        """Keep the rows of an accepted answer; the oldest ones make room."""
        name = id(served.rows)
        kept = self._kept.get(name)
        if kept is None:
            kept = _Kept(served.rows, _n_bytes(served.rows))
            if kept.n_bytes > self._max_bytes:
                return
            self._kept[name] = kept
            self.n_bytes += kept.n_bytes
        for number, result in enumerate(served.results, start=served.slot.first):
            key = (served.slot.tab, number)
            if key not in self._rows:
                self._rows[key] = (kept, tuple(result.call.rows))
                self._order.append(key)
                kept.n_servings += 1
        while self.n_bytes > self._max_bytes or len(self._rows) > MAX_SERVINGS:
            self._forget_oldest()

    def open(self, message: Open) -> Opened:
        """Return the answer to the ledger's question."""
        found = self._rows.get((message.tab, message.serving))
        rows, reason = b"", "not kept any more"
        if found is not None:
            kept, numbers = found
            rows = opened_bytes(kept.rows.take(np.array(numbers, np.int64)))
            reason = ""
        if len(rows) > MAX_OPENED_BYTES:
            rows, reason = b"", f"{len(rows)} bytes are too many to send"
        return Opened(
            voucher_hash=message.voucher_hash,
            serving=message.serving,
            rows=rows,
            reason=reason,
        )

    def _forget_oldest(self) -> None:
        kept, _ = self._rows.pop(self._order.popleft())
        kept.n_servings -= 1
        if not kept.n_servings:
            del self._kept[id(kept.rows)]
            self.n_bytes -= kept.n_bytes


def _n_bytes(rows: ExpertInput) -> int:
    n_bytes = 0 if rows.floats is None else rows.floats.nbytes
    if rows.coded is not None:
        n_bytes += rows.coded.codes.nbytes + rows.coded.scales.nbytes
    return n_bytes
