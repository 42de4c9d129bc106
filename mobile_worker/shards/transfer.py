"""Which pieces of a blob to ask for, and in which order to write them; no I/O.

Pieces are asked for in order with several in flight and may come in any order; they
leave in order, because the hash is computed as they are written. No piece is asked for
more than `window` pieces beyond the first one missing, so what waits for an earlier
piece is bounded by window * PIECE_BYTES.
"""

import heapq

from mobile_worker.shards.errors import ShardUnavailable

__all__ = ["MAX_ANSWER_BYTES", "PIECE_BYTES", "Transfer"]

PIECE_BYTES = 16_384
MAX_ANSWER_BYTES = 1 << 18  # of one question; a lost packet costs a whole answer


class Transfer:
    """The state of one fetch of `n_bytes` bytes, of which `position` are here."""

    def __init__(self, n_bytes: int, *, position: int = 0, window: int = 8) -> None:
        """Plan to fetch from `position` to the end."""
        self._n_bytes = n_bytes
        self._position = position
        self._next = position
        self._again: list[int] = []  # a heap of offsets whose reply was lost
        self._early: dict[int, bytes] = {}
        self._window_bytes = window * PIECE_BYTES

    @property
    def position(self) -> int:
        """Bytes handed out in order so far."""
        return self._position

    @property
    def done(self) -> bool:
        """Whether every byte has been handed out."""
        return self._position >= self._n_bytes

    def length_at(self, offset: int) -> int:
        """Return the length of the piece at `offset`."""
        return min(PIECE_BYTES, self._n_bytes - offset)

    def take(self) -> int | None:
        """Return the offset of a piece to ask for now, or None if none may be."""
        if self._again:
            return heapq.heappop(self._again)
        limit = min(self._n_bytes, self._position + self._window_bytes)
        if self._next >= limit:
            return None
        offset = self._next
        self._next += self.length_at(offset)
        return offset

    def lost(self, offset: int) -> None:
        """Note that no answer came for the piece at `offset`: it is taken again."""
        heapq.heappush(self._again, offset)

    def arrived(self, offset: int, total: int, body: bytes) -> list[bytes]:
        """Return the pieces that can now be written, in order.

        Raises:
            ShardUnavailable: the source has another total or cut the piece short.
        """
        if total != self._n_bytes or len(body) != self.length_at(offset):
            raise ShardUnavailable(
                f"the source holds {total} bytes and sent {len(body)} at {offset}, "
                f"not {self.length_at(offset)} of {self._n_bytes}"
            )
        self._early[offset] = body
        ready = []
        while self._position in self._early:
            piece = self._early.pop(self._position)
            self._position += len(piece)
            ready.append(piece)
        return ready
