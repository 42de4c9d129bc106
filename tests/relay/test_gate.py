"""The gate: addresses, all together, and the lane for those that come back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.gate import (
    AddressGate,
    GateLimits,
    Lane,
    Origin,
    Pass,
    address_key,
    crowded_out,
)
from tests.support.relays import key

WIDE = {"all_s": 1e9, "all_burst": 1e9}
PHONES = "192.0.2.1"


def gate(**changes) -> AddressGate:
    return AddressGate(GateLimits(**(WIDE | changes)), 0.0)


def entered(
    at: AddressGate, address: str, n: int, now: float = 0.0, origin=Origin.PEER
) -> list[Pass]:
    found = [at.enter(address, origin, now) for _ in range(n)]
    return [each for each in found if each is not None]


def in_lane(passes: list[Pass]) -> list[Pass]:
    return [each for each in passes if each.needs_ticket]


@pytest.mark.parametrize(
    ("address", "key"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3::9", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("nonsense", "nonsense"),
    ],
)
def test_what_connections_are_counted_by(address: str, key: str) -> None:
    assert address_key(address) == key


def test_an_address_has_a_burst_and_then_a_rate() -> None:
    at = gate(per_address_open=1000, lane_open=0)
    assert len(entered(at, PHONES, 50)) == 20
    assert entered(at, "192.0.2.2", 1)
    assert len(entered(at, PHONES, 50, 1.0)) == 5


def test_an_address_has_so_many_handshakes_at_once() -> None:
    at = gate(per_address_burst=100, lane_open=0)
    first, *_ = inside = entered(at, "2001:db8::1", 50)
    assert len(inside) == 32
    assert not entered(at, "2001:db8::2", 1)
    at.leave(first, proven=False, now=0.0)
    at.leave(first, proven=False, now=0.0)  # once is enough
    assert len(entered(at, "2001:db8::2", 9)) == 1


def test_no_second_sees_more_than_a_hundred() -> None:
    at = AddressGate(GateLimits(), 0.0)
    times = [n / 1000 for n in range(20_000)]
    joined = [
        now
        for n, now in enumerate(times)
        if at.enter(f"10.0.{n // 256 % 256}.{n % 256}", Origin.PEER, now)
    ]
    assert 1250 < len(joined) <= 1320
    for n, began in enumerate(joined):
        within = [now for now in joined[n : n + 150] if now < began + 1]
        assert len(within) <= 86  # a few more may come late, from the second before


def test_this_host_has_no_rate_of_its_own() -> None:
    at = AddressGate(GateLimits(), 0.0)
    passes = entered(at, "127.0.0.1", 300, origin=Origin.LOCAL)
    assert len(passes) == 20
    for each in passes:
        at.leave(each, proven=False, now=0.0)
    for number in range(50):  # the rest is for others, who leave this host its own
        entered(at, f"192.0.2.{number}", 1, now=1.0)
    assert not entered(at, PHONES, 1, now=1.0)
    assert entered(at, "127.0.0.1", 1, now=1.0, origin=Origin.LOCAL)


def test_what_is_refused_for_all_together_costs_its_address_nothing() -> None:
    at = AddressGate(GateLimits(all_s=1, all_burst=1), 0.0)
    assert len(entered(at, PHONES, 30)) == 1
    assert len(entered(at, PHONES, 1, 1.0)) == 1


def test_above_its_rate_an_address_has_a_lane_for_tickets() -> None:
    at = gate(lane_open=1000)
    passes = entered(at, PHONES, 200)
    assert len(passes) == 20 + 50
    assert len(in_lane(passes)) == 50
    assert not in_lane(passes[:20])


def test_a_proof_gives_the_place_in_the_lane_back_and_a_failure_does_not() -> None:
    at = gate()
    entered(at, PHONES, 20)
    for _ in range(500):  # all come back at once, and each proves its ticket
        (one,) = entered(at, PHONES, 1)
        assert one.lane is Lane.TICKET
        at.leave(one, proven=True, now=0.0)
    n_failed = 0
    while found := entered(at, PHONES, 1):
        n_failed += 1
        at.leave(found[0], proven=False, now=0.0)
    assert n_failed == 50
    assert len(entered(at, PHONES, 20, 0.1)) == 1
    assert entered(at, "192.0.2.2", 1)  # another address has its own


def test_only_so_many_are_in_the_lane_at_once() -> None:
    at = gate(per_address_burst=1)
    addresses = [f"192.0.2.{n}" for n in range(8)]
    for address in addresses:
        entered(at, address, 10)
    assert len(at._lane) == 32


def test_who_fills_the_lane_gives_way_to_another_address() -> None:
    at, gone = gate(per_address_burst=1), []
    dawdling = in_lane(entered(at, "192.0.2.1", 60))
    assert len(dawdling) == 32
    for number, each in enumerate(dawdling):

        def give_way(each: Pass = each, number: int = number) -> None:
            gone.append(number)
            at.leave(each, proven=False, now=0.0)

        each.give_way = give_way
    phones = in_lane(entered(at, PHONES.replace(".1", ".2"), 60))
    assert len(phones) == 16  # as many as are left to the other
    assert gone == list(range(16))
    assert not entered(at, "192.0.2.1", 9)
    assert len(at._lane) == 32


@pytest.mark.parametrize(
    ("in_flight", "newcomer", "at"),
    [
        ("", "a", None),
        ("aab", "c", 0),
        ("baa", "c", 1),
        ("abc", "d", None),  # one each: nobody has too many
        ("aab", "a", None),
        ("aab", "b", None),
        ("aaab", "b", 0),
        ("baaa", "b", 1),
    ],
)
def test_who_gives_way_where_all_places_are_taken(
    in_flight: str, newcomer: str, at: int | None
) -> None:
    assert crowded_out(list(in_flight), newcomer) == at


@given(st.lists(st.sampled_from("abcde"), max_size=64), st.sampled_from("abcdef"))
def test_nobody_gives_way_to_one_who_has_as_many(in_flight, newcomer: str) -> None:
    at = crowded_out(in_flight, newcomer)
    counts = {each: in_flight.count(each) for each in "abcdef"}
    if at is None:
        assert max(counts.values()) < counts[newcomer] + 2
    else:
        assert counts[in_flight[at]] == max(counts.values()) > counts[newcomer]
        assert in_flight[at] not in in_flight[:at]


def test_one_ticket_is_good_for_so_many_attempts() -> None:
    at, peer = gate(), key(1).peer_id
    assert sum(at.show_ticket(peer, 0.0) for _ in range(20)) == 5
    assert at.show_ticket(key(2).peer_id, 0.0)
    assert sum(at.show_ticket(peer, 5.0) for _ in range(20)) == 1


def test_a_fronts_connection_is_counted_where_the_front_says() -> None:
    at = gate(lane_open=0)
    passes = entered(at, "127.0.0.1", 60, origin=Origin.FRONT)
    assert len(passes) == 60
    assert sum(at.settle(each, PHONES, 0.0) for each in passes) == 20
    assert at.settle(passes[0], "192.0.2.2", 0.0)  # settled once
    other = entered(at, "127.0.0.1", 2, origin=Origin.FRONT)
    assert at.settle(other[0], "192.0.2.2", 0.0)
    assert at.settle(other[1], None, 0.0)
    at.leave(passes[0], proven=False, now=0.0)


def test_a_front_does_not_lift_the_limit_of_all_together() -> None:
    at = AddressGate(GateLimits(), 0.0)
    passes = entered(at, "127.0.0.1", 50, origin=Origin.FRONT)
    assert sum(at.settle(each, None, 0.0) for each in passes) == 20


def test_the_memory_of_addresses_is_bounded() -> None:
    at = gate()
    for n in range(12_000):
        address = f"10.{n // 65536}.{n // 256 % 256}.{n % 256}"
        (one,) = entered(at, address, 1, n * 0.001)
        at.leave(one, proven=False, now=n * 0.001)
    assert len(at._addresses._buckets) <= 10_000
    assert not at._open


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b", "127.0.0.1"]),
            st.sampled_from(Origin),
            st.booleans(),
            st.booleans(),
        ),
        max_size=200,
    )
)
def test_places_are_all_given_back(steps) -> None:
    at = gate(per_address_burst=3, per_address_open=2, lane_open=4)
    inside: list[Pass] = []
    for now, (address, origin, settles, proven) in enumerate(steps):
        found = at.enter(address, origin, now / 10)
        if found is not None:
            inside.append(found)
            if settles:
                at.settle(found, "c", now / 10)
        elif inside:
            at.leave(inside.pop(), proven=proven, now=now / 10)
        assert 0 <= len(at._lane) <= 4
        assert all(0 < n <= 2 for n in at._open.values())
    for each in inside:
        at.leave(each, proven=False, now=100.0)
    assert not at._open
    assert len(at._lane) == 0
