"""Shared metadata keys: bounded, rounded as the file stores them, absent as absent."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from p2pmoe.weights.errors import ModelFileError, UnsupportedModel
from p2pmoe.weights.huggingface.config import Config
from p2pmoe.weights.huggingface.keys import (
    attention_keys,
    expert_keys,
    next_blocks,
    prefixed,
    size_keys,
)

BASE = {
    "num_hidden_layers": 3,
    "max_position_embeddings": 512,
    "hidden_size": 64,
    "intermediate_size": 96,
    "vocab_size": 512,
    "num_attention_heads": 4,
    "rms_norm_eps": 1e-6,
    "num_experts": 8,
    "num_experts_per_tok": 2,
}


def config(**changes: Any) -> Config:
    return Config(Path("config.json"), {**BASE, **changes})


def test_sizes() -> None:
    assert size_keys(config(dense=7), feed_forward="dense") == {
        "block_count": 3,
        "context_length": 512,
        "embedding_length": 64,
        "feed_forward_length": 7,
        "vocab_size": 512,
    }


def test_heads() -> None:
    keys = attention_keys(config())
    assert keys["attention.head_count_kv"] == 4
    assert "attention.key_length" not in keys
    keys = attention_keys(config(num_key_value_heads=2, head_dim=32))
    assert keys["attention.head_count_kv"] == 2
    assert keys["attention.key_length"] == keys["attention.value_length"] == 32


@pytest.mark.parametrize(
    "name", ["num_experts", "num_local_experts", "n_routed_experts"]
)
def test_experts_by_any_name(name: str) -> None:
    keys = expert_keys(config(**{"num_experts": None, name: 128}))
    assert keys == {"expert_count": 128, "expert_used_count": 2}


def test_routing() -> None:
    keys = expert_keys(
        config(
            n_group=8, topk_group=4, scoring_func="sigmoid", routed_scaling_factor=2.5
        )
    )
    assert keys["expert_group_count"] == 8
    assert keys["expert_group_used_count"] == 4
    assert keys["expert_gating_func"] == 2
    assert keys["expert_weights_scale"] == 2.5
    assert expert_keys(config(scoring_func="softmax"))["expert_gating_func"] == 1
    with pytest.raises(UnsupportedModel, match="key 'scoring_func': 'tanh'"):
        expert_keys(config(scoring_func="tanh"))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("num_hidden_layers", 0),
        ("num_hidden_layers", 1 << 20),
        ("hidden_size", 1 << 40),
        ("vocab_size", "512"),
        ("max_position_embeddings", None),
        ("rms_norm_eps", "1e-6"),
        ("num_attention_heads", 4.0),
        ("num_experts", -1),
        ("num_experts_per_tok", True),
    ],
)
def test_b01_absurd_numbers_are_refused(key: str, value: object) -> None:
    wrong = config(**{key: value})
    with pytest.raises(ModelFileError, match=f"key '{key}'"):
        _ = size_keys(wrong) | attention_keys(wrong) | expert_keys(wrong)


def test_floats_are_rounded_as_the_file_stores_them() -> None:
    found = prefixed("olmoe", {"n": 1, "eps": 1e-6, "on": True, "word": "x"})
    assert found == {
        "general.architecture": "olmoe",
        "olmoe.n": 1,
        "olmoe.eps": float(np.float32(1e-6)),
        "olmoe.on": True,
        "olmoe.word": "x",
    }


def test_next_token_blocks_are_few() -> None:
    assert next_blocks(config()) == 0
    assert next_blocks(config(num_nextn_predict_layers=1)) == 1
    for wrong in (-1, 65, "1"):
        with pytest.raises(ModelFileError, match="num_nextn_predict_layers"):
            next_blocks(config(num_nextn_predict_layers=wrong))
