"""The choice of homes: spread by weight, near ones first, few moves."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mobile_worker.links.homes import (
    Candidate,
    candidates_of,
    choose_homes,
    n_homes,
    rank,
    reachable_names,
)
from relay.endpoint import Endpoint, parse_endpoint
from relay.relay_map import RelayEntry, RelayMap
from relay.tokens import Role
from tests.support.relays import NETWORK, key

N_PEERS = 2000
PEERS = [number.to_bytes(32, "big") for number in range(N_PEERS)]


def entry(number: int, **changes) -> RelayEntry:
    made = RelayEntry(f"wss://r{number}.example/relay", key(number).peer_id)
    return replace(made, **changes)


def relay_map(*entries: RelayEntry) -> RelayMap:
    return RelayMap(NETWORK.peer_id, 1, entries)


FIVE = candidates_of(relay_map(*(entry(n) for n in range(1, 6))), ())


def firsts(candidates, n: int = 1, **known) -> Counter:
    return Counter(
        each.name for peer in PEERS for each in rank(peer, candidates, **known)[:n]
    )


def test_peers_spread_evenly_and_by_weight() -> None:
    for count in firsts(FIVE).values():
        assert 0.8 < count / (N_PEERS / 5) < 1.2
    heavy = (replace(FIVE[0], weight=300), *FIVE[1:])
    share = firsts(heavy)[FIVE[0].name] / N_PEERS
    assert 3 / 7 - 0.05 < share < 3 / 7 + 0.05


def test_a_relay_that_goes_moves_only_its_own_peers() -> None:
    fewer = FIVE[:-1]
    for peer in PEERS[:300]:
        before, after = rank(peer, FIVE), rank(peer, fewer)
        assert after == [each for each in before if each is not FIVE[-1]]


def test_near_relays_come_first_and_jitter_changes_nothing() -> None:
    near = dict.fromkeys((each.key for each in FIVE), 0.15)
    near[FIVE[2].key] = 0.004
    assert firsts(FIVE, trips_s=near)[FIVE[2].name] / N_PEERS > 0.9
    a = dict.fromkeys((each.key for each in FIVE), 0.0101)
    b = {each.key: 0.001 * n for n, each in enumerate(FIVE)}
    assert firsts(FIVE, trips_s=a) == firsts(FIVE, trips_s=b) == firsts(FIVE)


def test_draining_and_unreachable_relays_come_last() -> None:
    drained = (replace(FIVE[0], draining=True), *FIVE[1:])
    down = {FIVE[1].key}
    for peer in PEERS[:100]:
        ranked = rank(peer, drained, down=down)
        assert ranked[-1] is FIVE[1]
        assert ranked[-2] is drained[0]


@given(
    st.binary(min_size=32, max_size=32),
    st.dictionaries(
        st.sampled_from([each.key for each in FIVE]),
        st.floats(allow_nan=False),
    ),
)
def test_any_round_trips_give_an_order_of_all(own: bytes, trips: dict) -> None:
    assert set(rank(own, FIVE, trips_s=trips)) == set(FIVE)


def test_where_we_are_at_home_already_comes_first() -> None:
    assert choose_homes(FIVE, 2, {FIVE[1].key}) == (FIVE[1], FIVE[0])
    assert choose_homes(FIVE, 2, {FIVE[4].key}) == FIVE[:2]


@pytest.mark.parametrize(
    ("role", "has_map", "n"),
    [
        (Role.WORKER, True, 2),
        (Role.MARKET, True, 8),
        (Role.LEDGER, True, 8),
        (Role.MARKET, False, 2),
    ],
)
def test_how_many_homes(role: Role, has_map: bool, n: int) -> None:
    assert n_homes(role, has_map=has_map) == n


def test_without_a_map_the_given_relays_are_all_there_is() -> None:
    one, two = parse_endpoint("wss://one.example"), entry(2).endpoint
    assert candidates_of(None, (one, two, one)) == (
        Candidate(one, "wss://one.example/relay"),
        Candidate(two, str(two)),
    )
    assert candidates_of(relay_map(), (one,)) == candidates_of(None, (one,))


def test_a_relay_of_the_map_is_dialled_as_it_was_given() -> None:
    inside = Endpoint("wss://127.0.0.1:5/relay", key(1).peer_id, Path("ca.pem"))
    found = candidates_of(relay_map(entry(1), entry(2, draining=True)), (inside,))
    assert found[0] == Candidate(inside, str(entry(1).endpoint))
    ca = replace(entry(2).endpoint, ca_file=Path("ca.pem"))
    assert found[1] == Candidate(ca, str(entry(2).endpoint), draining=True)


def test_only_relays_of_our_network_are_visited() -> None:
    names = [FIVE[3].name, "wss://evil.example/relay", FIVE[3].endpoint.url]
    assert reachable_names(names, FIVE) == [FIVE[3]]
