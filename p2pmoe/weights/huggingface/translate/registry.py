"""The architectures whose folders are read: the hub's name -> its translation."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from p2pmoe.weights.errors import UnsupportedModel
from p2pmoe.weights.huggingface.config import Config
from p2pmoe.weights.huggingface.tensor_table import TensorTable
from p2pmoe.weights.huggingface.translate import (
    deepseek,
    glm4_moe,
    gpt_oss,
    minimax_m2,
    minimax_m3,
    mixtral,
    olmoe,
    qwen2_moe,
    qwen3_moe,
)
from p2pmoe.weights.metadata import MetadataValue

__all__ = [
    "Translation",
    "architecture_name",
    "is_known",
    "text_part",
    "translated_names",
    "translation_of",
]

_MODULES: Final = (
    deepseek,
    glm4_moe,
    gpt_oss,
    minimax_m2,
    minimax_m3,
    mixtral,
    olmoe,
    qwen2_moe,
    qwen3_moe,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Translation:
    """What an architecture's file in this folder offers; see there."""

    architecture: str
    metadata: Callable[[Config], dict[str, MetadataValue]]
    tensors: Callable[[TensorTable, Config], None]


_TRANSLATIONS: Final = {
    name: Translation(
        architecture=module.ARCHITECTURE,
        metadata=module.metadata,
        tensors=module.tensors,
    )
    for module in _MODULES
    for name in module.NAMES
}


def architecture_name(config: Config) -> str:
    """Return the hub's name of the model's architecture; ModelFileError if none."""
    names = config.texts("architectures")
    if len(names) != 1:
        raise config.wrong("architectures", f"{list(names)[:4]} is not one name")
    return names[0]


def is_known(config: Config) -> bool:
    """Return whether the model's architecture has a translation; ModelFileError."""
    return architecture_name(config) in _TRANSLATIONS


def translated_names() -> tuple[str, ...]:
    """Return the hub's names of the architectures whose folders are read, sorted."""
    return tuple(sorted(_TRANSLATIONS))


def text_part(config: Config) -> Config:
    """Return where the language model's sizes lie: nested in a model with pictures."""
    return config.section("text_config") if "text_config" in config else config


def translation_of(config: Config) -> Translation:
    """Return how to read the model; UnsupportedModel if its architecture is unknown."""
    name = architecture_name(config)
    if name not in _TRANSLATIONS:
        reason = f"architecture {name[:80]!r} is unknown here"
        raise UnsupportedModel(config.path, reason, field="key 'architectures'")
    return _TRANSLATIONS[name]
