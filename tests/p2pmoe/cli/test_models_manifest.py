"""`p2pmoe models manifest`: the file it writes, and what it says of it."""

import hashlib
import json
import os
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from mobile_worker.shards.manifest import parse_manifest
from p2pmoe.cli.models import register
from p2pmoe.errors import ConfigurationError
from p2pmoe.text.tokenizer import load_tokenizer
from p2pmoe.weights.model_file import open_model

POCKET = Path(__file__).resolve().parents[3] / "p2pmoe/models/pocket-q4_0.gguf"


def invoke(*arguments: str):
    app = typer.Typer()
    register(app)
    app.command("other")(lambda: None)
    return CliRunner().invoke(app, ["models", "manifest", *arguments])


def test_it_writes_what_serve_takes(tmp_path: Path) -> None:
    out = tmp_path / "pocket.manifest"
    sources = [
        "--source",
        "https://a.example/m/",
        "--source",
        "https://b.example/p.gguf",
    ]
    shown = invoke("pocket", *sources, "-o", str(out))
    assert shown.exit_code == 0, shown.exception
    manifest = parse_manifest(out.read_bytes())
    assert manifest.files[0].urls == (
        "https://a.example/m/pocket-q4_0.gguf",
        "https://b.example/p.gguf",
    )
    assert len(manifest.experts) == 224
    with open_model(POCKET) as model:
        assert manifest.tokenizer_digest == load_tokenizer(model).digest
    digest = hashlib.sha256(out.read_bytes()).hexdigest()
    assert f"serve with\t--manifest URL#{digest}" in shown.stdout
    assert "experts\t224, 11.8 MiB" in shown.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["pocket.manifest"]


def test_it_prints_json(tmp_path: Path) -> None:
    out = tmp_path / "m"
    shown = invoke(
        "pocket", "--source", "https://a.example/p", "-o", str(out), "--json"
    )
    document = json.loads(shown.stdout)
    assert document["sha256"] == hashlib.sha256(out.read_bytes()).hexdigest()
    assert document["n_experts"] == 224
    assert document["expert_bytes"] + document["base_bytes"] <= POCKET.stat().st_size
    assert document["files"] == [
        {"n_bytes": POCKET.stat().st_size, "urls": ["https://a.example/p"]}
    ]


@pytest.mark.parametrize("source", ["http://a.example/", "ftp://a.example/", "x"])
def test_an_address_that_nobody_may_ask_writes_nothing(
    tmp_path: Path, source: str
) -> None:
    shown = invoke("pocket", "--source", source, "-o", str(tmp_path / "m"))
    assert isinstance(shown.exception, ConfigurationError)
    assert not list(tmp_path.iterdir())


def test_what_cannot_or_must_not_be_replaced_is_refused_first(tmp_path: Path) -> None:
    model, link, fifo = (tmp_path / name for name in ("m.gguf", "link", "fifo"))
    model.write_bytes(POCKET.read_bytes()[:64])
    link.symlink_to(model)
    os.mkfifo(fifo)
    wanted = {
        model: "it is a model file",
        link: "it is a model file",
        fifo: "it is no regular file",
        tmp_path: "it is no regular file",
        Path("/dev/null"): "it is no regular file",
        tmp_path / "none" / "m": "there is no such folder",
        tmp_path / ("a" * 300): "file name too long",
        tmp_path / ("a" * 253): "file name too long",  # with `.part` behind it
    }
    before = sorted(tmp_path.iterdir())
    for path, reason in wanted.items():
        shown = invoke("pocket", "--source", "https://a.example/p", "-o", str(path))
        assert isinstance(shown.exception, ConfigurationError), path
        assert reason in str(shown.exception)
    assert sorted(tmp_path.iterdir()) == before
    assert model.stat().st_size == 64


def test_what_a_link_names_is_replaced_and_the_link_stays(tmp_path: Path) -> None:
    link, out = tmp_path / "link", tmp_path / "m"
    link.symlink_to(out)
    assert not invoke(
        "pocket", "--source", "https://a.example/p", "-o", str(link)
    ).exit_code
    assert link.is_symlink()
    assert len(parse_manifest(out.read_bytes()).experts) == 224
