"""The network that a relay serves: by its key, or by its descriptor alone."""

from pathlib import Path

import pytest

from p2pmoe.errors import ConfigurationError
from p2pmoe.network.errors import FolderUnusable
from p2pmoe.network.folder import OperatorFolder
from p2pmoe.network.hosted import hosted_network
from tests.support.relays import key


def test_with_the_key_the_descriptor_is_written_for_other_hosts(tmp_path: Path) -> None:
    home, other = OperatorFolder(tmp_path / "a"), OperatorFolder(tmp_path / "b")
    mine = hosted_network(home, None, None, only=False)
    assert mine.signer is not None
    raw = home.descriptor.read_bytes()
    assert raw == mine.descriptor.encoded
    other.descriptor.write_bytes(raw)
    theirs = hosted_network(other, None, None, only=True)
    assert theirs.signer is None
    assert theirs.network_id == mine.network_id
    assert theirs.descriptor.market == mine.descriptor.market
    assert not other.network_key.exists()
    assert not list(other.path.glob("*.identity"))


def test_other_services_give_another_descriptor(tmp_path: Path) -> None:
    folder = OperatorFolder(tmp_path)
    hosted_network(folder, None, None, only=True)
    market = key(1).peer_id
    hosted = hosted_network(folder, market, None, only=True)
    assert hosted.descriptor.market == market
    assert (tmp_path / "network.descriptor").read_bytes() == hosted.descriptor.encoded


def test_what_needs_the_key_is_refused_without_it(tmp_path: Path) -> None:
    made = hosted_network(OperatorFolder(tmp_path / "a"), None, None, only=True)
    folder = OperatorFolder(tmp_path / "b")
    path = folder.descriptor
    path.write_bytes(made.descriptor.encoded)
    with pytest.raises(ConfigurationError, match="not its key"):
        hosted_network(folder, None, None, only=False)
    with pytest.raises(ConfigurationError, match="not its key"):
        hosted_network(folder, key(1).peer_id, None, only=True)
    for raw in (b"", b"x" * 200, made.descriptor.encoded[:-1], bytes(5000)):
        path.write_bytes(raw)
        with pytest.raises(FolderUnusable, match=r"network\.descriptor"):
            hosted_network(folder, None, None, only=True)
