"""`p2pmoe serve`: its options, its ready file, its ends."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
import typer
from typer.testing import CliRunner

from mobile_worker.arithmetic.errors import KernelUnavailable
from mobile_worker.errors import IdentityInUse
from mobile_worker.session.identity import load_or_create
from p2pmoe.cli.computing import KERNEL_VARIABLE
from p2pmoe.cli.serve import register
from p2pmoe.errors import ConfigurationError, P2pmoeError


def invoke(*arguments: str) -> Exception | None:
    app = typer.Typer()
    register(app)
    app.command("other")(lambda: None)
    result = CliRunner().invoke(app, ["serve", *arguments])
    return result.exception


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("--disk", "floppy"), "--disk"),
        (("--disk", "tier+floppy"), "--disk"),
        (("--disk-cache", "lots"), "--disk-cache"),
        (("--missing", "shrug"), "--missing"),
        (("--missing", "drop", "--drop-bound", "2"), "--drop-bound"),
        (("--manifest", "https://host/m"), "manifest"),
        (("--batch", "0"), "--batch"),
        (("--ram", "lots"), "--ram"),
        (("--profile", "r64"), "--profile"),
        (("--listen", "nowhere"), "--listen"),
        (("--wait-coverage", "7"), "--wait-coverage"),
        (("--context", "-3"), "--context"),
        (("--threads", "0"), "--threads"),
        (("--invite", "/nonexistent/invite.json"), "invite"),
        (("--relay", "http://plain"), "relay"),
    ],
)
def test_bad_options_are_named(
    arguments: tuple[str, ...], word: str, tmp_path: Path
) -> None:
    error = invoke("pocket", "--data", str(tmp_path), *arguments)
    assert isinstance(error, Exception)
    assert word in str(error)
    assert getattr(error, "exit_code", None) == 2


def test_a_kernel_that_there_is_not_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KERNEL_VARIABLE, "abacus")
    error = invoke("pocket", "--data", str(tmp_path))
    assert isinstance(error, KernelUnavailable)
    assert "abacus" in str(error)


def test_neither_model_nor_manifest(tmp_path: Path) -> None:
    assert "neither" in str(invoke("--data", str(tmp_path)))


def test_a_missing_model_is_named(tmp_path: Path) -> None:
    error = invoke(str(tmp_path / "none.gguf"), "--data", str(tmp_path))
    assert isinstance(error, P2pmoeError)
    assert "none.gguf" in str(error)


@pytest.mark.parametrize("network", [(), ("--relay", "wss://127.0.0.1:1/relay")])
def test_a_data_folder_in_use_is_refused_before_the_model_is_read(
    tmp_path: Path, network: tuple[str, ...]
) -> None:
    identity = load_or_create(tmp_path / "identity")
    command = (str(tmp_path / "none.gguf"), "--data", str(tmp_path), *network)
    error = invoke(*command)
    assert isinstance(error, IdentityInUse)
    assert "in use by another process" in str(error)
    identity.release()
    assert "none.gguf" in str(invoke(*command))


def test_reaching_beyond_this_machine_needs_a_key(tmp_path: Path) -> None:
    error = invoke("pocket", "--data", str(tmp_path), "--listen", "0.0.0.0:0")
    leaves = getattr(error, "exceptions", (error,))
    while len(leaves) == 1 and hasattr(leaves[0], "exceptions"):
        leaves = leaves[0].exceptions
    assert isinstance(leaves[0], ConfigurationError)
    assert "key" in str(leaves[0])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)]
)
def test_a_signal_drains_and_ends_with_its_code(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    ready = tmp_path / "ready.json"
    command = [
        *(sys.executable, "-m", "p2pmoe", "serve", "pocket", "--listen", "127.0.0.1:0"),
        *("--data", str(tmp_path / "data"), "--ready-file", str(ready)),
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            until = time.monotonic() + 60
            while not ready.exists() and time.monotonic() < until:
                time.sleep(0.05)
            host, port = json.loads(ready.read_text())["listen"]
            url = f"http://{host}:{port}/livez"
            answer = httpx.get(url, trust_env=False, timeout=60)
            assert answer.status_code == 200
            process.send_signal(number)
            assert process.wait(60) == code
        finally:
            process.kill()
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()
