"""Who is to hold what: incremental greedy, the neediest expert first.

For each free slot of a device the neediest expert that it can hold is taken, one whose
replicas are not yet in the device's failure domain before one whose are, and none that
the domain holds to the full: a further copy there adds nothing. There is one heap for
each order (hub, laptop, tail). A further replica only ever lowers an expert's rank, so
its entries are left alone and ranked anew when they surface; where a replica less
raises it, a new entry is made at once and the old one recognised by its stamp. A join
costs O(c log E) for c slots, whatever the number of devices. What lies below its floor
is at the top of each heap, soonest lost first: the repair queue.

Limits: at most 256 entries are looked at for one slot, so a device that holds or has
declined all of the 256 neediest, or has no room for any of them, is given nothing more.

Pure: no clock, no I/O. `tie_salt` makes the order of equals unforeseeable.
Source: design/06, "Assignment"; research part D (EPLB, rarest-first, Storj domains).
"""

import hashlib
from collections.abc import Iterable, Mapping

from p2pmoe.market.coverage import FULL_PERMILLE, replica_overhead_bytes
from p2pmoe.market.devices import Device, ExpertKey, layer_of
from p2pmoe.market.rank_queue import RankQueue
from p2pmoe.market.wanted import Order, Wanted, WantedState, order_of, rank

__all__ = ["Assignment"]

_SCAN_ENTRIES = 256
_TAIL = Order.TAIL
# Urgency and place (which is the rank), key, version, state.
_Entry = tuple[float, int, ExpertKey, int, WantedState]
_Queue = RankQueue[_Entry]


class Assignment:
    """All wanted experts, with the replicas that are held or promised."""

    def __init__(self, tie_salt: bytes) -> None:
        """`tie_salt` is at most 64 random bytes, kept secret while it is in use."""
        self._salt = tie_salt
        self._states: dict[ExpertKey, WantedState] = {}
        self._heaps: dict[Order, _Queue] = {}
        self._freed: dict[bytes, None] = {}

    def __len__(self) -> int:
        return len(self._states)

    @property
    def states(self) -> Mapping[ExpertKey, WantedState]:
        """The wanted experts and their counts, by key; not to be changed outside."""
        return self._states

    def want(self, wanted: Iterable[Wanted]) -> None:
        """Add wanted experts, or replace what was wanted of them so far."""
        for each in wanted:
            state = self._states.get(each.key)
            if state is None:
                state = WantedState(wanted=each, tie=self._tie(each.key))
                self._states[each.key] = state
            elif state.wanted == each:
                continue
            else:
                state.want(each)
                state.version += 1
            self._queue(state)

    def forget(self, keys: Iterable[ExpertKey]) -> None:
        """Want these no more. Their holders must have been released before."""
        for key in keys:
            del self._states[key]
        self._heaps.clear()  # built again when next needed

    def hold(self, device: Device, key: ExpertKey) -> None:
        """Count the device as a holder, and take the room from it."""
        self._hold(device, self._states[key])

    def release(self, device: Device, key: ExpertKey) -> None:
        """Count the device no longer as a holder, and give it the room back."""
        device.room_bytes += device.held.pop(key)
        self._freed[device.name] = None
        state = self._states[key]
        state.remove(device)
        state.version += 1
        self._queue(state)

    def release_all(self, device: Device) -> list[ExpertKey]:
        """The device has left: return what it held."""
        keys = list(device.held)
        for key in keys:
            self.release(device, key)
        return keys

    def restate(self, device: Device, *, domain: str, stay: tuple[int, int]) -> bool:
        """Count what the device holds by another domain, or by how long it stays.

        `stay`: its availability in per mille, and its departures (see `Device`).
        Returns whether anything has changed.
        """
        if (device.domain, device.availability, device.departures) == (domain, *stay):
            return False
        states = [self._states[key] for key in device.held]
        for state in states:
            state.remove(device)
        device.count_as(domain, *stay)
        for state in states:
            state.add(device)
            state.version += 1
            self._queue(state)
        return True

    def fill(self, device: Device) -> list[ExpertKey]:
        """Give the device what it has room for; return the experts it is to add."""
        added: list[ExpertKey] = []
        order = order_of(device.device_class)
        heap = self._heap(order)
        while not device.is_full:
            state = _neediest(heap, order, device, device.room_bytes)
            if state is None:
                break
            self._hold(device, state)
            added.append(state.wanted.key)
            first = heap.top()
            if first is not None and first[4] is state:
                _freshen(heap, order, state, first[3])
        return added

    def fill_all(self, devices: Iterable[Device]) -> dict[bytes, list[ExpertKey]]:
        """Give several devices their experts: hubs first, then by hash of the name.

        Those that get nothing are left out.
        """
        ordered = sorted(self.shuffled(devices), key=lambda d: d.device_class)
        added: dict[bytes, list[ExpertKey]] = {}
        needless: set[Order] = set()
        for device in ordered:
            order = order_of(device.device_class)
            if order in needless:
                continue
            keys = self.fill(device)
            if keys:
                added[device.name] = keys
            elif not self.has_needs(order):
                needless.add(order)
        return added

    def shuffled(self, devices: Iterable[Device]) -> list[Device]:
        """Return devices in an order that nobody can foresee."""
        return sorted(devices, key=lambda device: self._hash(device.name))

    def take_freed(self) -> list[bytes]:
        """Return the names of devices that have got room since this was last asked."""
        freed, self._freed = self._freed, {}
        return list(freed)

    def has_needs(self, order: Order) -> bool:
        """Whether any expert could be given to some device of this order."""
        heap = self._heap(order)
        while (first := heap.top()) is not None:
            version, state = first[3:]
            if version == state.version == state.stamps[order]:
                return True
            _freshen(heap, order, state, version)
        return False

    def neediest(self, device: Device, room_bytes: int) -> ExpertKey | None:
        """Return the expert that the device should add next, None if there is none."""
        if room_bytes <= 0:
            return None
        order = order_of(device.device_class)
        state = _neediest(self._heap(order), order, device, room_bytes)
        return None if state is None else state.wanted.key

    def overhead_bytes(self) -> int:
        """Return the memory that all replication costs beyond one copy of each."""
        return sum(
            replica_overhead_bytes(state.wanted.n_bytes, state.n_replicas)
            for state in self._states.values()
        )

    def _hold(self, device: Device, state: WantedState) -> None:
        wanted = state.wanted
        device.held[wanted.key] = wanted.n_bytes
        device.room_bytes -= wanted.n_bytes
        state.add(device)
        state.version += 1
        if state.stamps[_TAIL] < 0 and _TAIL in self._heaps:
            self._queue_in(state, _TAIL)  # a first steady holder lets phones in

    def _heap(self, order: Order) -> _Queue:
        heap = self._heaps.get(order)
        if heap is None or len(heap) > 4 * len(self._states) + 1024:
            heap = RankQueue()
            for key, state in self._states.items():
                found = state.ranks[order] = rank(state, order)
                state.stamps[order] = -1
                if found is not None:
                    heap.push((*found, key, state.version, state))
                    state.stamps[order] = state.version
            self._heaps[order] = heap
        return heap

    def _queue(self, state: WantedState) -> None:
        """Bring the expert's entry in each heap up to where it belongs now."""
        for order in self._heaps:
            self._queue_in(state, order)

    def _queue_in(self, state: WantedState, order: Order) -> None:
        found, before = rank(state, order), state.ranks[order]
        if found is None:
            state.stamps[order] = -1
        elif state.stamps[order] < 0 or before is None or found < before:
            state.ranks[order] = found
            state.stamps[order] = state.version
            entry = (*found, state.wanted.key, state.version, state)
            self._heaps[order].push(entry)

    def _tie(self, key: ExpertKey) -> int:
        """Return a hash by which experts of one layer lie together."""
        of_layer = self._hash(layer_of(key).to_bytes(12, "big")) >> 34
        return of_layer << 30 | self._hash(key.to_bytes(12, "big")) >> 34

    def _hash(self, name: bytes) -> int:
        digest = hashlib.blake2b(name, digest_size=8, key=self._salt).digest()
        return int.from_bytes(digest, "big")


