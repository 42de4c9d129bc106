"""Chunks of prompts under way at once: while one waits for workers, the next is sent.

A chunk is a step of its own rows, and chunk i + 1 enters a layer after chunk i has:
what attention needs of the positions before has then been written. One thread runs
them all, the oldest that need not wait first, so chunks follow each other only as
closely as there is something to wait for: without a network there is one at a time.
What a prompt sends in one layer then flies beside the answers of the layer before, and
a slow link is busy both ways (design 08, "Prefill in chunks"). What only computes waits
until nothing can be sent: the next chunk's rows leave before this one's experts at hand
are computed.

Rows do not depend on who shares their step, so neither do tokens. Chunks end in order,
and each that ends counts for good, whatever becomes of those behind it. Pure but for
waiting; nothing here knows sequences' schedules or threads.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from p2pmoe.backbone.scheduling.composition import Demand, share_rows
from p2pmoe.model.walk import Walk

if TYPE_CHECKING:
    from p2pmoe.model.experts import PendingExperts

__all__ = ["Bell", "Pipeline", "cut_rows", "even_rows"]

T = TypeVar("T")


def even_rows(n_rows: int, *, chunk_rows: int, max_steps: int) -> int:
    """Return how many rows a chunk should have, at most `chunk_rows`.

    As many chunks of one size as fill `max_steps` each time: steps go through the
    layers in such groups, and one that is left over would wait alone in every layer.
    """
    n_groups = -(-n_rows // (chunk_rows * max_steps))
    return max(1, -(-n_rows // (n_groups * max_steps))) if n_rows else chunk_rows


def cut_rows(wanted: Sequence[int], chunk_rows: int) -> list[list[int]]:
    """Return the rows of each chunk by sequence, oldest first, as one would follow one.

    `wanted` are all rows of each sequence, 0 or more; a chunk has up to `chunk_rows`.
    """
    left, chunks = list(wanted), []
    while any(left):
        asked = [i for i, n in enumerate(left) if n]
        shared = share_rows(
            [Demand(left[i]) for i in asked],
            chunk_rows=chunk_rows,
            max_rows=chunk_rows,
        )
        chunk = [0] * len(left)
        for i, n in zip(asked, shared, strict=True):
            chunk[i] = n
            left[i] -= n
        chunks.append(chunk)
    return chunks


class _Step(Generic[T]):
    """A chunk's step and where it stands."""

    __slots__ = ("chunk", "pending", "walk")

    def __init__(self, chunk: T, walk: Walk) -> None:
        self.chunk = chunk
        self.walk = walk
        self.pending: PendingExperts | None = None

    @property
    def is_ready(self) -> bool:
        return self.pending is None or self.pending.is_ready()


class Bell(Protocol):
    """What a thread sleeps on; a `threading.Event` is one."""

    def set(self) -> None:
        """Wake it (any thread)."""
        ...

    def clear(self) -> None:
        """Forget that it rang."""
        ...

    def wait(self) -> object:
        """Sleep until it rings, or has rung."""
        ...


class Pipeline(Generic[T]):
    """Steps under way, oldest first; for one thread.

    `begin` makes the next chunk's walk, once there is room for it.
    """

    def __init__(
        self,
        chunks: Iterator[T],
        begin: Callable[[T], Walk],
        *,
        max_steps: int,
        monotonic: Callable[[], float] = time.perf_counter,
        bell: Bell | None = None,
    ) -> None:
        """Take chunks as they can begin; at most `max_steps` are under way at once."""
        self._chunks = chunks
        self._begin = begin
        self._max_steps = max_steps
        self._monotonic = monotonic
        self._steps: deque[_Step[T]] = deque()
        self._bell = threading.Event() if bell is None else bell
        self._at: T | None = None
        self._is_dry = False
        self.waited_s = 0.0  # since it was last set to 0, while no step could go on

    def run(self) -> Iterator[tuple[T, Walk]]:
        """Run all chunks; yields each that ended, and its step, in order.

        Raises what a step raises, which is over then: `at` tells whose it was, and
        `under_way` the others, which `close` gives up.
        """
        while self._steps or self._refill():
            step = self._next()
            if step is None:
                if not self._refill() and not self._compute():
                    self._wait()
                continue
            self._ask(step)
            if step.pending is None:
                self._steps.popleft()
                yield step.chunk, step.walk

    @property
    def at(self) -> T | None:
        """The chunk whose step is running, or has failed."""
        return self._at

    @property
    def under_way(self) -> tuple[T, ...]:
        """Chunks that have begun and not ended, oldest first."""
        return tuple(step.chunk for step in self._steps)

    def close(self) -> None:
        """Give up what is under way."""
        while self._steps:
            self._steps.pop().walk.close()
        self._is_dry = True

    def _ask(self, step: _Step[T]) -> None:
        """Have a step ask for its next layer's experts."""
        self._at = step.chunk
        step.pending = step.walk.ask()
        self._at = None

    def _compute(self) -> bool:
        """Compute what the oldest step left, one layer of it; False if none did."""
        step = next((step for step in self._steps if step.walk.leaves_work), None)
        if step is None:
            return False
        self._at = step.chunk
        step.walk.compute()
        self._at = None
        return True

    def _refill(self) -> bool:
        """Begin the next chunk if there is one that can run at once; True if so."""
        last = self._steps[-1] if self._steps else None
        is_behind = last is None or last.walk.n_passed > 0
        if self._is_dry or not is_behind or len(self._steps) >= self._max_steps:
            return False
        for chunk in self._chunks:
            self._at = chunk
            self._steps.append(_Step(chunk, self._begin(chunk)))
            self._at = None
            return True
        self._is_dry = True
        return False

    def _may_go(self) -> Iterator[_Step[T]]:
        """Yield the steps that need nothing more from the one before."""
        ahead: _Step[T] | None = None
        for step in self._steps:
            if ahead is None or ahead.walk.n_passed > step.walk.n_passed:
                yield step
            ahead = step

    def _next(self) -> _Step[T] | None:
        return next((step for step in self._may_go() if step.is_ready), None)

    def _wait(self) -> None:
        """Sleep until workers have answered one of the steps that may go."""
        started = self._monotonic()
        self._bell.clear()
        for step in self._may_go():
            if step.pending is not None:
                step.pending.notify(self._bell.set)
        self._bell.wait()
        self.waited_s += self._monotonic() - started
