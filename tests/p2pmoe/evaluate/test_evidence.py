"""Whether what is served has been evaluated."""

import dataclasses
import logging
from pathlib import Path

import pytest

from p2pmoe.config import ServeConfig
from p2pmoe.evaluate import evidence
from p2pmoe.evaluate.configuration import Configuration, read_configuration
from p2pmoe.evaluate.errors import NotEvaluated
from p2pmoe.evaluate.evidence import checked_configuration
from p2pmoe.evaluate.store import FOLDER_NAME, save_run
from p2pmoe.evaluate.weights_digest import read_weights
from p2pmoe.weights.model_file import ModelFile, open_model
from tests.support.api import small_tokenizer
from tests.support.backbone_model import POCKET, manifest_of
from tests.support.evaluations import RUN
from tests.support.mini_m3 import write_mini_m3

TOKENIZER = small_tokenizer()


@pytest.fixture
def model(tmp_path: Path):
    with open_model(write_mini_m3(tmp_path / "m.gguf")) as opened:
        yield opened


def config_for(model: ModelFile, folder: Path, **fields) -> ServeConfig:
    return ServeConfig(model=model.path, data=folder, **fields)


def evaluated(folder: Path, configuration: Configuration) -> None:
    told = read_configuration(configuration.document())
    run = dataclasses.replace(RUN, configuration=told)
    save_run(folder / FOLDER_NAME, run)


def test_one_line_warns_until_there_is_a_run(model, tmp_path: Path, caplog):
    config = config_for(model, tmp_path)
    with caplog.at_level(logging.WARNING):
        own = checked_configuration(config, model, TOKENIZER, None)
    [line] = caplog.messages
    assert line.startswith(f"configuration {own.digest[:16]} has no evaluation")
    assert own.weights == read_weights(model)
    evaluated(tmp_path, own)
    caplog.clear()
    assert checked_configuration(config, model, TOKENIZER, None) == own
    assert caplog.messages == []


def test_another_setting_needs_its_own_run(model, tmp_path: Path, caplog):
    evaluated(
        tmp_path,
        checked_configuration(config_for(model, tmp_path), model, TOKENIZER, None),
    )
    caplog.clear()
    checked_configuration(
        config_for(model, tmp_path, profile="r8"), model, TOKENIZER, None
    )
    assert len(caplog.messages) == 1


def test_it_may_be_required(model, tmp_path: Path):
    config = config_for(model, tmp_path, require_evaluation=True)
    with pytest.raises(NotEvaluated, match="has no evaluation on record") as caught:
        checked_configuration(config, model, TOKENIZER, None)
    assert "--require-evaluation" in caught.value.advice
    open_config = dataclasses.replace(config, require_evaluation=False)
    evaluated(tmp_path, checked_configuration(open_config, model, TOKENIZER, None))
    assert checked_configuration(config, model, TOKENIZER, None).is_known


def test_a_large_model_is_not_read_at_the_start(model, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(evidence, "AT_ONCE_BYTES", 10)
    own = checked_configuration(config_for(model, tmp_path), model, TOKENIZER, None)
    assert not own.is_known
    assert "its weights have not been read for one" in caplog.text


def test_a_manifest_names_the_weights(model, tmp_path: Path):
    manifest = manifest_of(POCKET)
    own = checked_configuration(config_for(model, tmp_path), model, TOKENIZER, manifest)
    assert own.weights.startswith("manifest ")
    assert own.is_known
