"""Which requests were taken, and their answers for whoever asks again; no I/O.

A request is named by (peer, tab, request). Asked again while it is computed, nothing
happens: its answer is coming. Asked again later, the same bytes go out and nothing is
computed or claimed twice (faults B32). Memory is bounded: the oldest answers go first;
a repeat of one that is gone meets its used serving numbers and is refused.
"""

from collections import OrderedDict
from dataclasses import dataclass

from mobile_worker.messages.serving import Dispatch, Output
from relay.keys import PeerId

__all__ = ["AnswerCache", "Repeat", "RequestKey"]


@dataclass(frozen=True, slots=True)
class RequestKey:
    """The name of a request."""

    peer: PeerId
    tab: bytes
    request: int


@dataclass(frozen=True, slots=True)
class Repeat:
    """A request seen before; `answer` is None while it is computed.

    `same` tells whether it asks for the same servings of the same experts.
    """

    answer: Output | None
    same: bool


@dataclass(slots=True)
class _Entry:
    shape: int
    answer: Output | None = None


class AnswerCache:
    """Requests under way and answered, within a budget of bytes."""

    def __init__(self, *, max_bytes: int = 4 << 20, max_entries: int = 1024) -> None:
        """Keep at most so many bytes of results and so many requests."""
        self._max_bytes = max_bytes
        self._max_entries = max_entries
        self._entries: OrderedDict[RequestKey, _Entry] = OrderedDict()
        self._n_bytes = 0

    def seen(self, peer: PeerId, dispatch: Dispatch) -> Repeat | None:
        """Return what is known of a request, or None if it is new."""
        entry = self._entries.get(_key(peer, dispatch))
        if entry is None:
            return None
        return Repeat(answer=entry.answer, same=entry.shape == _shape(dispatch))

    def taken(self, peer: PeerId, dispatch: Dispatch) -> None:
        """Note that a request will be computed."""
        self._entries[_key(peer, dispatch)] = _Entry(_shape(dispatch))

    def answered(self, peer: PeerId, dispatch: Dispatch, answer: Output) -> None:
        """Keep the answer of a request."""
        entry = self._entries.get(_key(peer, dispatch))
        if entry is None:
            return
        entry.answer = answer
        self._n_bytes += len(answer.results)
        self._shrink()

    def dropped(self, peer: PeerId, dispatch: Dispatch) -> None:
        """Forget a request that gets no answer."""
        self._entries.pop(_key(peer, dispatch), None)

    def _shrink(self) -> None:
        while self._n_bytes > self._max_bytes or len(self._entries) > self._max_entries:
            oldest = next((k for k, e in self._entries.items() if e.answer), None)
            if oldest is None:
                return
            answer = self._entries.pop(oldest).answer
            self._n_bytes -= len(answer.results) if answer else 0


def _key(peer: PeerId, dispatch: Dispatch) -> RequestKey:
    return RequestKey(peer, dispatch.tab, dispatch.request)


def _shape(dispatch: Dispatch) -> int:
    calls = tuple((call.index, call.rows) for call in dispatch.calls)
    return hash((dispatch.first_serving, dispatch.layer, dispatch.nonce, calls))
