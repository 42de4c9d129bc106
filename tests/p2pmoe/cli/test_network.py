"""`p2pmoe network`: create and show, on a folder alone."""

import json
from pathlib import Path

from relay.keys import load_or_create_key
from tests.support.command_line import assert_one_error, run


def test_create_makes_all_identities_once_and_show_tells_them(tmp_path: Path) -> None:
    data = ("--data", str(tmp_path / "net"))
    made = run("network", "create", *data, "--json")
    assert made.code == 0, made.err
    ids = json.loads(made.out)
    assert len({ids[name] for name in ("network", "relay", "market", "ledger")}) == 4
    assert (tmp_path / "net" / "network.descriptor").exists()  # for relays elsewhere
    assert_one_error(run("network", "create", *data), "already", "--data")
    shown = json.loads(run("network", "show", *data, "--json").out)
    assert {name: shown[name] for name in ids} == ids
    assert (shown["invites"], shown["revocations"]) == ([], 0)


def test_shards_are_shown_by_number(tmp_path: Path) -> None:
    data = ("--data", str(tmp_path / "net"))
    run("network", "create", *data)
    keys = {n: load_or_create_key(tmp_path / "net" / f"relay-{n}.key") for n in (10, 2)}
    shown = json.loads(run("network", "show", *data, "--json").out)
    assert [name for name in shown if "/" in name] == ["relay/2", "relay/10"]
    assert shown["relay/2"] == keys[2].peer_id.hex()


def test_none_is_made_in_the_folder_of_another_networks_relay(tmp_path: Path) -> None:
    run("network", "create", "--data", str(tmp_path / "net"))
    relay = tmp_path / "relay"
    relay.mkdir()
    descriptor = (tmp_path / "net" / "network.descriptor").read_bytes()
    (relay / "network.descriptor").write_bytes(descriptor)
    refused = run("network", "create", "--data", str(relay))
    assert_one_error(refused, "not its key")
    assert [path.name for path in relay.iterdir()] == ["network.descriptor"]


def test_without_a_network_nothing_is_made(tmp_path: Path) -> None:
    data = ("--data", str(tmp_path / "none"))
    assert_one_error(run("network", "show", *data), "network create")
    assert list(tmp_path.iterdir()) == []
