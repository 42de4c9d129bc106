import stat
from pathlib import Path

import pytest

from p2pmoe.errors import ConfigurationError
from p2pmoe.network import revoking
from p2pmoe.network.errors import FolderUnusable
from p2pmoe.network.folder import OperatorFolder
from p2pmoe.network.network import Network
from p2pmoe.network.revoking import read_revocations, revoke
from relay.keys import SigningKey
from relay.revocations import parse_revocations

NETWORK = Network(SigningKey.from_seed(bytes(32)))
OTHER = Network(SigningKey.from_seed(b"o" * 32))
PEER = SigningKey.from_seed(b"p" * 32).peer_id
HASHES = [bytes([number]) * 32 for number in range(3)]


def test_what_is_revoked_adds_up_and_each_change_has_a_version(tmp_path: Path) -> None:
    folder = OperatorFolder(tmp_path)
    assert read_revocations(folder, NETWORK.network_id).version == 0
    revoke(folder, NETWORK, tokens=HASHES[:2])
    revoke(folder, NETWORK, tokens=HASHES[1:], peers=[PEER])
    again = revoke(folder, NETWORK, tokens=HASHES[:1])
    held = read_revocations(folder, NETWORK.network_id)
    assert held == again
    assert (held.version, held.tokens, held.peers) == (2, set(HASHES), {PEER})
    assert parse_revocations(folder.revocations.read_bytes()) == held
    assert stat.S_IMODE(folder.revocations.stat().st_mode) == 0o644


def test_a_list_that_is_not_ours_is_never_replaced(tmp_path: Path) -> None:
    folder = OperatorFolder(tmp_path)
    revoke(folder, OTHER, tokens=HASHES)
    kept = folder.revocations.read_bytes()
    for content in (kept, b"nonsense", kept[:-1]):
        folder.revocations.write_bytes(content)
        with pytest.raises(FolderUnusable, match="revocations") as caught:
            revoke(folder, NETWORK, peers=[PEER])
        assert "network revoke" in caught.value.advice
        assert folder.revocations.read_bytes() == content


def test_a_full_list_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(revoking, "MAX_REVOKED", 2)
    folder = OperatorFolder(tmp_path)
    revoke(folder, NETWORK, tokens=HASHES[:2])
    with pytest.raises(ConfigurationError, match="more than 2"):
        revoke(folder, NETWORK, tokens=HASHES)
