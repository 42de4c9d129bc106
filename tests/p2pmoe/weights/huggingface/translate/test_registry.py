"""Every architecture that is read is known by its names on the hub."""

from pathlib import Path

import pytest

from p2pmoe.model.model import architectures
from p2pmoe.weights.errors import ModelFileError, UnsupportedModel
from p2pmoe.weights.huggingface.config import Config
from p2pmoe.weights.huggingface.quantization import read_quantization
from p2pmoe.weights.huggingface.translate.registry import (
    architecture_name,
    is_known,
    text_part,
    translated_names,
    translation_of,
)
from tests.support.hub_configs import HUB_CONFIGS, HUB_FACTS
from tests.support.safetensors_folder import published, reference
from tests.support.tiny_folders import TINY_FOLDERS


def of(*names: str) -> Config:
    return Config(Path("config.json"), {"architectures": list(names)})


@pytest.mark.parametrize("tiny", TINY_FOLDERS)
def test_each_tiny_model_is_known(tiny: str) -> None:
    config = Config(Path("config.json"), published(tiny).config)
    with reference(tiny) as file:
        architecture = file.metadata["general.architecture"]
    assert translation_of(config).architecture == architecture


def test_the_text_model_of_minimax_m3_as_transformers_saves_it() -> None:
    assert translation_of(of("MiniMaxM3VLForCausalLM")).architecture == "minimax-m3"


def test_an_unknown_name_is_refused() -> None:
    assert not is_known(of("LlamaForCausalLM"))
    with pytest.raises(UnsupportedModel, match="'LlamaForCausalLM' is unknown here"):
        translation_of(of("LlamaForCausalLM"))
    with pytest.raises(ModelFileError, match="is not one name"):
        architecture_name(of("A", "B"))


def test_a_models_text_part() -> None:
    assert "architectures" in text_part(of("A"))
    nested = Config(Path("config.json"), {"text_config": {"n": 1}})
    assert text_part(nested).integer("n") == 1


@pytest.mark.parametrize("name", HUB_CONFIGS)
def test_the_configuration_of_a_released_model(name: str) -> None:
    config = Config(Path("config.json"), HUB_CONFIGS[name])
    architecture, facts = HUB_FACTS[name]
    metadata = translation_of(config).metadata(text_part(config))
    assert metadata["general.architecture"] == architecture
    for key, value in facts.items():
        assert metadata[f"{architecture}.{key}"] == value, key
    assert read_quantization(config).method.value in {"", "fp8", "mxfp4"}


def test_each_translation_is_of_an_architecture_that_runs() -> None:
    for name in translated_names():
        assert translation_of(of(name)).architecture in architectures()
