"""Who is next: equal shares of the computed rows between clients, in arrival order.

Each client has a count of the rows that were computed for it. The next sequence is the
oldest one of the client with the smallest count among those that wait. A client that
comes (back) starts from the smallest count of those that are here: having been away
earns nothing, and neither does leaving with a debt, since counts of absent clients are
kept for a while. So of two clients that always wait neither gets ahead of the other by
more than what one sequence computes between two choices, however many requests it has.

Preempted sequences come before everything else. The queue is bounded; when it is full,
the newest of the client with the most waiting makes place for one of a client with
fewer, so nobody can fill it for the others. Pure.
"""

from collections import OrderedDict, deque
from collections.abc import Iterator

from p2pmoe.backbone.scheduling.sequence import SequenceState

__all__ = ["FairQueue"]

_MAX_ABSENT = 1024  # clients whose counts are kept


class FairQueue:
    """The sequences that wait for a slot; see the module."""

    def __init__(self, max_waiting: int) -> None:
        """Begin empty; `max_waiting` counts all but preempted sequences."""
        self.max_waiting = max_waiting
        self._preempted: list[SequenceState] = []  # oldest first
        self._waiting: dict[str, deque[SequenceState]] = {}
        self._n_running: dict[str, int] = {}
        self._served: OrderedDict[str, int] = OrderedDict()
        self._n = 0

    def __len__(self) -> int:
        """Return how many sequences wait, preempted ones included."""
        return self._n + len(self._preempted)

    def __iter__(self) -> Iterator[SequenceState]:
        """Iterate over all that wait, in no particular order."""
        yield from self._preempted
        for own in self._waiting.values():
            yield from own

    def push(self, sequence: SequenceState, n_free: int = 0) -> SequenceState | None:
        """Add a sequence; return the one that has to leave for it, or None.

        That one may be the newcomer itself. `n_free` slots will soon be taken from
        here: so many do not count as waiting.
        """
        client = sequence.request.client
        leaving = None
        if self._n >= self.max_waiting + n_free:
            own = len(self._waiting.get(client, ()))
            greedy = max(self._waiting, key=lambda name: len(self._waiting[name]))
            if len(self._waiting[greedy]) <= own + 1:
                return sequence
            leaving = self._waiting[greedy][-1]
            self.remove(leaving)
        self._arrive(client)
        self._waiting.setdefault(client, deque()).append(sequence)
        self._n += 1
        return leaving

    def push_first(self, sequence: SequenceState) -> None:
        """Put a preempted sequence before all that are younger, and all others."""
        self._preempted.append(sequence)
        self._preempted.sort(key=lambda s: s.number)

    def peek(self) -> SequenceState | None:
        """Return the sequence whose turn it is; it stays."""
        if self._preempted:
            return self._preempted[0]
        if not self._waiting:
            return None
        return self._waiting[min(self._waiting, key=self._rank)][0]

    def remove(self, sequence: SequenceState) -> bool:
        """Take a sequence out; whether it was there."""
        if sequence in self._preempted:
            self._preempted.remove(sequence)
            return True
        client = sequence.request.client
        own = self._waiting.get(client)
        if own is None or sequence not in own:
            return False
        own.remove(sequence)
        self._n -= 1
        if not own:
            del self._waiting[client]
        self._forget_absent()
        return True

    # Service.

    def runs(self, client: str) -> None:
        """Note that a sequence of a client got a slot."""
        self._arrive(client)
        self._n_running[client] = self._n_running.get(client, 0) + 1

    def stops(self, client: str) -> None:
        """Note that one gave it up."""
        self._n_running[client] -= 1
        if not self._n_running[client]:
            del self._n_running[client]
        self._forget_absent()

    def charge(self, client: str, n_rows: int) -> None:
        """Count rows that were computed for a client."""
        self._served[client] = self._served.get(client, 0) + n_rows

    def served(self, client: str) -> int:
        """Return a client's count."""
        return self._served.get(client, 0)

    def _rank(self, client: str) -> tuple[int, int, int]:
        running = self._n_running.get(client, 0)
        return self.served(client), running, self._waiting[client][0].number

    def _is_here(self, client: str) -> bool:
        return client in self._waiting or client in self._n_running

    def _arrive(self, client: str) -> None:
        if self._is_here(client):
            return
        here = [self.served(name) for name in {*self._waiting, *self._n_running}]
        self._served[client] = max(self.served(client), min(here, default=0))
        self._served.move_to_end(client)

    def _forget_absent(self) -> None:
        n_absent = len(self._served) - len({*self._waiting, *self._n_running})
        if n_absent <= _MAX_ABSENT:
            return
        for client in list(self._served):  # those that came first
            if not self._is_here(client):
                del self._served[client]
                return