def _neediest(
    heap: _Queue, order: Order, device: Device, room_bytes: int
) -> WantedState | None:
    """Return what the device should add: the first of the heap, nearly always."""
    while (first := heap.top()) is not None:
        _, _, key, version, state = first
        if version != state.version or version != state.stamps[order]:
            _freshen(heap, order, state, version)
        elif (
            device.domain not in state.coverage.sums
            and state.wanted.n_bytes <= room_bytes
            and device.takes(key)
        ):
            return state
        else:
            return _look_further(heap, order, device, room_bytes)
    return None


def _look_further(
    heap: _Queue, order: Order, device: Device, room_bytes: int
) -> WantedState | None:
    """Look below the first of the heap, which the device cannot add or should not."""
    aside: list[_Entry] = []
    second: _Entry | None = None  # the best whose domain is already present
    chosen: WantedState | None = None
    while len(aside) < _SCAN_ENTRIES and (entry := heap.top()) is not None:
        urgency, _, key, version, state = entry
        if version != state.version or version != state.stamps[order]:
            _freshen(heap, order, state, version)
            continue
        if second is not None and int(urgency) > int(second[0]):  # another group
            break
        if state.wanted.n_bytes <= room_bytes and device.takes(key):
            there = state.coverage.sums.get(device.domain, 0)
            if not there:
                chosen = state
                break
            if there < FULL_PERMILLE:
                second = second or entry
        aside.append(heap.pop())
    for entry in aside:
        heap.push(entry)
    if chosen is None and second is not None:
        chosen = second[4]
    return chosen


def _freshen(heap: _Queue, order: Order, state: WantedState, version: int) -> None:
    """Rank the top entry anew, or take it out if it is dead or the expert is full."""
    stamps = state.stamps
    heap.pop()
    if version != stamps[order]:
        return
    found = state.ranks[order] = rank(state, order)
    if found is None:
        stamps[order] = -1
    else:
        now = state.version
        stamps[order] = now
        heap.push((*found, state.wanted.key, now, state))
