"""Moves between experts: only for a clear gain, made before broken.

A device that already holds experts is moved from one to another only if the need of
the new one is more than 25 % above that of the old one (both counted without the
device itself), and only after a minimum hold. If there is room, the new expert comes
first and the old one goes when the new one is held; if not, the two change places, and
never where that would leave the old one below its floor. The last holder that is no
phone or browser never moves away from phones that hold the expert too.

Need is T / max(R, 1/2), weighed by demand for hubs (they keep the hottest), near zero
for what the backbone has at hand, zero for a phone outside the tail.

Pure. Source: design/06, "Assignment"; petals#84 (move only for a known gain).
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from p2pmoe.market.assignment import Assignment
from p2pmoe.market.coverage import FULL_PERMILLE, is_met
from p2pmoe.market.devices import Device, ExpertKey
from p2pmoe.market.wanted import Order, WantedState, order_of

__all__ = ["MIN_GAIN", "Move", "need", "plan_moves"]

MIN_GAIN = 1.25
_AT_HAND_NEED = 0.1
_LEAST_COVERAGE = FULL_PERMILLE // 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One device gives up `drop` for `take`; `has_room` says both fit for a while."""

    device: Device
    drop: ExpertKey
    take: ExpertKey
    has_room: bool


def need(state: WantedState, device: Device) -> float:
    """Return how much the expert needs this device, counted without the device."""
    wanted = state.wanted
    order = order_of(device.device_class)
    if order is Order.TAIL and not wanted.in_tail:
        return 0.0
    if wanted.at_hand:
        return _AT_HAND_NEED
    coverage = state.by_hubs if order is Order.HUB else state.coverage
    if wanted.key in device.held:
        permille = coverage.without(device.domain, device.availability)
    else:
        permille = coverage.permille
    base = max(wanted.target, 1) * FULL_PERMILLE / max(permille, _LEAST_COVERAGE)
    return base * wanted.demand if order is Order.HUB else base


def plan_moves(
    assignment: Assignment,
    devices: Iterable[Device],
    movable: Collection[tuple[bytes, ExpertKey]],
    max_moves: int,
) -> list[Move]:
    """Return up to `max_moves` moves, at most one a device and one an expert.

    `movable` names the (device, expert) pairs that are live and have been held for the
    minimum time. Nothing is changed here.
    """
    moves: list[Move] = []
    in_motion: set[ExpertKey] = set()
    for device in devices:
        if len(moves) >= max_moves:
            break
        move = _best_move(assignment, device, movable)
        if move is None or in_motion & {move.drop, move.take}:
            continue
        in_motion |= {move.drop, move.take}
        moves.append(move)
    return moves


def _best_move(
    assignment: Assignment,
    device: Device,
    movable: Collection[tuple[bytes, ExpertKey]],
) -> Move | None:
    dropped = min(
        _droppable(assignment, device, movable), key=lambda pair: pair[0], default=None
    )
    if dropped is None:
        return None
    old_need, old = dropped
    old_bytes = device.held[old]
    taken = assignment.neediest(device, max(device.room_bytes, 0) + old_bytes)
    if taken is None:
        return None
    state = assignment.states[taken]
    if need(state, device) <= MIN_GAIN * old_need:
        return None
    has_room = state.wanted.n_bytes <= device.room_bytes
    if not has_room and not _floor_stands_without(assignment.states[old], device):
        return None
    return Move(device=device, drop=old, take=taken, has_room=has_room)


def _droppable(
    assignment: Assignment,
    device: Device,
    movable: Collection[tuple[bytes, ExpertKey]],
) -> Iterator[tuple[float, ExpertKey]]:
    for key in device.held:
        state = assignment.states[key]
        if (device.name, key) in movable and not _is_last_steady(state, device):
            yield need(state, device), key


def _is_last_steady(state: WantedState, device: Device) -> bool:
    if device.is_mobile or not state.n_mobile or not state.wanted.floor:
        return False
    return state.n_replicas - state.n_mobile == 1


def _floor_stands_without(state: WantedState, device: Device) -> bool:
    left = state.coverage.without(device.domain, device.availability)
    return is_met(left, state.wanted.floor)
