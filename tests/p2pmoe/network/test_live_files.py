"""What a running relay reads anew: all together, nothing broken, nothing older."""

import ipaddress
from dataclasses import replace
from pathlib import Path

import pytest

from p2pmoe.errors import ConfigurationError
from p2pmoe.network.folder import OperatorFolder
from p2pmoe.network.live_files import LiveFiles
from p2pmoe.network.network import Network
from p2pmoe.network.revoking import revoke
from relay.live import LiveSettings
from relay.relay_map import RelayEntry, RelayMap, sign_map
from relay.tokens import RateClass
from tests.support.relays import NETWORK, key

PROXIES = (ipaddress.ip_network("10.0.0.0/8"),)


@pytest.fixture
def files(tmp_path: Path) -> LiveFiles:
    return LiveFiles(
        folder=OperatorFolder(tmp_path),
        network=NETWORK.peer_id,
        limits=tmp_path / "limits.toml",
        trusted_proxies=PROXIES,
    )


def write_map(files: LiveFiles, version: int) -> None:
    entry = RelayEntry("wss://a.example/relay", key(1).peer_id)
    made = RelayMap(network=NETWORK.peer_id, version=version, entries=(entry,))
    encoded = sign_map(made, NETWORK.sign).encoded
    files.folder.relay_map.write_bytes(encoded)


def write_all(files: LiveFiles) -> None:
    assert files.limits is not None
    files.limits.write_text("[phone]\nframes_s = 7\n")
    write_map(files, 3)
    revoke(files.folder, Network(NETWORK), peers=[key(2).peer_id])


def test_without_files_there_is_what_is_built_in(files: LiveFiles) -> None:
    live = replace(files, limits=None).read()
    assert live == LiveSettings(trusted_proxies=PROXIES)


def test_all_files_are_read(files: LiveFiles) -> None:
    write_all(files)
    live = files.read()
    assert live.rates[RateClass.PHONE].frames_s == 7
    assert live.map_version == 3
    assert live.revoked.peers == {key(2).peer_id}
    assert files.read(live) == live


def test_what_is_older_or_gone_is_refused_while_a_relay_runs(files: LiveFiles) -> None:
    write_all(files)
    held = files.read()
    write_map(files, 2)
    with pytest.raises(ConfigurationError, match="of version 2, and version 3 is in"):
        files.read(held)
    assert files.read().map_version == 2
    write_map(files, 4)
    files.folder.revocations.unlink()
    with pytest.raises(ConfigurationError, match="revocations is gone"):
        files.read(held)


@pytest.mark.parametrize("name", ["limits.toml", "relays.map", "revocations"])
def test_a_broken_file_is_named(files: LiveFiles, name: str) -> None:
    write_all(files)
    (files.folder.path / name).write_bytes(b"\xff broken")
    with pytest.raises(ConfigurationError, match=name):
        files.read()
