import stat
from pathlib import Path

import pytest

from p2pmoe.errors import ConfigurationError
from p2pmoe.network.errors import InviteBroken
from p2pmoe.network.folder import OperatorFolder
from p2pmoe.network.invite import Invite, read_invite, write_invite
from p2pmoe.network.invites import read_book
from p2pmoe.network.inviting import MemberInvite, relays_to_name, write_member_invite
from p2pmoe.network.network import Network, Terms
from p2pmoe.network.relays import RelayMapBroken
from relay.endpoint import parse_endpoint
from relay.errors import EndpointError
from relay.keys import SigningKey
from relay.relay_map import RelayEntry, RelayMap, sign_map
from relay.revocations import token_hash

NETWORK = Network(SigningKey.from_seed(bytes(32)))
RELAY, RELAY_B, RELAY_C = (
    SigningKey.from_seed(c * 32).peer_id for c in (b"r", b"b", b"c")
)
TERMS = Terms(serial=7)


def url(host: str) -> str:
    return f"wss://{host}/relay#{RELAY.hex()}"


def write_map(folder: OperatorFolder, *entries: RelayEntry) -> None:
    relay_map = RelayMap(network=NETWORK.network_id, version=1, entries=entries)
    folder.relay_map.write_bytes(sign_map(relay_map, NETWORK.sign).encoded)


def hosts(folder: OperatorFolder, *given: str) -> list[str]:
    return [each.host for each in relays_to_name(folder, NETWORK.network_id, given)]


def test_relays_are_those_given_else_the_maps_else_the_folders_own(tmp_path) -> None:
    folder = OperatorFolder(tmp_path)
    with pytest.raises(ConfigurationError, match="no relay yet") as caught:
        hosts(folder)
    assert "--relay wss://" in caught.value.advice
    own = Invite(
        relays=(parse_endpoint(url("own")),),
        network=NETWORK.network_id,
        token=NETWORK.member_token(),
    )
    write_invite(folder.invite, own)
    assert hosts(folder) == ["own"]
    write_map(
        folder,
        RelayEntry("wss://a/relay", RELAY),
        RelayEntry("wss://b/relay", RELAY_B, draining=True),
        RelayEntry("wss://c/relay", RELAY_C),
    )
    assert hosts(folder) == ["a", "c"]
    assert hosts(folder, url("x"), url("y")) == ["x", "y"]
    assert hosts(folder, url("x"), url("y"), url("x")) == ["x", "y"]


def test_a_map_that_is_not_ours_is_named(tmp_path: Path) -> None:
    folder = OperatorFolder(tmp_path)
    folder.relay_map.write_bytes(b"nonsense")
    with pytest.raises(RelayMapBroken, match=r"relays\.map"):
        hosts(folder)


def test_given_relays_are_checked(tmp_path: Path) -> None:
    folder = OperatorFolder(tmp_path)
    with pytest.raises(EndpointError):
        hosts(folder, "http://x")
    with pytest.raises(ConfigurationError, match="9 relays"):
        hosts(folder, *[url(f"h{n}") for n in range(9)])


def write(folder: OperatorFolder, name: str = "", output: Path | None = None, **kw):
    relays = kw.get("relays", (parse_endpoint(url("a")),))
    wanted = MemberInvite(terms=TERMS, relays=relays, name=name, output=output)
    return write_member_invite(folder, NETWORK, wanted, now_us=5)


def test_the_file_lets_in_by_the_token_that_the_book_lists(tmp_path: Path) -> None:
    folder = OperatorFolder(tmp_path / "net")
    issued, path = write(folder, "alice")
    assert path == folder.path / "invites" / "alice.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert token_hash(read_invite(path).token) == issued.hash
    assert read_book(folder) == [issued]


@pytest.mark.parametrize("name", ["../../etc/x", ".hidden", "a/b", "", "é"])
def test_a_name_that_is_no_plain_file_name_is_not_made_one(
    name: str, tmp_path: Path
) -> None:
    folder = OperatorFolder(tmp_path / "net")
    issued, path = write(folder, name)
    assert path.parent == folder.invite_files
    assert issued.hash.hex().startswith(path.stem)


def test_no_invite_is_ever_replaced(tmp_path: Path) -> None:
    folder = OperatorFolder(tmp_path / "net")
    taken = tmp_path / "taken.json"
    taken.write_text("a member's")
    for output in (taken, tmp_path / "nowhere" / "x.json"):
        with pytest.raises(ConfigurationError) as caught:
            write(folder, output=output)
        assert "--output" in caught.value.advice
    assert taken.read_text() == "a member's"
    assert read_book(folder) == []
    assert write(folder, "bob")[1] != write(folder, "bob")[1]


def test_a_relay_without_id_is_refused_before_anything_is_written(tmp_path) -> None:
    folder = OperatorFolder(tmp_path / "net")
    with pytest.raises(InviteBroken):
        write(folder, relays=(parse_endpoint("wss://a/relay"),))
    assert list(folder.path.iterdir()) == []
