"""The relay map in the operator's folder, and what its commands do to it."""

import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.network.errors import FolderUnusable, NetworkError
from p2pmoe.network.folder import OperatorFolder
from p2pmoe.network.network import Network
from p2pmoe.network.relays import (
    RelayMapBroken,
    RelayMapFile,
    RelayNotInMap,
    add_entry,
    drain_entry,
    read_map,
    remove_entry,
)
from relay.errors import EndpointError
from relay.relay_map import RelayEntry, parse_map
from tests.support.relays import NETWORK, key

ID = key(1).peer_id
URL = f"wss://one.example:8443/relay#{ID.hex()}"
OTHER = RelayEntry("wss://two.example/relay", key(2).peer_id)
OURS = Network(key(3))
ONE = add_entry((OTHER,), URL, region="eu", weight=7)


@pytest.fixture
def folder(tmp_path: Path) -> OperatorFolder:
    return OperatorFolder(tmp_path / "folder")


def test_each_change_makes_the_next_version(folder: OperatorFolder) -> None:
    file = RelayMapFile.open(folder, OURS)
    assert file.current is None
    assert file.entries == ()
    first = file.replace(ONE)
    second = file.replace(remove_entry(file.entries, URL))
    assert (first.version, second.version) == (1, 2)
    again = RelayMapFile.open(folder, OURS)
    assert again.current == second
    assert again.entries == (OTHER,)
    assert parse_map(folder.relay_map.read_bytes()) == second
    assert stat.S_IMODE(folder.relay_map.stat().st_mode) == 0o644
    assert [p.name for p in folder.path.iterdir()] == ["relays.map"]


def test_an_entry_is_added_or_changed() -> None:
    entry = RelayEntry("wss://one.example:8443/relay", ID, "eu", 7)
    assert list(ONE) == [OTHER, entry]
    assert add_entry(ONE, URL, region="", weight=1)[1].weight == 1


@pytest.mark.parametrize(
    "url", ["wss://one.example", "ws://one.example#" + ID.hex(), "wss:#" + ID.hex()]
)
def test_what_is_no_relays_url_is_refused(url: str) -> None:
    with pytest.raises((NetworkError, EndpointError), match="relay URL"):
        add_entry((), url, region="", weight=1)


@pytest.mark.parametrize("named", [URL, URL.partition("#")[0], ID.hex(), ID.hex()[:8]])
def test_a_relay_is_named_by_url_or_id(named: str) -> None:
    assert remove_entry(ONE, named) == (OTHER,)
    drained = drain_entry(ONE, named, draining=True)
    assert [entry.draining for entry in drained] == [False, True]
    assert drain_entry(drained, named, draining=False) == ONE


@given(st.text(max_size=40))
def test_what_names_no_relay_is_refused(named: str) -> None:
    with pytest.raises(RelayNotInMap, match="no relay"):
        remove_entry(ONE, named)


def test_an_id_of_several_shards_names_none() -> None:
    twice = add_entry(ONE, URL.replace("/relay", "/relay/2"), region="", weight=1)
    with pytest.raises(RelayNotInMap, match="2 relays"):
        remove_entry(twice, ID.hex())
    assert len(remove_entry(twice, URL)) == 2


def test_a_value_out_of_range_changes_nothing(folder: OperatorFolder) -> None:
    file = RelayMapFile.open(folder, OURS)
    with pytest.raises(RelayMapBroken, match="region"):
        file.replace(add_entry((), URL, region="Two Words", weight=1))
    assert not folder.relay_map.exists()


def test_another_networks_map_or_none_at_all(folder: OperatorFolder) -> None:
    RelayMapFile.open(folder, OURS).replace(ONE)
    with pytest.raises(RelayMapBroken, match="network"):
        read_map(folder.relay_map, NETWORK.peer_id)
    folder.relay_map.write_bytes(b"x" * 10_000)
    with pytest.raises(RelayMapBroken, match=r"relays.map"):
        RelayMapFile.open(folder, OURS)
    folder.relay_map.write_bytes(b"x" * 100_000)
    with pytest.raises(FolderUnusable, match=r"relays.map is larger"):
        RelayMapFile.open(folder, OURS)
    folder.relay_map.unlink()
    assert read_map(folder.relay_map, NETWORK.peer_id) is None
    folder.relay_map.mkdir()
    with pytest.raises(FolderUnusable, match="cannot read"):
        RelayMapFile.open(folder, OURS)
