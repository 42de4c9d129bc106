"""All wanted experts in one order, the neediest first, and what a device gets of them.

An expert's entry says how it stood when it was ranked, and is left alone while holders
come: a further replica never makes an expert more urgent, so an entry that is out of
date lies too far in front, and its expert is ranked anew when it surfaces. What makes
an expert more urgent must be told (`rank_anew`): then a second entry is made at once,
and the first one, no longer the expert's own, is dropped when it surfaces.

For a device the first expert is taken that it can hold and whose replicas are not yet
in its domain, before one whose are, and none that the domain holds to the full: a
further copy there adds nothing.

Limits: at most 256 entries are looked at for one slot, so a device that holds or has
declined all of the 256 neediest, or has no room for any of them, is given nothing more.

Pure. `take` is asked some four million times for a million devices; it and what it
calls avoid every step that the usual case does not need.
"""

from collections.abc import Iterable

from p2pmoe.market.coverage import FULL_PERMILLE
from p2pmoe.market.devices import Device, ExpertKey
from p2pmoe.market.rank_queue import RankQueue
from p2pmoe.market.wanted import Order, WantedState, urgency_of

__all__ = ["Entry", "Ranking"]

_SCAN_ENTRIES = 256
# An entry is made for every change of rank, and dropped only when it surfaces.
_MOST_ENTRIES, _MORE_ENTRIES = 4, 1024  # of each expert, and of all beside

# Urgency and place (which is the rank), key, version of the state, state.
Entry = tuple[float, int, ExpertKey, int, WantedState]


class Ranking:
    """The wanted experts in one order; those that need no more are left out."""

    __slots__ = ("_entries", "_order", "_queue")

    def __init__(self, order: Order, states: Iterable[WantedState]) -> None:
        self._order = order
        self._queue: RankQueue[Entry] = RankQueue()
        self._entries: dict[ExpertKey, Entry] = {}  # each expert's own
        for state in states:
            self.rank_anew(state)

    def __contains__(self, key: ExpertKey) -> bool:
        return key in self._entries

    def rank_anew(self, state: WantedState) -> None:
        """An expert may be more urgent than it was, or needed no more."""
        key, urgency = state.key, urgency_of(state, self._order)
        if urgency is None:
            self._entries.pop(key, None)
            return
        entry = (urgency, state.places[self._order], key, state.version, state)
        before = self._entries.get(key)
        if before is None or entry < before:
            self._entries[key] = entry
            self._queue.push(entry)
            if len(self._queue) > _MOST_ENTRIES * len(self._entries) + _MORE_ENTRIES:
                self._queue = RankQueue(self._entries.values())

    def has_needs(self) -> bool:
        """Whether any expert could be given to some device."""
        while (entry := self._queue.top()) is not None:
            if entry[3] == entry[4].version:
                return True
            self._queue.pop()
            self._freshen(entry)
        return False

    def take(self, device: Device, room_bytes: int) -> Entry | None:
        """Take out the entry of what the device should add next, None if nothing.

        It is the first of all, nearly always. To be given back by `put_back`.
        """
        queue = self._queue
        while (entry := queue.pop()) is not None:
            _, _, key, version, state = entry
            if version != state.version:
                self._freshen(entry)
            elif (
                device.domain not in state.coverage.sums
                and state.n_bytes <= room_bytes
                and device.takes(key)
            ):
                return entry
            else:
                queue.push(entry)
                return self._look_further(device, room_bytes)
        return None

    def put_back(self, entry: Entry) -> None:
        """Give an entry back, of an expert that may have got a holder since."""
        _, place, key, _, state = entry
        urgency = urgency_of(state, self._order)
        if urgency is None:
            del self._entries[key]
            return
        entry = (urgency, place, key, state.version, state)
        self._entries[key] = entry
        self._queue.push(entry)

    def _look_further(self, device: Device, room_bytes: int) -> Entry | None:
        """Look below the first, which the device cannot add or should not."""
        aside: list[Entry] = []
        second: Entry | None = None  # the best whose domain is already present
        chosen: Entry | None = None
        while len(aside) < _SCAN_ENTRIES and (entry := self._queue.pop()) is not None:
            urgency, _, key, version, state = entry
            if version != state.version:
                self._freshen(entry)
                continue
            aside.append(entry)
            if second is not None and int(urgency) > int(second[0]):  # another group
                break
            if state.n_bytes <= room_bytes and device.takes(key):
                there = state.coverage.sums.get(device.domain, 0)
                if not there:
                    chosen = entry
                    break
                if there < FULL_PERMILLE:
                    second = second or entry
        chosen = chosen or second
        for entry in reversed(aside):
            if entry is not chosen:
                self._queue.push(entry)
        return chosen

    def _freshen(self, entry: Entry) -> None:
        """Rank an expert anew whose entry has surfaced out of date."""
        key, state = entry[2], entry[4]
        if self._entries.get(key) is not entry:
            return
        urgency = urgency_of(state, self._order)
        if urgency is None:
            del self._entries[key]
            return
        entry = (urgency, state.places[self._order], key, state.version, state)
        self._entries[key] = entry
        self._queue.push(entry)
