"""`p2pmoe key`: sealed, moved, never over another, and no passphrase in arguments."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from mobile_worker.errors import IdentityError
from mobile_worker.session import sealed_key
from mobile_worker.session.identity import load_or_create, read_to_sign
from p2pmoe.errors import ConfigurationError
from tests.support.commands import run_here

WORDS = b"correct horse battery\n"


@pytest.fixture(autouse=True)
def _cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealed_key.seal_key, "__kwdefaults__", {"cost": 10})


@contextmanager
def descriptor(text: bytes) -> Iterator[int]:
    reading, writing = os.pipe()
    os.write(writing, text)
    os.close(writing)
    yield reading
    os.close(reading)


def run(what: str, *words: object, text: bytes = WORDS):
    with descriptor(text) as number:
        return run_here("key", what, *words, "--passphrase-fd", number)


@pytest.fixture
def worker(tmp_path):
    load_or_create(tmp_path / "old" / "identity").release()
    return tmp_path / "old"


def test_a_key_moves_to_another_folder(tmp_path, worker):
    file = tmp_path / "key"
    assert run("export", file, "--data", worker).exit_code == 0
    assert file.stat().st_mode & 0o777 == 0o600
    new = tmp_path / "new"
    assert run("import", file, "--data", new).exit_code == 0
    assert run("import", file, "--data", new).exit_code == 0  # it is there already
    old = read_to_sign(worker / "identity")
    assert read_to_sign(new / "identity").text() == old.text()


def test_neither_a_file_nor_another_key_is_written_over(tmp_path, worker):
    file = tmp_path / "key"
    run("export", file, "--data", worker)
    again = run("export", file, "--data", worker)
    assert isinstance(again.exception, ConfigurationError)
    load_or_create(tmp_path / "other" / "identity").release()
    before = (tmp_path / "other" / "identity").read_text()
    refused = run("import", file, "--data", tmp_path / "other")
    assert isinstance(refused.exception, IdentityError)
    assert "key of another worker" in str(refused.exception)
    assert (tmp_path / "other" / "identity").read_text() == before


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (b"short\n", IdentityError),
        (b"", IdentityError),
        (b"\xff\xfe nonsense \xff\n", ConfigurationError),
        (b"x" * 2000, ConfigurationError),
    ],
)
def test_a_passphrase_that_cannot_be_is_one_line(tmp_path, worker, text, error):
    shown = run("export", tmp_path / "key", "--data", worker, text=text)
    assert isinstance(shown.exception, error)
    assert not (tmp_path / "key").exists()


def test_a_wrong_passphrase_writes_nothing(tmp_path, worker):
    run("export", tmp_path / "key", "--data", worker)
    new = tmp_path / "new"
    shown = run("import", tmp_path / "key", "--data", new, text=b"another long one\n")
    assert "passphrase is wrong" in str(shown.exception)
    assert not new.exists()


def test_without_terminal_and_descriptor_it_says_how(tmp_path, worker):
    shown = run_here("key", "export", tmp_path / "key", "--data", worker)
    assert isinstance(shown.exception, ConfigurationError)
    assert "--passphrase-fd 3" in shown.exception.advice
    closed = run_here("key", "export", tmp_path / "k", "--passphrase-fd", 999)
    assert isinstance(closed.exception, (ConfigurationError, IdentityError))
