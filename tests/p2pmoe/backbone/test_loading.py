from pathlib import Path

import pytest

from mobile_worker.clock import SystemClock
from p2pmoe.backbone.base_model import BaseModel, open_by_manifest
from p2pmoe.backbone.base_side import BaseSide
from p2pmoe.backbone.loading import Loaded, load_service
from p2pmoe.config import DiskPolicy, NetworkAccess, ServeConfig
from p2pmoe.model.errors import ModelRefused
from p2pmoe.text.template import BrokenTemplate
from p2pmoe.weights.model_file import open_model
from relay.endpoint import parse_endpoint
from tests.support.backbone_model import POCKET
from tests.support.base_models import FAST, MANIFEST_URL, public_model
from tests.support.mini_m3 import write_mini_m3
from tests.support.vocabularies import byte_level_metadata


def load(model: Path, data: Path) -> Loaded:
    data.mkdir()
    with open_model(model) as model_file:
        config = ServeConfig(model=model, data=data)
        return load_service(model_file, config, SystemClock())


def mini(folder: Path, n_vocab: int) -> Path:
    keys = {**byte_level_metadata(), "general.architecture": "minimax-m3"}
    return write_mini_m3(folder / "mini.gguf", keys, n_vocab=n_vocab)


def test_what_is_served_and_no_manifest_without_a_network(tmp_path: Path) -> None:
    loaded = load(POCKET, tmp_path / "data")
    assert loaded.manifest is None
    assert loaded.served.n_context == loaded.local.n_context
    assert loaded.served.template is not None


def test_a_model_that_cannot_chat_is_told_at_the_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="p2pmoe.backbone")
    for model, n_said in ((mini(tmp_path, 300), 1), (POCKET, 0)):
        caplog.clear()
        load(model, tmp_path / model.stem)
        assert caplog.text.count("no chat template") == n_said


def test_b07_a_template_that_does_not_compile_costs_chats_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    keys = {**byte_level_metadata(), "general.architecture": "minimax-m3"}
    keys["tokenizer.chat_template"] = "{% for"
    path = write_mini_m3(tmp_path / "m.gguf", keys, n_vocab=300)
    loaded = load(path, tmp_path / "data")
    assert "chat template does not compile" in caplog.text
    assert isinstance(loaded.served.template, BrokenTemplate)


def test_more_tokens_than_embeddings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelRefused, match="for 96 embeddings"):
        load(mini(tmp_path, 96), tmp_path / "data")


def test_a_model_named_by_its_manifest_is_fetched_without_experts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = public_model(POCKET)
    told: list[str] = []

    def open_here(text: str, folder: Path, told) -> BaseModel:
        client = model.server.open_client
        return open_by_manifest(text, folder, told, settings=FAST, open_client=client)

    monkeypatch.setattr("p2pmoe.backbone.base_model.open_by_manifest", open_here)

    def load_it() -> Loaded:
        access = NetworkAccess(endpoint=parse_endpoint("wss://relay.example/relay"))
        config = ServeConfig(
            model=tmp_path / "base",
            data=tmp_path,
            access=access,
            manifest=f"{MANIFEST_URL}#{model.digest}",
            disk=DiskPolicy.OFF,
        )
        say = lambda label, _: told.append(label)  # noqa: E731
        return load_service(None, config, SystemClock(), told=say)

    loaded = load_it()
    assert isinstance(loaded.local, BaseSide)
    assert loaded.manifest == model.manifest
    assert loaded.served.name == "p2pmoe-pocket"
    assert loaded.local.hot.at_hand() == ()
    assert "fetching the base" in told
    model = model.changed(tokenizer_digest=bytes(32))
    with pytest.raises(ModelRefused, match="another tokenizer"):
        load_it()
