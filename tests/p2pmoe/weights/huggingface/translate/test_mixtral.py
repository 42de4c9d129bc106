"""Mixtral: both layouts of its experts; queries and keys are permuted."""

from pathlib import Path

import numpy as np

from p2pmoe.weights.huggingface.translate import mixtral
from p2pmoe.weights.model_file import open_model
from tests.support.safetensors_folder import assert_same_model, published


def test_the_newer_layout_is_the_same_model(tmp_path: Path) -> None:
    model = published("mixtral")
    for layer in range(3):
        stem = f"model.layers.{layer}"
        words = ("w1", "w3", "w2")
        model.stack_experts(f"{stem}.block_sparse_moe", words, f"{stem}.mlp")
    model.rename(".block_sparse_moe.", ".mlp.")
    assert_same_model(model.write(tmp_path / "m"), "mixtral")


def test_an_older_configuration_is_the_same_model(tmp_path: Path) -> None:
    model = published("mixtral")
    del model.config["rope_parameters"], model.config["head_dim"]
    model.config |= {"rope_theta": 1e6, "rope_scaling": None}
    assert_same_model(model.write(tmp_path / "m"), "mixtral")


def test_keys_are_permuted_by_their_own_number_of_heads(tmp_path: Path) -> None:
    model = published("mixtral")
    stored = model.tensors["model.layers.2.self_attn.k_proj.weight"].floats
    expected = stored.reshape(2, 2, 8, 64).transpose(0, 2, 1, 3)
    with open_model(model.write(tmp_path / "m")) as view:
        raw = view.read("blk.2.attn_k.weight")
    assert raw == np.ascontiguousarray(expected).tobytes()


def test_a_window_is_a_key_and_a_tied_head_no_tensor(tmp_path: Path) -> None:
    model = published("mixtral")
    model.config |= {"sliding_window": 128, "tie_word_embeddings": True}
    with open_model(model.write(tmp_path / "m")) as view:
        assert view.metadata["llama.attention.sliding_window"] == 128
        assert "output.weight" not in view.tensors
    assert mixtral.ARCHITECTURE == "llama"
