"""`p2pmoe network relays`, in this process; one run of the whole program."""

import functools
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from p2pmoe.cli import network_relays
from p2pmoe.cli.network_relays import register
from p2pmoe.network.errors import NetworkMissing
from p2pmoe.network.relays import add_entry
from relay.keys import load_or_create_key
from relay.relay_map import parse_map
from tests.support.relays import key

ID = key(1).peer_id.hex()
URL = "wss://one.example/relay"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    load_or_create_key(tmp_path / "network.key")
    return tmp_path


def run(data: Path, *words: str):
    app = typer.Typer()
    register(app)
    return CliRunner().invoke(app, ["relays", *words, "--data", str(data)])


def test_a_relay_comes_drains_and_goes(data: Path) -> None:
    options = ("--region", "eu", "--weight", "5")
    added = run(data, "add", f"{URL}#{ID}", *options)
    assert added.exit_code == 0
    assert added.stdout == ""
    assert "version 1, 1 in all" in added.stderr
    run(data, "drain", ID[:8])
    listed = json.loads(run(data, "list", "--json").stdout)
    assert listed["version"] == 2
    assert listed["relays"] == [
        {"url": URL, "relay_id": ID, "region": "eu", "weight": 5, "draining": True}
    ]
    run(data, "drain", URL, "--undo")
    assert "\t5\tFalse" in run(data, "list").stdout
    assert run(data, "remove", URL).exit_code == 0
    final = parse_map((data / "relays.map").read_bytes())
    assert (final.version, final.entries) == (4, ())
    assert run(data, "list").stdout.startswith("url\trelay_id")


@pytest.mark.parametrize(
    "words",
    [
        ("add", URL),
        ("add", f"{URL}#{ID}", "--weight", "0"),
        ("add", f"{URL}#{ID}", "--region", "\x1b[31m"),
        ("remove", URL),
        ("drain", ID),
    ],
)
def test_what_cannot_be_changes_nothing(data: Path, words: tuple[str, ...]) -> None:
    assert run(data, *words).exit_code != 0
    assert not (data / "relays.map").exists()


def test_without_a_network_nothing_is_made(tmp_path: Path) -> None:
    refused = run(tmp_path / "none", "list")
    assert isinstance(refused.exception, NetworkMissing)
    assert list(tmp_path.iterdir()) == []


def test_of_commands_at_once_none_is_lost(data: Path) -> None:
    ids = [key(number).peer_id.hex() for number in range(1, 7)]
    urls = [f"wss://host-{each[:8]}.example/relay#{each}" for each in ids]

    def add(url: str) -> None:
        change = functools.partial(add_entry, url=url, region="", weight=1)
        network_relays._change(data, change)

    with ThreadPoolExecutor(len(urls)) as pool:
        list(pool.map(add, urls))
    final = parse_map((data / "relays.map").read_bytes())
    assert (final.version, len(final.entries)) == (len(urls), len(urls))
