"""`ledger witness` and `cosign`: from a log's folder and back into the ledger."""

import base64
import json
import time

import httpx
import pytest
import typer
from typer.testing import CliRunner

from ledger.errors import LogRefused, LogUnavailable, SignatureRefused
from ledger.log.checkpoint import Checkpoint, cosigners_of, log_key
from ledger.log.folder import LogFolder
from ledger.log.note import NoteKey, SignedNote
from mobile_worker.session.identity import load_or_create
from p2pmoe.cli.ledger_log import add_log_group
from p2pmoe.cli.ledger_witness import add_witness_commands
from p2pmoe.errors import ConfigurationError
from p2pmoe.ledgerd import log_source
from tests.support.log_world import LogWorld


@pytest.fixture
def books(tmp_path):
    identity = load_or_create(tmp_path / "ledger.identity")
    with LogWorld(tmp_path / "ledger", ledger=identity) as books:
        identity.release()
        books.close(2)
        books.publish()
        yield books


def run(*words):
    app = typer.Typer()
    add_witness_commands(app)
    add_log_group(app)
    return CliRunner().invoke(app, list(map(str, words)))


def witness(books, tmp_path, *words):
    where = ("--log", books.log, "--state", tmp_path / "witness")
    return run("witness", *where, "--data", books.path, *words)


def test_a_witness_cosigns_and_the_ledger_keeps_it(books, tmp_path):
    seen = witness(books, tmp_path, "--once", "--json", "--name", "example.com/w")
    assert seen.exit_code == 0, seen.output
    values = json.loads(seen.stdout)
    assert (values["size"], values["is_new"], values["handed_in"]) == (2, True, False)
    assert "p2pmoe ledger cosign" in seen.stderr
    key = NoteKey.parse(values["witness"])
    note = SignedNote.parse((tmp_path / "witness" / values["note"]).read_bytes())
    assert [each.name for each in cosigners_of(note, [key.key])] == ["example.com/w"]

    words = ("cosign", values["note"], "--data", books.path)
    unknown = run(*words)
    assert isinstance(unknown.exception, SignatureRefused)
    kept = run(*words, "--witness", key.text, "--json")
    assert kept.exit_code == 0, kept.output
    (row,) = json.loads(kept.stdout)["cosigners"]
    assert (row["size"], row["name"], row["is_new"]) == (2, "example.com/w", True)
    assert row["time"].endswith("Z")
    again = run(*words)
    assert again.exit_code == 0
    assert again.stdout.splitlines()[0] == "size\tname\twitness\ttime\tis_new"

    shown = run("log", "show", "--data", books.path, "--json")
    assert [each["name"] for each in json.loads(shown.stdout)["cosigners"]] == [
        "example.com/w"
    ]


def test_ids_may_be_given_where_no_ledger_is(books, tmp_path):
    ids = ("--network", books.world.network.id.hex())
    ids += ("--ledger", books.world.ledger.id.hex())
    where = ("--log", books.log, "--state", tmp_path / "witness")
    seen = run("witness", *where, "--once", *ids)
    assert seen.exit_code == 0, seen.output
    assert "size\t2" in seen.stdout
    key = log_key(books.world.network.id, books.world.ledger.id)
    assert f"origin\t{key.name}" in seen.stdout
    other = ("--network", "00" * 32, "--ledger", books.world.ledger.id.hex())
    assert isinstance(
        run("witness", *where, "--once", *other).exception, SignatureRefused
    )


def test_a_log_that_went_back_ends_the_witness_with_1(books, tmp_path):
    folder = LogFolder(books.log)
    first = folder.checkpoint().pack()
    books.close(1)
    books.publish()
    assert witness(books, tmp_path, "--once").exit_code == 0
    folder.put("checkpoint", first)
    back = witness(books, tmp_path)  # would look forever
    assert isinstance(back.exception, LogRefused)
    assert back.exception.exit_code == 1


class Over(Exception):
    """Ends the watch of a test."""


def test_it_looks_again_and_hands_in_what_was_not_taken(books, tmp_path, monkeypatch):
    taken, naps = [], []
    source = log_source.FolderLog(books.log)

    def hand_in(note):
        if len(naps) == 1:
            raise LogUnavailable("the server sleeps")
        taken.append(Checkpoint.parse(SignedNote.parse(note).text).size)
        return True

    source.hand_in = hand_in

    class OneLog:
        def __init__(self, *_):
            pass

        def __enter__(self):
            return source

        def __exit__(self, *_):
            pass

    def sleep(seconds):
        naps.append(seconds)
        if len(naps) == 1:
            books.close(1)
            books.publish()
        if len(naps) == 3:
            (books.log / "checkpoint").unlink()
        if len(naps) == 5:
            raise Over

    monkeypatch.setattr(log_source, "open_log", OneLog)
    monkeypatch.setattr(time, "sleep", sleep)
    result = witness(books, tmp_path, "--every", "7", "--json")
    assert isinstance(result.exception, Over)
    assert naps == [7] * 5
    assert taken == [2, 3]
    assert "not handed in: the server sleeps" in result.stderr
    assert "not cosigned" in result.stderr
    assert result.stdout.count('"size"') == 3  # 2; 3, not handed in; 3, handed in


def test_over_http(books, tmp_path, monkeypatch):
    folder = LogFolder(books.log)
    handed = []

    def answer(request):
        path = request.url.path.removeprefix("/moe/")
        if path == "cosignature":
            note = base64.urlsafe_b64decode(request.url.params["note"] + "==")
            handed.append(len(SignedNote.parse(note).signatures))
            return httpx.Response(200)
        file = folder.path / path
        if not file.is_file():
            return httpx.Response(404)
        return httpx.Response(200, content=file.read_bytes())

    client = httpx.Client
    transport = httpx.MockTransport(answer)
    monkeypatch.setattr(httpx, "Client", lambda **_: client(transport=transport))
    where = ("--log", "https://log.example/moe", "--state", tmp_path / "witness")
    seen = run("witness", *where, "--once", "--json", "--data", books.path)
    assert seen.exit_code == 0, seen.output
    assert json.loads(seen.stdout)["handed_in"] is True
    assert handed == [2]  # the log's line and its own, none of others


def test_entries_are_read_when_asked_for(books, tmp_path):
    refused = witness(books, tmp_path, "--once", "--entries")
    assert isinstance(refused.exception, LogRefused)  # zeros for signatures
    assert "log entry 0: signature" in str(refused.exception)


def test_what_is_missing(books, tmp_path):
    missing = run("cosign", tmp_path / "none", "--data", books.path)
    assert isinstance(missing.exception, ConfigurationError)
    where = ("--log", tmp_path / "none", "--state", tmp_path / "witness")
    assert run("witness", *where, "--once", "--data", books.path).exit_code == 1
