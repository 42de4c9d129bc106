from pathlib import Path

import pytest

from mobile_worker.clock import SystemClock
from p2pmoe.backbone.loading import Loaded, load_service
from p2pmoe.config import ServeConfig
from p2pmoe.model.errors import ModelRefused
from p2pmoe.text.template import BrokenTemplate
from p2pmoe.weights.model_file import open_model
from tests.support.backbone_model import POCKET
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
