"""`p2pmoe doctor`: findings on stdout, exit code 1 for a fault, never a traceback."""

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from p2pmoe.cli.computing import KERNEL_VARIABLE
from p2pmoe.cli.doctor import register
from p2pmoe.network.invite import INVITE_VARIABLE, Invite, write_invite
from relay.dial import CA_VARIABLE
from relay.endpoint import Endpoint
from tests.support.operator_processes import OperatorProcess, run_operator_command
from tests.support.relays import NETWORK, RELAY, key, token_for


@pytest.fixture(autouse=True)
def bare(monkeypatch) -> None:
    monkeypatch.delenv(INVITE_VARIABLE, raising=False)
    monkeypatch.setenv(CA_VARIABLE, "")  # what --ca sets is undone after the test
    monkeypatch.setenv(KERNEL_VARIABLE, "numpy")  # the quickest to test
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setenv("no_proxy", "*")


def doctor(*arguments: str) -> tuple[int, list[dict[str, str]]]:
    """Run it in this process; the exit code and the findings."""
    app = typer.Typer()
    app.callback()(lambda: None)
    register(app)
    shown = CliRunner().invoke(app, ["doctor", *arguments, "--json"])
    return shown.exit_code, json.loads(shown.stdout)["findings"]


def by_check(findings: list[dict[str, str]]) -> dict[str, dict[str, str]]:
    return {each["check"]: each for each in findings}


def test_of_a_host_alone_and_of_a_running_relay(tmp_path: Path) -> None:
    code, findings = doctor("--data", str(tmp_path))
    assert code == 0
    found = by_check(findings)
    own = {"key", "limits", "memory", "power", "traffic", "heat", "worker"}
    assert set(found) == {"kernel", "disk", "files", "relay", "port"} | own
    assert "no network is named" in found["relay"]["finding"]
    options = ("--self-signed", "--listen", "127.0.0.1:0", "--only")
    process = OperatorProcess(
        tmp_path, "relay", *options, "--data", str(tmp_path / "n")
    )
    try:
        invite = process.report["invite"]
        shown = run_operator_command("doctor", "--invite", invite)
    finally:
        process.kill()
    assert shown.returncode == 0, shown.stdout
    header, *lines = shown.stdout.splitlines()
    assert header == "verdict\tcheck\tfinding\tadvice"
    checks = {line.split("\t")[1]: line.split("\t")[0] for line in lines}
    assert {checks[name] for name in ("relay", "token", "tls", "clock")} == {"ok"}


def test_faults_are_found_and_counted_in_the_exit_code(tmp_path: Path) -> None:
    code, findings = doctor("wss://127.0.0.1:1/relay", "--data", str(tmp_path))
    assert code == 1
    found = by_check(findings)
    assert found["relay"]["verdict"] == "fault"
    assert "firewall" in found["relay"]["advice"]


def test_what_is_given_wrongly_is_a_finding_too(tmp_path: Path) -> None:
    broken = tmp_path / "invite.json"
    broken.write_text("no invite")
    for arguments, check in (
        (("--invite", str(broken)), "token"),
        (("ftp://relay",), "relay"),
        (("wss://relay.test", "--ca", str(broken)), "tls"),
    ):
        code, findings = doctor(*arguments)
        assert (code, by_check(findings)[check]["verdict"]) == (1, "fault")


def test_every_relay_of_an_invite_is_looked_at(tmp_path: Path) -> None:
    relays = (
        Endpoint("wss://127.0.0.1:1/relay", RELAY.peer_id),
        Endpoint("wss://127.0.0.1:2/relay", key(9).peer_id),
    )
    file = tmp_path / "invite.json"
    token = token_for(key(1), peer_id=None)
    write_invite(file, Invite(relays=relays, network=NETWORK.peer_id, token=token))
    code, findings = doctor("--invite", str(file))
    assert code == 1
    texts = [each["finding"] for each in findings if each["check"] == "relay"]
    assert len(texts) == len(relays)
    for text, relay in zip(texts, relays, strict=True):
        assert f"relay {relay.address} cannot be reached" in text
