"""What is said once a relay is up."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from p2pmoe.cli.relay_report import tell
from p2pmoe.network.operator import OperatorConfig, Started
from relay.endpoint import Endpoint
from relay.tls import SelfSigned, TlsFiles
from tests.support.relays import key

ENDPOINT = Endpoint("wss://relay.example/relay", key(1).peer_id)


def said(capsys, folder: Path, invite: Path | None, **changes) -> tuple[str, dict]:
    values = {"folder": folder, "host": None, "port": 443, "tls": SelfSigned()}
    relay = SimpleNamespace(addresses=(("::", 443),), relay_id=key(1).peer_id)
    market, ledger = (key(2).peer_id, key(3).peer_id) if invite else (None, None)
    started = Started(
        relay=relay, endpoint=ENDPOINT, invite=invite, market=market, ledger=ledger
    )
    ready = folder / "ready.json"
    tell(started, config=OperatorConfig(**(values | changes)), ready_file=ready)
    shown = capsys.readouterr()
    assert shown.out == ""
    return shown.err, json.loads(ready.read_text())


def test_a_network_in_one_process(capsys, tmp_path: Path) -> None:
    text, report = said(capsys, tmp_path, tmp_path / "invite.json")
    assert f"relay {ENDPOINT} listens on :::443" in text
    assert "p2pmoe contribute --invite" in text
    assert "no backbone can pay a worker" in text
    assert report["invite"] == str(tmp_path / "invite.json")
    assert report["market"] == key(2).peer_id.hex()


@pytest.mark.parametrize("named", [None, key(4).peer_id])
def test_a_relay_alone_says_how_to_start_the_services(
    named, capsys, tmp_path: Path
) -> None:
    invite = tmp_path / "invite.json"
    text, _ = said(capsys, tmp_path, invite, only=True, market=named, ledger=named)
    assert f"market {key(2).peer_id.hex()}, to start it:" in text
    assert ("where it has its folder" in text) == bool(named)


def test_a_relay_without_the_key_says_what_the_operator_does(
    capsys, tmp_path: Path
) -> None:
    text, report = said(capsys, tmp_path, None, only=True)
    assert f"p2pmoe network relays add {ENDPOINT}" in text
    assert "contribute" not in text
    assert (report["invite"], report["market"]) == ("", "")


@pytest.mark.parametrize(
    ("changes", "page"),
    [
        ({}, "http://relay.example/"),
        ({"tls": TlsFiles(certificate=Path("a"), key=Path("b"))}, "https://relay.ex"),
        ({"neutral_page": True}, None),
    ],
)
def test_where_the_status_is_seen(
    changes, page: str | None, capsys, tmp_path: Path
) -> None:
    text, _ = said(capsys, tmp_path, tmp_path / "invite.json", **changes)
    if page is None:
        assert "for a browser" not in text
    else:
        assert f"its status, for a browser: {page}" in text
