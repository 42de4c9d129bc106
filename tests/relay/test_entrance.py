"""One connection at the gate: what it gives back, and when."""

import trio

from relay.entrance import Entrance
from relay.gate import AddressGate, GateLimits, Origin
from tests.support.relays import key
from tests.support.trio_test import trio_test

ADDRESS = "192.0.2.1"


def entrance(gate: AddressGate, left: list[int], origin=Origin.PEER) -> Entrance:
    admitted = gate.enter(ADDRESS, origin, trio.current_time())
    assert admitted is not None
    return Entrance(
        gate=gate,
        admitted=admitted,
        remote=ADDRESS,
        is_front=not admitted.settled,
        on_leave=lambda _: left.append(1),
    )


@trio_test
async def test_it_leaves_once() -> None:
    gate = AddressGate(GateLimits(per_address_open=1), trio.current_time())
    left: list[int] = []
    first = entrance(gate, left)
    assert not first.needs_ticket
    assert first.address == ADDRESS
    assert not first.wants_ticket_of(None)
    first.leave(proven=True)
    first.leave()
    assert left == [1]
    assert not entrance(gate, left).needs_ticket
    await trio.lowlevel.checkpoint()


@trio_test
async def test_above_the_rate_it_wants_a_ticket_and_not_too_often() -> None:
    limits = GateLimits(per_address_open=0, lane_peer_burst=1)
    gate = AddressGate(limits, trio.current_time())
    here = entrance(gate, [])
    assert here.needs_ticket
    assert here.wants_ticket_of(None)
    assert not here.wants_ticket_of(key(1).peer_id)
    assert here.wants_ticket_of(key(1).peer_id)
    await trio.lowlevel.checkpoint()


@trio_test
async def test_a_fronts_connection_is_settled_later() -> None:
    limits = GateLimits(per_address_burst=1, lane_open=0)
    gate = AddressGate(limits, trio.current_time())
    first, second = (entrance(gate, [], Origin.FRONT) for _ in range(2))
    assert first.is_front
    assert first.settle("198.51.100.1")
    assert not second.settle("198.51.100.1")
    await trio.lowlevel.checkpoint()


@trio_test
async def test_a_place_in_the_lane_goes_to_another_address() -> None:
    limits = GateLimits(per_address_open=0, lane_open=2)
    gate = AddressGate(limits, trio.current_time())
    left: list[int] = []
    dawdling = [entrance(gate, left, Origin.FRONT) for _ in range(2)]
    assert all(each.settle(ADDRESS) for each in dawdling)
    assert gate.enter("192.0.2.2", Origin.PEER, trio.current_time())
    assert left == [1]
    with dawdling[0].scope as scope:
        await trio.sleep_forever()
    assert scope.cancelled_caught
