"""Moves under way: which are begun now, and what is dropped when they are finished.

A move with room for both experts is two steps: the new one is leased, and only when
its worker reports it held is the old one withdrawn. Without room the two change places
at once. In both cases the old one goes only if what is live elsewhere keeps its floor,
with one device among it that is no phone or browser; else it stays. An expert stays
at least ten times as long as it took to fetch, within 5 s and 10 minutes.

At most 2,000 workers are looked at in one round, and one in twenty of them moves.
Source: design/06, "Assignment" (hysteresis, make before break).
"""

from collections.abc import Iterable, Iterator

from p2pmoe.market.assignment import Assignment
from p2pmoe.market.coverage import Replica, coverage_permille, is_met
from p2pmoe.market.deployments import expert_of, key_of
from p2pmoe.market.devices import ExpertKey
from p2pmoe.market.lease import Lease, LeaseTable
from p2pmoe.market.rebalance import Move, plan_moves
from p2pmoe.market.roster import Roster, Worker
from relay.keys import PeerId

__all__ = ["Moving"]

_ROUND_WORKERS = 2_000
_LEAST_MOVES = 8
_MIN_HOLD_S, _MAX_HOLD_S = 5.0, 600.0
_HOLD_FACTOR = 10.0


class Moving:
    """Plans moves over the market's own tables, and keeps those under way."""

    def __init__(
        self, assignment: Assignment, leases: LeaseTable, roster: Roster
    ) -> None:
        self._assignment = assignment
        self._leases = leases
        self._roster = roster
        self._drops: dict[PeerId, dict[ExpertKey, ExpertKey]] = {}  # take -> drop
        self._cursor = 0

    def begin(self, now: float) -> list[tuple[Worker, Move]]:
        """Begin moves: the new experts are counted, but not leased yet.

        Of a move without room the old expert is withdrawn already.
        """
        workers = self._next_round()
        movable = {
            (worker.peer, key)
            for worker in workers
            for key in self._movable(worker, now)
        }
        most = max(_LEAST_MOVES, len(workers) // 20)
        devices = [worker.device for worker in workers]
        begun = []
        for move in plan_moves(self._assignment, devices, movable, most):
            worker = self._roster.workers[PeerId(move.device.name)]
            if move.has_room:
                self._drops.setdefault(worker.peer, {})[move.take] = move.drop
            elif self._stands_without(worker, move.drop):
                self._withdraw(worker, move.drop)
            else:
                continue
            self._assignment.hold(worker.device, move.take)
            begun.append((worker, move))
        return begun

    def finish(self, worker: Worker, held: Iterable[ExpertKey]) -> list[Lease]:
        """The worker holds these: drop what they replace; return changed leases."""
        drops = self._drops.get(worker.peer)
        if not drops:
            return []
        changed = []
        for key in held:
            old = drops.pop(key, None)
            if old is not None and self._stands_without(worker, old):
                changed += self._withdraw(worker, old)
        if not drops:
            del self._drops[worker.peer]
        return list(dict.fromkeys(changed))

    def cancel(self, peer: PeerId, key: ExpertKey) -> None:
        """The expert is being withdrawn for another reason: no move with it goes on."""
        drops = self._drops.get(peer, {})
        for take, drop in list(drops.items()):
            if key in (take, drop):
                del drops[take]

    def forget(self, peer: PeerId) -> None:
        """The worker is gone: nothing of it moves."""
        self._drops.pop(peer, None)

    def _next_round(self) -> list[Worker]:
        there = [
            worker
            for worker in self._roster.workers.values()
            if not worker.is_draining and worker.peer not in self._drops
        ]
        if len(there) <= _ROUND_WORKERS:
            return there
        self._cursor %= len(there)
        picked = (there + there)[self._cursor : self._cursor + _ROUND_WORKERS]
        self._cursor += _ROUND_WORKERS
        return picked

    def _movable(self, worker: Worker, now: float) -> Iterator[ExpertKey]:
        for lease in self._leases.of_worker(worker.peer):
            number = self._roster.listings[lease.deployment].number
            for expert in lease.live:
                held_at = lease.held_since[expert]
                fetch_s = held_at - lease.experts[expert]
                least = min(max(_HOLD_FACTOR * fetch_s, _MIN_HOLD_S), _MAX_HOLD_S)
                if now - held_at >= least:
                    yield key_of(number, expert)

    def _stands_without(self, worker: Worker, key: ExpertKey) -> bool:
        """Tell whether what is live elsewhere keeps the expert's floor, steadily.

        Nobody on probation is relied on.
        """
        floor = self._assignment.states[key].wanted.floor
        if floor == 0:
            return True
        expert = expert_of(key)
        devices = [
            self._roster.workers[lease.worker].device
            for lease in self._leases.of_deployment(
                self._roster.listing_of(key).deployment
            )
            if lease.worker != worker.peer and lease.has_live(expert)
        ]
        devices = [device for device in devices if not device.on_probation]
        left = coverage_permille(
            Replica(domain=device.domain, availability=device.availability)
            for device in devices
        )
        is_steady = any(not device.is_mobile for device in devices)
        return is_steady and is_met(left, floor)

    def _withdraw(self, worker: Worker, key: ExpertKey) -> list[Lease]:
        if key in worker.device.held:
            self._assignment.release(worker.device, key)
        deployment = self._roster.listing_of(key).deployment
        lease = self._leases.find(worker.peer, deployment)
        if lease is None:
            return []
        self._leases.withdraw(lease, [expert_of(key)], by_market=True)
        return [lease]
