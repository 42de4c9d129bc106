"""`p2pmoe relay probe`, against a relay of this process and against processes."""

import json
from pathlib import Path

import pytest

from p2pmoe.cli.relay_probe import relays_of
from p2pmoe.errors import ConfigurationError
from p2pmoe.network.invite import INVITE_VARIABLE, Invite, write_invite
from relay.endpoint import Endpoint
from tests.support.operator_processes import OperatorProcess, run_operator_command
from tests.support.relays import NETWORK, RELAY, key, token_for

FIRST = Endpoint("wss://a.example/relay", RELAY.peer_id)
SECOND = Endpoint("wss://b.example/relay", key(9).peer_id)
TOKEN = token_for(key(1), peer_id=None)
FEW = ("--frames", "20", "--rate", "1000")


@pytest.fixture
def invite(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.delenv(INVITE_VARIABLE, raising=False)
    file = tmp_path / "invite.json"
    invite = Invite(relays=(FIRST, SECOND), network=NETWORK.peer_id, token=TOKEN)
    write_invite(file, invite)
    return file


def test_which_relays_are_meant(invite: Path, monkeypatch) -> None:
    assert relays_of(None, invite) == ((FIRST, SECOND), TOKEN)
    assert relays_of(SECOND.url, invite) == ((SECOND,), TOKEN)
    assert relays_of(str(FIRST), invite) == ((FIRST,), TOKEN)
    assert relays_of(FIRST.url, None) == ((Endpoint(FIRST.url),), b"")
    monkeypatch.setenv(INVITE_VARIABLE, str(invite))
    assert relays_of(None, None) == ((FIRST, SECOND), TOKEN)


def test_a_token_goes_to_relays_of_the_invite_alone(invite: Path) -> None:
    stranger = Endpoint("wss://c.example/relay")
    assert relays_of(stranger.url, invite) == ((stranger,), b"")
    posing = Endpoint(FIRST.url, key(8).peer_id)
    assert relays_of(str(posing), invite) == ((posing,), b"")


def test_neither_url_nor_invite(monkeypatch) -> None:
    monkeypatch.delenv(INVITE_VARIABLE, raising=False)
    with pytest.raises(ConfigurationError):
        relays_of(None, None)


def test_it_measures_a_relay_for_people_and_for_programs(tmp_path) -> None:
    options = ("--self-signed", "--listen", "127.0.0.1:0")
    process = OperatorProcess(
        tmp_path, "relay", *options, "--only", "--data", str(tmp_path / "net")
    )
    try:
        invite = process.report["invite"]
        shown = run_operator_command("relay", "probe", "--invite", invite, *FEW)
        assert shown.returncode == 0, shown.stderr
        assert shown.stderr == ""
        assert "the relay's own key, as pinned" in shown.stdout
        assert "20 sent, 20 back, 0 dropped, 0 unanswered" in shown.stdout
        assert "queue delay\tframes\tpicture" in shown.stdout
        shown = run_operator_command(
            "relay",
            "probe",
            process.report["relay"],
            "--invite",
            invite,
            *FEW,
            "--json",
        )
        [document] = json.loads(shown.stdout)["relays"]
        assert document["relay_id"] == process.report["relay_id"]
        assert (document["n_sent"], document["n_back"]) == (20, 20)
        assert document["certificate"]["is_pinned_key"]
        assert sum(bucket["frames"] for bucket in document["queue_delay"]) == 20
        closed = run_operator_command("relay", "probe", process.report["relay"], *FEW)
        assert closed.returncode == 2
        assert "token" in closed.stderr
        assert len(closed.stderr.splitlines()) == 1
    finally:
        process.kill()


def test_relays_of_which_one_is_not_there(tmp_path) -> None:
    dead = Endpoint("wss://127.0.0.1:1/relay", RELAY.peer_id)
    file = tmp_path / "invite.json"
    other = Endpoint("wss://127.0.0.1:2/relay", key(9).peer_id)
    invite = Invite(relays=(dead, other), network=NETWORK.peer_id, token=TOKEN)
    write_invite(file, invite)
    shown = run_operator_command("relay", "probe", "--invite", str(file), "--json")
    assert shown.returncode == 2
    first, second = json.loads(shown.stdout)["relays"]
    assert "connection refused" in first["error"]
    assert "127.0.0.1:2" in second["error"]
