"""`p2pmoe network revoke`: by file, name, hash or peer."""

import json
from pathlib import Path

import pytest

from p2pmoe.cli import network_revoke
from p2pmoe.errors import P2pmoeError
from p2pmoe.network.folder import OperatorFolder
from p2pmoe.network.inviting import MemberInvite, write_member_invite
from p2pmoe.network.network import Network, Terms
from p2pmoe.network.revoking import read_revocations
from relay.endpoint import parse_endpoint
from relay.errors import RelayError
from relay.keys import SigningKey
from tests.support.command_line import run

PEER = SigningKey.from_seed(b"p" * 32).peer_id


def write_invites(path: Path, *names: str):
    folder = OperatorFolder(path)
    network = Network.load_or_create(folder.network_key)
    relays = (parse_endpoint(f"wss://r/relay#{PEER.hex()}"),)
    return [
        write_member_invite(
            folder,
            network,
            MemberInvite(terms=Terms().numbered(), relays=relays, name=name),
            now_us=5,
        )
        for name in names
    ]


def test_by_file_name_and_hash_and_a_peer_in_one_go(tmp_path: Path) -> None:
    by_file, by_name, by_hash, _kept = write_invites(tmp_path, "a", "b", "c", "d")
    outcome = run(
        *("network", "revoke", str(by_file[1]), "b", by_hash[0].hash.hex()[:12]),
        *("--peer", PEER.hex(), "--data", str(tmp_path), "--json"),
    )
    assert outcome.code == 0, outcome.err
    assert "SIGHUP" in outcome.err
    network = Network.load(tmp_path / "network.key").network_id
    revoked = read_revocations(OperatorFolder(tmp_path), network)
    assert revoked.tokens == {each[0].hash for each in (by_file, by_name, by_hash)}
    assert revoked.peers == {PEER}
    assert json.loads(outcome.out)["version"] == revoked.version == 1
    shown = json.loads(run("network", "show", "--data", str(tmp_path), "--json").out)
    states = {row["name"]: row["state"] for row in shown["invites"]}
    assert states == {"a": "revoked", "b": "revoked", "c": "revoked", "d": "valid"}
    assert shown["revoked_peers"] == [PEER.hex()]


@pytest.mark.parametrize(
    ("invites", "peers", "reason"),
    [
        ((), (), "nothing was named"),
        (("nobody",), (), "no invite is named 'nobody'"),
        ((), ("12",), "a peer id has 32 bytes"),
        (("other.json",), (), "of another network"),
        (("network.key",), (), "is not json"),
    ],
)
def test_each_mistake_is_one_line_and_changes_nothing(
    invites, peers, reason: str, tmp_path: Path
) -> None:
    write_invites(tmp_path, "a")
    ((_, other),) = write_invites(tmp_path / "other", "x")
    other.rename(tmp_path / "other.json")
    named = [str(tmp_path / word) if "." in word else word for word in invites]
    with pytest.raises((P2pmoeError, RelayError), match=reason) as caught:
        network_revoke._revoke(named, [*peers], tmp_path)
    assert caught.value.advice
    assert not (tmp_path / "revocations").exists()
