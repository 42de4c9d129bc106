import json
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.errors import ConfigurationError
from p2pmoe.network.errors import FolderUnusable, InviteBroken
from p2pmoe.network.invite import (
    INVITE_VARIABLE,
    Invite,
    encode_invite,
    find_invite,
    parse_invite,
    read_invite,
    write_invite,
)
from p2pmoe.network.network import Network
from relay.endpoint import parse_endpoint
from relay.keys import SigningKey

NETWORK = Network(SigningKey.from_seed(bytes(32)))
RELAY = SigningKey.from_seed(bytes(range(32))).peer_id
URL = f"wss://relay.example:8443/relay#{RELAY.hex()}"
INVITE = Invite(
    relays=(parse_endpoint(URL),),
    network=NETWORK.network_id,
    token=NETWORK.member_token(),
)


def test_round_trip_through_a_file_of_mode_0600(tmp_path: Path) -> None:
    path = tmp_path / "invite.json"
    path.write_text("an older one, readable by all")
    write_invite(path, INVITE)
    assert read_invite(path) == INVITE
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [p.name for p in tmp_path.iterdir()] == ["invite.json"]


def test_a_relay_that_is_named_twice_is_one() -> None:
    doubled = {**MEMBERS, "p2pmoe_invite": 2, "relays": [URL, URL]}
    del doubled["relay"]
    assert parse_invite(json.dumps(doubled)) == INVITE


def test_the_token_is_not_shown() -> None:
    assert INVITE.token.hex() not in repr(INVITE)
    assert repr(INVITE.token) not in repr(INVITE)


MEMBERS = json.loads(encode_invite(INVITE))
OTHER = Network(SigningKey.from_seed(b"x" * 32))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"relay": "ws:/"}, "relay URL"),
        ({"relay": URL.partition("#")[0]}, "does not carry the relay's id"),
        ({"relay": URL.replace("wss:", "ws:")}, "does not begin with wss://"),
        ({"relay": 7}, "is no text"),
        ({"network": "00"}, "peer id"),
        ({"network": OTHER.network_id.hex()}, "of another network"),
        ({"token": "%%%"}, "invite"),
        ({"token": ""}, "token of 0 bytes"),
        ({"p2pmoe_invite": 3}, "unknown version 3"),
        ({"p2pmoe_invite": True}, "unknown version True"),
        ({"p2pmoe_invite": 2}, "does not have the members p2pmoe_invite, relays"),
        ({"extra": 1}, "does not have the members"),
    ],
)
def test_each_fault_is_named(changes: dict, reason: str) -> None:
    with pytest.raises(InviteBroken, match=reason):
        parse_invite(json.dumps(MEMBERS | changes))


OTHER_URL = f"wss://other.example/relay/2#{RELAY.hex()}"
TWO = Invite(
    relays=(parse_endpoint(URL), parse_endpoint(OTHER_URL)),
    network=INVITE.network,
    token=INVITE.token,
)
TWO_MEMBERS = json.loads(encode_invite(TWO))


def test_several_relays_make_version_2() -> None:
    assert parse_invite(encode_invite(TWO)) == TWO
    assert TWO_MEMBERS["p2pmoe_invite"] == 2
    assert TWO_MEMBERS["relays"] == [URL, OTHER_URL]
    assert MEMBERS["p2pmoe_invite"] == 1
    assert parse_invite(json.dumps(TWO_MEMBERS | {"relays": [URL]})) == INVITE


@pytest.mark.parametrize(
    ("relays", "reason"),
    [
        ([], "0 relays"),
        ([URL] * 9, "9 relays"),
        ([URL, 7], "is no text"),
        ([URL, [URL]], "is no text"),
        ({URL: URL}, "is no text"),
        ([URL, "ws://other.example#" + RELAY.hex()], "does not begin with wss://"),
        ([URL, "wss://other.example"], "does not carry the relay's id"),
    ],
)
def test_each_fault_of_several_relays_is_named(relays: object, reason: str) -> None:
    with pytest.raises(InviteBroken, match=reason):
        parse_invite(json.dumps(TWO_MEMBERS | {"relays": relays}))


@given(st.text())
def test_nothing_but_a_refusal_comes_out_of_other_text(text: str) -> None:
    with pytest.raises(InviteBroken):
        parse_invite(text)


@pytest.mark.parametrize("content", [b"\xff", b"x" * 9000, b"[]", b"[" * 8000])
def test_a_file_that_is_no_invite_is_named(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "invite.json"
    path.write_bytes(content)
    with pytest.raises(InviteBroken, match=str(path)):
        read_invite(path)


def test_an_absent_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InviteBroken, match="no such file"):
        read_invite(tmp_path / "absent.json")


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FolderUnusable, match="cannot write invite"):
        write_invite(tmp_path / "absent" / "invite.json", INVITE)


def test_the_option_wins_over_the_variable(tmp_path: Path) -> None:
    path = tmp_path / "invite.json"
    write_invite(path, INVITE)
    assert find_invite(path, {INVITE_VARIABLE: "/absent"}) == INVITE
    assert find_invite(None, {INVITE_VARIABLE: str(path)}) == INVITE
    with pytest.raises(ConfigurationError, match="no invite") as caught:
        find_invite(None, {INVITE_VARIABLE: ""})
    assert INVITE_VARIABLE in caught.value.advice
