"""Relays absent or not the right ones, tokens, ports, keys: one line each."""

import base64
import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.command_line import (
    Outcome,
    Running,
    assert_one_error,
    run,
    run_all,
)
from tests.support.ports import reserved_port

RELAY = ("relay", "--self-signed", "--listen", "127.0.0.1:0", "--data")
ABSENT = "cannot be reached"


@dataclass(frozen=True)
class Stage:
    """A running network, and invites that are wrong in one respect each."""

    folder: Path
    relay: Running
    port: int

    def invite(self, name: str) -> str:
        return str(self.folder / f"{name}.json")

    def serve(self, name: str, *options: str) -> tuple[str, ...]:
        data = str(self.folder / f"serve-{name}")
        listen = () if "--listen" in options else ("--listen", "127.0.0.1:0")
        return ("serve", "pocket", *listen, "--data", data, *options)

    def contribute(self, name: str, *options: str) -> tuple[str, ...]:
        data = str(self.folder / f"worker-{name}")
        return ("contribute", "--yes", "--memory", "64M", "--data", data, *options)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("network")
    with contextlib.ExitStack() as ends:
        relay = Running(folder, *RELAY, str(folder / "net"))
        ends.callback(relay.kill)
        other = Running(folder, *RELAY, str(folder / "other"))
        ends.callback(other.kill)
        write_invites(folder, ends.enter_context(reserved_port()))
        yield Stage(folder, relay, relay.report["listen"][1])


def write_invites(folder: Path, port: int) -> None:
    """Write them; nobody listens on `port`."""
    ours = json.loads((folder / "net" / "invite.json").read_text())
    theirs = json.loads((folder / "other" / "invite.json").read_text())
    url, _, relay_id = ours["relay"].partition("#")
    their_id = theirs["relay"].partition("#")[2]
    token = bytearray(base64.b64decode(ours["token"]))
    token[-1] ^= 1
    invites = {
        "good": ours,
        "absent-relay": {**ours, "relay": f"wss://127.0.0.1:{port}/relay#{relay_id}"},
        "unknown-host": {**ours, "relay": f"wss://relay.invalid/relay#{relay_id}"},
        "wrong-relay-id": {**ours, "relay": f"{url}#{their_id}"},
        "other-network": {**theirs, "relay": ours["relay"]},
        "wrong-signature": {**ours, "token": base64.b64encode(token).decode()},
        "mixed": {**ours, "token": theirs["token"]},
        "no-id": {**ours, "relay": url},
        "plaintext": {**ours, "relay": ours["relay"].replace("wss:", "ws:")},
    }
    for name, members in invites.items():
        (folder / f"{name}.json").write_text(json.dumps(members))
    (folder / "nested.json").write_text("[" * 8000)


REFUSED = {
    "absent-relay": ABSENT,
    "unknown-host": "host name is not known",
    "wrong-relay-id": "is relay ",
    "other-network": "the network token is of another network",
    "wrong-signature": "the network token's signature is wrong",
}


@pytest.fixture(scope="module")
def refused(stage: Stage) -> dict[str, Outcome]:
    cases = {}
    for name in REFUSED:
        option = ("--invite", stage.invite(name))
        cases[f"contribute {name}"] = stage.contribute(name, *option)
        if name not in {"unknown-host", "wrong-signature"}:
            cases[f"serve {name}"] = stage.serve(name, *option)
    with pytest.MonkeyPatch.context() as patch:
        # Where no name server answers, a name is not known after a second, not ten.
        patch.setenv("RES_OPTIONS", "timeout:1 attempts:1")
        return run_all(cases)


@pytest.mark.parametrize("name", REFUSED)
def test_a_network_that_cannot_be_joined_is_one_line(
    refused: dict[str, Outcome], name: str
) -> None:
    for command in ("contribute", "serve"):
        if f"{command} {name}" in refused:
            assert_one_error(refused[f"{command} {name}"], REFUSED[name])


BROKEN_INVITES = {
    "mixed": "token is of another network",
    "no-id": "does not carry the relay's id",
    "plaintext": "does not begin with wss://",
    "nested": "is not json",
}


@pytest.fixture(scope="module")
def broken(stage: Stage) -> dict[str, Outcome]:
    return run_all(
        {
            name: stage.contribute("broken", "--invite", stage.invite(name))
            for name in BROKEN_INVITES
        }
    )


@pytest.mark.parametrize("name", BROKEN_INVITES)
def test_a_broken_invite_is_named_before_anything_else(
    stage: Stage, broken: dict[str, Outcome], name: str
) -> None:
    outcome = broken[name]
    assert_one_error(outcome, stage.invite(name), BROKEN_INVITES[name])
    assert len(outcome.err.splitlines()) == 1
    token = json.loads((stage.folder / "good.json").read_text())["token"]
    assert token not in outcome.err


def test_a_port_in_use_is_one_line_and_harms_nobody(stage: Stage) -> None:
    taken = f"127.0.0.1:{stage.port}"
    good = ("--invite", stage.invite("good"))
    outcomes = run_all(
        {
            "relay": (*RELAY[:3], taken, "--data", str(stage.folder / "third")),
            "serve": stage.serve("port", *good, "--listen", taken),
            "hub": stage.contribute("port", *good, "--hub", "--listen", taken),
        }
    )
    for outcome in outcomes.values():
        assert_one_error(outcome, str(stage.port), "already in use")
    assert stage.relay.is_running


def test_two_processes_with_one_key_are_one_too_many(stage: Stage) -> None:
    good = ("--invite", stage.invite("good"))
    contribute = stage.contribute("twice", *good)
    serve = stage.serve("twice", *good)
    with contextlib.ExitStack() as ends:
        first = Running(stage.folder, *contribute)
        ends.callback(first.kill)
        backbone = Running(stage.folder, *serve)
        ends.callback(backbone.kill)
        backbone.said("relay is up")
        outcomes = run_all(
            {
                "contribute": contribute,
                "serve": serve,
                "relay": (*RELAY, str(stage.folder / "net")),
            }
        )
        for outcome in outcomes.values():
            assert_one_error(outcome, "in use by another process")
        assert first.is_running
        assert backbone.is_running
        assert stage.relay.is_running
        first.kill()  # a killed process leaves no lock behind
        again = Running(stage.folder, *contribute)
        ends.callback(again.kill)
        assert again.report == first.report


def test_a_url_of_another_relay_than_the_invites_is_refused(stage: Stage) -> None:
    other = json.loads((stage.folder / "wrong-relay-id.json").read_text())["relay"]
    outcome = run(
        *stage.serve("url", "--relay", other, "--invite", stage.invite("good"))
    )
    assert_one_error(outcome, "relay is not the one of the invite")
