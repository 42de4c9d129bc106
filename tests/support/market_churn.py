"""A market's book with many simulated devices that join, fetch, renew and leave.

Time is simulated in steps of a quarter of a second; nothing is sent. A device holds
what its lease names some seconds after it was told, unless it was told otherwise
meanwhile, and it renews as workers do. The backbone has no disk, so that every expert
has a floor.
"""

import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from mobile_worker.device_class import DeviceClass
from mobile_worker.expert_id import ExpertId
from mobile_worker.messages import market as wire
from mobile_worker.shards.manifest import manifest_hash
from p2pmoe.market.book import Book
from p2pmoe.market.outgoing import Send
from tests.support.market_book import BookWorld
from tests.support.market_peers import make_manifest

__all__ = ["MIXED", "ChurnBook", "Kind"]

STEP_S = 0.25
_RENEW_S = 30.0
_REPORT_S = 5.0


@dataclass(frozen=True, slots=True)
class Kind:
    """One sort of device: its class, its share of all, its slots."""

    device_class: DeviceClass
    share: float
    n_slots: int


MIXED = (
    Kind(DeviceClass.HUB, 0.10, 14),
    Kind(DeviceClass.LAPTOP, 0.65, 7),
    Kind(DeviceClass.PHONE, 0.25, 4),
)


@dataclass(slots=True)
class _Device:
    name: str
    device_class: DeviceClass
    joined_at: float
    lease: wire.Lease | None = None
    fetched: Counter[ExpertId] = field(default_factory=Counter)
    holds: set[ExpertId] = field(default_factory=set)


class ChurnBook:
    """The book, its devices, and what is seen of it step by step."""

    def __init__(
        self, seed: int, *, n_layers: int, n_experts: int, fetch_s: float
    ) -> None:
        self.rng = random.Random(seed)
        self.model = make_manifest(n_layers=n_layers, n_experts=n_experts)
        self.experts = [each.expert for each in self.model.experts]
        self.fewest: Counter[int] = Counter()  # domains of the worst expert, by step
        self.devices: dict[str, _Device] = {}
        self.demand = {e: self.rng.paretovariate(1.2) for e in self.experts}
        self._fetch_s = fetch_s
        self._world = BookWorld()
        self._fetching: dict[float, list[tuple[str, wire.Lease]]] = defaultdict(list)
        self._names: dict[bytes, str] = {}
        self._n_joined = 0
        self._n_fetched = 0
        self._world.notice("backbone", self.model)
        self._report()

    @property
    def book(self) -> Book:
        """The book under test."""
        return self._world.book

    @property
    def now(self) -> float:
        """Simulated seconds."""
        return self._world.now

    def join(self, kinds: Sequence[Kind], n: int) -> None:
        """Have so many devices of these kinds join at once, each in its own domain."""
        for kind in self.rng.choices(kinds, [each.share for each in kinds], k=n):
            self._n_joined += 1
            name = f"device {self._n_joined}"
            self._names[self._world.peer(name)] = name
            self.devices[name] = _Device(name, kind.device_class, self.now)
            sends = self._world.offer(
                name,
                kind.n_slots,
                device_class=int(kind.device_class),
                domain=f"site {self._n_joined}",
            )
            self._deliver(sends)

    def leave(self, name: str) -> None:
        """Have a device leave without a word."""
        del self.devices[name]
        self._deliver(self.book.lost(self._world.peer(name), self.now))

    def leaving(self, share: float, within_s: float) -> dict[float, list[str]]:
        """Return who of a share of all leaves at which step, at random."""
        gone = self.rng.sample(sorted(self.devices), int(share * len(self.devices)))
        plan: dict[float, list[str]] = defaultdict(list)
        for name in gone:
            step = self.rng.randrange(int(within_s / STEP_S))
            plan[self.now + step * STEP_S].append(name)
        return plan

    def run(
        self, seconds: float, plan: dict[float, list[str]] | None = None
    ) -> "ChurnBook":
        """Let time pass; who is due by the plan leaves."""
        for _ in range(int(seconds / STEP_S)):
            for name in (plan or {}).get(self.now, ()):
                self.leave(name)
            self._world.now += STEP_S
            for name, lease in self._fetching.pop(self.now, ()):
                self._hold(name, lease)
            if self.now % _REPORT_S == 0:
                self._report()
            for device in tuple(self.devices.values()):
                if (self.now - device.joined_at) % _RENEW_S == 0 and device.lease:
                    peer = self._world.peer(device.name)
                    self._deliver(self.book.renew(peer, device.lease.lease, self.now))
            self._deliver(self.book.tick(self.now))
            self.fewest[min(map(len, self.domains().values()))] += 1
        return self

    def change_demand(self) -> None:
        """Have other experts be hot from now on."""
        values = list(self.demand.values())
        self.rng.shuffle(values)
        self.demand = dict(zip(self.experts, values, strict=True))
        self._report()

    @property
    def n_fetched(self) -> int:
        """How often anything was fetched so far, by whoever is or was there."""
        return self._n_fetched

    def most_fetches_of_one(self) -> int:
        """Return how often a device at most fetched one and the same expert."""
        return max(n for d in self.devices.values() for n in d.fetched.values())

    def fewest_since_last(self) -> list[int]:
        """Return in how many domains the worst expert was live, step by step."""
        seen, self.fewest = self.fewest, Counter()
        return sorted(seen.elements())

    def demands_held_by(self, device_class: DeviceClass) -> list[float]:
        """Return how much all that the devices of a class hold is used."""
        return [
            self.demand[expert]
            for device in self.devices.values()
            if device.device_class is device_class
            for expert in device.holds
        ]

    def domains(self) -> dict[ExpertId, set[str]]:
        """Return in which domains each expert is live."""
        found: dict[ExpertId, set[str]] = {expert: set() for expert in self.experts}
        for lease in self.book.leases:
            for expert in lease.live:
                found[expert].add(self.book.roster.workers[lease.worker].device.domain)
        return found

    def _report(self) -> None:
        counts = tuple((e, round(20 * demand)) for e, demand in self.demand.items())
        name = manifest_hash(self.model)
        self._deliver(
            self._world.demand("backbone", name, has_disk=False, counts=counts)
        )

    def _hold(self, name: str, lease: wire.Lease) -> None:
        device = self.devices.get(name)
        if device is None or device.lease is not lease:
            return
        new = set(lease.experts) - device.holds
        device.fetched.update(new)
        self._n_fetched += len(new)
        device.holds = set(lease.experts)
        held = wire.Held(lease=lease.lease, experts=lease.experts)
        self._deliver(self.book.held(self._world.peer(name), held, self.now))

    def _deliver(self, sends: Sequence[Send]) -> None:
        for send in sends:
            name = self._names.get(send.peer)
            device = self.devices.get(name or "")
            if device is not None and isinstance(send.message, wire.Lease):
                device.lease = send.message
                device.holds &= set(send.message.experts)
                due = self.now + self._fetch_s
                self._fetching[due].append((device.name, send.message))
