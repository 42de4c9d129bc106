"""`p2pmoe network invite`: an invite by its options, and wrong ones in one line."""

import json
from pathlib import Path

import pytest

from p2pmoe.cli import network_invite
from p2pmoe.cli.network_invite import day_of
from p2pmoe.errors import P2pmoeError
from p2pmoe.network.invite import read_invite
from p2pmoe.network.network import Network
from relay.errors import RelayError
from relay.keys import SigningKey
from relay.tokens import RateClass, Role, parse_token
from tests.support.command_line import run

PEER = SigningKey.from_seed(b"p" * 32).peer_id.hex()
RELAY = f"wss://relay.example/relay#{PEER}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    Network.load_or_create(tmp_path / "net" / "network.key")
    return tmp_path / "net"


def test_the_options_are_the_tokens_terms(folder: Path) -> None:
    terms = ("--role", "worker", "--days", "30", "--for", PEER, "--name", "alice")
    made = run(
        *("network", "invite", "--data", str(folder), "--relay", RELAY),
        *(*terms, "-o", str(folder / "a.json"), "--json"),
    )
    assert made.code == 0, made.err
    invite = read_invite(folder / "a.json")
    token = parse_token(invite.token)
    assert str(invite.relay) == RELAY
    assert (token.role, token.rate_class) == (Role.WORKER, RateClass.LAPTOP)
    assert token.peer_id is not None
    assert token.peer_id.hex() == PEER
    report = json.loads(made.out)
    assert report["ends"] == day_of(token.not_after_us)
    text = json.loads((folder / "a.json").read_text())["token"]
    assert text not in made.out + made.err


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"role": "king"}, "--role 'king'"),
        ({"role": "market"}, "--role 'market'"),
        ({"rate": "fast"}, "--rate 'fast'"),
        ({"for_": "12"}, "a peer id has 32 bytes"),
        ({"relay": ["wss://x/relay"]}, "does not carry the relay's id"),
        ({"relay": ["http://x"]}, "does not begin with wss://"),
    ],
)
def test_each_wrong_option_is_one_line_and_writes_nothing(
    options: dict[str, object], reason: str, folder: Path
) -> None:
    with pytest.raises((P2pmoeError, RelayError), match=reason) as caught:
        network_invite._invite(**({"data": folder, "relay": [RELAY]} | options))
    assert caught.value.advice
    assert [path.name for path in folder.iterdir()] == ["network.key"]


def test_days_beyond_any_calendar() -> None:
    assert day_of(0) == "1970-01-01T00:00:00Z"
    assert day_of(2**63 - 1) == "never"
