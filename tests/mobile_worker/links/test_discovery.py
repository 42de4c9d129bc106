"""What is announced on the local network, and what of it is believed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mobile_worker.links.dialling import split_address
from mobile_worker.links.discovery import (
    Found,
    Hints,
    announced_hosts,
    lan_name,
    parse_found,
)
from relay.keys import PeerId

NETWORK, OTHER_NETWORK = b"n" * 32, b"o" * 32
ONE, OTHER = PeerId(b"1" * 32), PeerId(b"2" * 32)
NAME = lan_name(NETWORK, ONE)
HERE = ("192.168.1.7:7400",)


def test_a_name_tells_only_those_who_know_network_and_peer() -> None:
    assert len(NAME) == 32
    assert len({NAME, lan_name(OTHER_NETWORK, ONE), lan_name(NETWORK, OTHER)}) == 3
    assert ONE.hex()[:8] not in NAME


def test_an_announcement_is_taken_apart() -> None:
    hosts = ["127.0.0.1", "192.168.1.7", "169.254.3.3", "10.0.0.2", "10.0.0.2", "::1"]
    found = parse_found(NAME, hosts, 7400)
    assert found == Found(NAME, ("192.168.1.7:7400", "10.0.0.2:7400"))


@pytest.mark.parametrize(
    ("name", "hosts", "port"),
    [
        ("", ["10.0.0.2"], 7400),
        (NAME[:-1], ["10.0.0.2"], 7400),
        (NAME[:-1] + "G", ["10.0.0.2"], 7400),
        (NAME, [], 7400),
        (NAME, ["127.0.0.1", "239.1.1.1", "224.0.0.251", "host.local"], 7400),
        (NAME, ["10.0.0.2"], None),
        (NAME, ["10.0.0.2"], 0),
        (NAME, ["10.0.0.2"], 65_536),
    ],
)
def test_what_is_no_announcement_of_ours(
    name: str, hosts: list[str], port: int | None
) -> None:
    assert parse_found(name, hosts, port) is None


@given(st.text(max_size=40), st.lists(st.text(max_size=20)), st.integers())
def test_anything_may_be_announced(name: str, hosts: list[str], port: int) -> None:
    found = parse_found(name, [*hosts, "10.0.0.2"], port)
    if found is not None:
        assert 0 < len(found.addresses) <= 4
        for address in found.addresses:
            assert split_address(address)[1] == port


def test_many_addresses_are_not_looked_at() -> None:
    hosts = [f"10.0.{n}.1" for n in range(256)]
    assert len(announced_hosts(hosts)) == 64
    found = parse_found(NAME, hosts, 7400)
    assert found is not None
    assert len(found.addresses) == 4


@pytest.fixture
def hints() -> Hints:
    return Hints(lambda: NETWORK)


def test_a_wanted_peer_is_told_when_it_is_found_somewhere_new(hints: Hints) -> None:
    assert hints.heed(Found(NAME, HERE)) is None  # nobody asked for it yet
    assert hints.of(ONE) == HERE
    assert hints.heed(Found(NAME, HERE)) is None
    assert hints.heed(Found(NAME, ("10.0.0.2:7400",))) == ONE
    assert hints.of(ONE) == ("10.0.0.2:7400",)
    assert hints.of(OTHER) == ()
    assert hints.heed(Found(lan_name(NETWORK, OTHER), HERE)) == OTHER


def test_who_leaves_is_forgotten(hints: Hints) -> None:
    hints.heed(Found(NAME, HERE))
    assert hints.heed(Found(NAME, ())) is None
    assert hints.of(ONE) == ()
    assert hints.heed(Found(NAME, HERE)) == ONE


def test_names_without_end_are_not_kept(hints: Hints) -> None:
    for number in range(3000):
        hints.heed(Found(f"{number:032x}", HERE))
    assert len(hints._found) == 1024


def test_the_network_may_be_known_later() -> None:
    network = [OTHER_NETWORK]
    hints = Hints(lambda: network[0])
    hints.heed(Found(NAME, HERE))
    assert hints.of(ONE) == ()
    network[0] = NETWORK
    assert hints.of(ONE) == HERE
