"""Who is to hold what: incremental greedy, the neediest expert first.

For each free slot of a device the neediest expert that it can hold is taken, one whose
replicas are not yet in the device's failure domain before one whose are. There is one
heap for each order (hub, laptop, tail). A further replica only ever lowers an expert's
rank, so its entries are left alone and ranked anew when they surface; a replica less
may raise it, so new entries are made at once and the old ones recognised by their
stamp. A join costs O(c log E) for c slots, whatever the number of devices.

Limits: at most 256 entries are looked at for one slot, so a device that holds or has
declined all of the 256 neediest, or has no room for any of them, is given nothing more.

Pure: no clock, no I/O. `tie_salt` makes the order of equals unforeseeable.
Source: design/06, "Assignment"; research part D (EPLB, rarest-first, Storj domains).
"""

import hashlib
import heapq
from collections.abc import Iterable, Mapping

from p2pmoe.market.coverage import replica_overhead_bytes
from p2pmoe.market.devices import Device, ExpertKey, layer_of
from p2pmoe.market.wanted import Order, Rank, Wanted, WantedState, order_of, rank

__all__ = ["Assignment"]

_SCAN_ENTRIES = 256
_Entry = tuple[Rank, int, ExpertKey]  # rank, version, key


class Assignment:
    """All wanted experts, with the replicas that are held or promised."""

    def __init__(self, tie_salt: bytes) -> None:
        """`tie_salt` is at most 64 random bytes, kept secret while it is in use."""
        self._salt = tie_salt
        self._states: dict[ExpertKey, WantedState] = {}
        self._heaps: dict[Order, list[_Entry]] = {}

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
                self._states[each.key] = WantedState(
                    wanted=each, tie=self._tie(each.key)
                )
            else:
                state.wanted = each
        self._heaps.clear()  # built again when next needed

    def forget(self, keys: Iterable[ExpertKey]) -> None:
        """Want these no more. Their holders must have been released before."""
        for key in keys:
            del self._states[key]
        self._heaps.clear()

    def hold(self, device: Device, key: ExpertKey) -> None:
        """Count the device as a holder, and take the room from it."""
        state = self._states[key]
        device.held[key] = state.wanted.n_bytes
        device.room_bytes -= state.wanted.n_bytes
        state.add(device)
        state.version += 1
        if Order.TAIL in self._heaps and state.stamps[Order.TAIL] < 0:
            self._queue(state, Order.TAIL)  # a first steady holder lets phones in

    def release(self, device: Device, key: ExpertKey) -> None:
        """Count the device no longer as a holder, and give it the room back."""
        device.room_bytes += device.held.pop(key)
        state = self._states[key]
        state.remove(device)
        state.version += 1
        for order in self._heaps:
            self._queue(state, order)

    def release_all(self, device: Device) -> list[ExpertKey]:
        """The device has left: return what it held."""
        keys = list(device.held)
        for key in keys:
            self.release(device, key)
        return keys

    def fill(self, device: Device) -> list[ExpertKey]:
        """Give the device what it has room for; return the experts it is to add."""
        added: list[ExpertKey] = []
        while (key := self.neediest(device, device.room_bytes)) is not None:
            self.hold(device, key)
            added.append(key)
        return added

    def fill_all(self, devices: Iterable[Device]) -> dict[bytes, list[ExpertKey]]:
        """Give several devices their experts: hubs first, then by hash of the name."""
        ordered = sorted(devices, key=lambda d: (d.device_class, self._hash(d.name)))
        return {device.name: self.fill(device) for device in ordered}

    def neediest(self, device: Device, room_bytes: int) -> ExpertKey | None:
        """Return the expert that the device should add next, None if there is none."""
        if room_bytes <= 0:
            return None
        order = order_of(device.device_class)
        heap = self._heap(order)
        aside: list[_Entry] = []
        second: _Entry | None = None  # the best whose domain is already present
        chosen: ExpertKey | None = None
        while heap and len(aside) < _SCAN_ENTRIES:
            entry = heap[0]
            state = self._states[entry[2]]
            if entry[1] != state.version or entry[1] != state.stamps[order]:
                _freshen(heap, order, state)
                continue
            if second is not None and entry[0][0] > second[0][0]:
                break
            if state.wanted.n_bytes <= room_bytes and device.takes(entry[2]):
                if device.domain not in state.coverage:
                    chosen = entry[2]
                    break
                second = second or entry
            aside.append(heapq.heappop(heap))
        for entry in aside:
            heapq.heappush(heap, entry)
        if chosen is None and second is not None:
            chosen = second[2]
        return chosen

    def overhead_bytes(self) -> int:
        """Return the memory that all replication costs beyond one copy of each."""
        return sum(
            replica_overhead_bytes(state.wanted.n_bytes, state.n_replicas)
            for state in self._states.values()
        )

    def _heap(self, order: Order) -> list[_Entry]:
        heap = self._heaps.get(order)
        if heap is None or len(heap) > 4 * len(self._states) + 1024:
            heap = []
            for key, state in self._states.items():
                found = rank(state, order)
                state.stamps[order] = -1
                if found is not None:
                    heap.append((found, state.version, key))
                    state.stamps[order] = state.version
            heapq.heapify(heap)
            self._heaps[order] = heap
        return heap

    def _queue(self, state: WantedState, order: Order) -> None:
        """Make the expert's entry in one heap anew."""
        found = rank(state, order)
        if found is None:
            state.stamps[order] = -1
        else:
            state.stamps[order] = state.version
            heapq.heappush(self._heaps[order], (found, state.version, state.wanted.key))

    def _tie(self, key: ExpertKey) -> int:
        """Return a hash by which experts of one layer lie together."""
        of_layer = self._hash(layer_of(key).to_bytes(12, "big")) >> 34
        return of_layer << 30 | self._hash(key.to_bytes(12, "big")) >> 34

    def _hash(self, name: bytes) -> int:
        digest = hashlib.blake2b(name, digest_size=8, key=self._salt).digest()
        return int.from_bytes(digest, "big")


def _freshen(heap: list[_Entry], order: Order, state: WantedState) -> None:
    """Rank the top entry anew, or take it out if it is dead or the expert is full."""
    if heap[0][1] != state.stamps[order]:
        heapq.heappop(heap)
        return
    found = rank(state, order)
    if found is None:
        state.stamps[order] = -1
        heapq.heappop(heap)
    else:
        state.stamps[order] = state.version
        heapq.heapreplace(heap, (found, state.version, state.wanted.key))
