"""Who is to hold what: incremental greedy, the neediest expert first.

For each free slot of a device the neediest expert that it can hold is taken. There is
one ranking for each order (hub, laptop, tail), made when it is first needed. A join
costs O(c log E) for c slots, whatever the number of devices. What lies below its floor
is first in each ranking, soonest lost before: the repair queue.

Pure: no clock, no I/O. `tie_salt` makes the order of equals unforeseeable.
Source: design/06, "Assignment"; research part D (EPLB, rarest-first, Storj domains).
"""

import hashlib
from collections.abc import Iterable, Mapping

from mobile_worker.device_class import DeviceClass
from p2pmoe.market.coverage import replica_overhead_bytes
from p2pmoe.market.devices import Device, ExpertKey, layer_of
from p2pmoe.market.ranking import Ranking
from p2pmoe.market.wanted import Order, Wanted, WantedState, order_of

__all__ = ["Assignment"]

_TAIL = Order.TAIL


class Assignment:
    """All wanted experts, with the replicas that are held or promised."""

    def __init__(self, tie_salt: bytes) -> None:
        """`tie_salt` is at most 64 random bytes, kept secret while it is in use."""
        self._keyed = hashlib.blake2b(digest_size=8, key=tie_salt)
        self._states: dict[ExpertKey, WantedState] = {}
        self._rankings: dict[Order, Ranking] = {}
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
            self._rank_anew(state)

    def forget(self, keys: Iterable[ExpertKey]) -> None:
        """Want these no more. Their holders must have been released before."""
        for key in keys:
            del self._states[key]
        self._rankings.clear()  # made again when next needed

    def hold(self, device: Device, key: ExpertKey) -> None:
        """Count the device as a holder, and take the room from it."""
        self._hold(device, self._states[key])

    def release(self, device: Device, key: ExpertKey) -> None:
        """Count the device no longer as a holder, and give it the room back."""
        device.room_bytes += device.held.pop(key)
        self._freed[device.name] = None
        state = self._states[key]
        state.remove(device)
        self._rank_anew(state)

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
            self._rank_anew(state)
        return True

    def fill(self, device: Device) -> list[ExpertKey]:
        """Give the device what it has room for; return the experts it is to add."""
        added: list[ExpertKey] = []
        ranking = self._ranking(order_of(device.device_class))
        while not device.is_full:
            entry = ranking.take(device, device.room_bytes)
            if entry is None:
                break
            self._hold(device, entry[4])
            ranking.put_back(entry)
            added.append(entry[2])
        return added

    def fill_all(self, devices: Iterable[Device]) -> None:
        """Give several devices their experts: hubs first, then by hash of the name."""
        rows: list[list[Device]] = [[] for _ in DeviceClass]
        for device in self.shuffled(devices):
            rows[device.device_class].append(device)
        for row in rows:
            for device in row:
                if self.fill(device):
                    continue
                if not self.has_needs(order_of(device.device_class)):
                    break

    def shuffled(self, devices: Iterable[Device]) -> list[Device]:
        """Return devices in an order that nobody can foresee."""
        return sorted(devices, key=lambda device: self._hash(device.name))

    def take_freed(self) -> list[bytes]:
        """Return the names of devices that have got room since this was last asked."""
        freed, self._freed = self._freed, {}
        return list(freed)

    def has_needs(self, order: Order) -> bool:
        """Whether any expert could be given to some device of this order."""
        return self._ranking(order).has_needs()

    def neediest(self, device: Device, room_bytes: int) -> ExpertKey | None:
        """Return the expert that the device should add next, None if there is none."""
        if room_bytes <= 0:
            return None
        ranking = self._ranking(order_of(device.device_class))
        entry = ranking.take(device, room_bytes)
        if entry is None:
            return None
        ranking.put_back(entry)
        return entry[2]

    def overhead_bytes(self) -> int:
        """Return the memory that all replication costs beyond one copy of each."""
        return sum(
            replica_overhead_bytes(state.n_bytes, state.n_replicas)
            for state in self._states.values()
        )

    def _hold(self, device: Device, state: WantedState) -> None:
        key, n_bytes = state.key, state.n_bytes
        device.held[key] = n_bytes
        device.room_bytes -= n_bytes
        state.add(device)
        state.version += 1
        tail = self._rankings.get(_TAIL)
        if tail is not None and key not in tail:
            tail.rank_anew(state)  # a first steady holder lets phones in

    def _ranking(self, order: Order) -> Ranking:
        ranking = self._rankings.get(order)
        if ranking is None:
            ranking = self._rankings[order] = Ranking(order, self._states.values())
        return ranking

    def _rank_anew(self, state: WantedState) -> None:
        """Count a change, after which the expert may be more urgent."""
        state.version += 1
        for ranking in self._rankings.values():
            ranking.rank_anew(state)

    def _tie(self, key: ExpertKey) -> int:
        """Return a hash by which experts of one layer lie together."""
        of_layer = self._hash(layer_of(key).to_bytes(12, "big"))
        of_key = self._hash(key.to_bytes(12, "big"))
        return _high_bits(of_layer) << 30 | _high_bits(of_key)

    def _hash(self, name: bytes) -> bytes:
        keyed = self._keyed.copy()
        keyed.update(name)
        return keyed.digest()


def _high_bits(digest: bytes) -> int:
    """Return the upper 30 bits of 8 bytes."""
    return int.from_bytes(digest, "big") >> 34
