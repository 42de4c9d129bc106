"""DeepSeek-V2, V3 and Kimi-K2: latent attention, routing keys, YaRN, FP8."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mobile_worker.arithmetic.formats.block_format import Format
from p2pmoe.weights.errors import ModelFileError, UnsupportedModel
from p2pmoe.weights.huggingface.translate import deepseek
from p2pmoe.weights.model_file import open_model, read_header
from tests.support.safetensors_folder import (
    Published,
    assert_same_model,
    bf16,
    f32,
    published,
    u8,
)

YARN = {
    "rope_type": "yarn",
    "factor": 40,
    "original_max_position_embeddings": 128,
    "beta_fast": 32,
    "beta_slow": 1,
    "mscale": 0.707,
    "mscale_all_dim": 0.707,
}


def test_each_head_of_kv_b_is_parted_and_its_key_half_turned(tmp_path: Path) -> None:
    model = published("deepseek_v3")
    stored = model.tensors["model.layers.1.self_attn.kv_b_proj.weight"].floats
    heads = stored.reshape(4, 32, 32)
    with open_model(model.write(tmp_path / "m")) as view:
        keys = view.read("blk.1.attn_k_b.weight")
        values = view.read("blk.1.attn_v_b.weight")
    assert keys == np.ascontiguousarray(heads[:, :16].transpose(0, 2, 1)).tobytes()
    assert values == np.ascontiguousarray(heads[:, 16:]).tobytes()


def test_trailing_layers_and_newer_experts_are_the_same_model(tmp_path: Path) -> None:
    model = published("deepseek_v3")
    for layer in (1, 2):
        stem = f"model.layers.{layer}.mlp"
        model.stack_experts(stem, ("gate_proj", "up_proj", "down_proj"), stem)
    model.tensors["model.layers.3.eh_proj.weight"] = f32([[1.0]])
    assert_same_model(model.write(tmp_path / "m"), "deepseek_v3")


def test_kimi_k2_is_a_v3(tmp_path: Path) -> None:
    model = published("deepseek_v3")
    model.config |= {"model_type": "kimi_k2", "topk_method": "noaux_tc"}
    del model.config["scoring_func"]
    assert_same_model(model.write(tmp_path / "m"), "deepseek_v3")


def test_yarn_of_deepseek(tmp_path: Path) -> None:
    model = published("deepseek_v2")
    del model.config["rope_parameters"]
    model.config |= {"rope_theta": 10000, "rope_scaling": YARN}
    metadata = read_header(model.write(tmp_path / "m")).metadata
    key = "deepseek2.rope.scaling.yarn_log_multiplier"
    assert metadata[key] == float(np.float32(0.0707))
    assert metadata["deepseek2.rope.scaling.factor"] == 40.0
    assert metadata["deepseek2.rope.scaling.original_context_length"] == 128


@pytest.mark.parametrize("mscales", [{"mscale": 1.0}, {"mscale_all_dim": 0}])
def test_magnitudes_that_one_key_cannot_tell_are_refused(
    mscales: dict[str, float], tmp_path: Path
) -> None:
    model = published("deepseek_v2")
    model.config["rope_parameters"] = {"rope_theta": 10000, **YARN, **mscales}
    with pytest.raises(UnsupportedModel, match="mscale"):
        read_header(model.write(tmp_path / "m"))


def test_greedy_choice_knows_no_groups(tmp_path: Path) -> None:
    model = published("deepseek_v2")
    model.config |= {"n_group": 2, "topk_group": 1, "topk_method": "greedy"}
    metadata = read_header(model.write(tmp_path / "m")).metadata
    assert metadata["deepseek2.expert_group_count"] == 1
    assert metadata["deepseek2.expert_group_used_count"] == 1
    model.config["topk_method"] = "group_limited_greedy"
    metadata = read_header(model.write(tmp_path / "m")).metadata
    assert metadata["deepseek2.expert_group_count"] == 2


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("topk_method", "random"),
        ("scoring_func", "softmax"),
        ("moe_layer_freq", 2),
        ("rope_interleave", False),
    ],
)
def test_what_is_not_supported_is_refused(
    key: str, value: object, tmp_path: Path
) -> None:
    model = published("deepseek_v3")
    model.config[key] = value
    with pytest.raises(UnsupportedModel, match=f"key '{key}'"):
        read_header(model.write(tmp_path / "m"))
    assert deepseek.ARCHITECTURE == "deepseek2"


def test_b12_what_a_config_does_not_say_is_as_in_the_publishers_code(
    tmp_path: Path,
) -> None:
    found = {}
    for name in ("deepseek_v2", "deepseek_v3"):
        model = published(name)
        for key in ("norm_topk_prob", "routed_scaling_factor"):
            del model.config[key]
        found[name] = read_header(model.write(tmp_path / name)).metadata
    assert found["deepseek_v3"]["deepseek2.expert_weights_norm"] is True
    assert found["deepseek_v3"]["deepseek2.expert_weights_scale"] == 2.5
    assert "deepseek2.expert_weights_norm" not in found["deepseek_v2"]
    assert found["deepseek_v2"].get("deepseek2.expert_weights_scale", 1.0) == 1.0


def test_b12_a_v2_that_normalises_is_refused(tmp_path: Path) -> None:
    model = published("deepseek_v2")
    model.config["norm_topk_prob"] = True
    with pytest.raises(UnsupportedModel, match="key 'norm_topk_prob'"):
        read_header(model.write(tmp_path / "m"))


def decoded(codes: Any, scales: Any, block: int) -> Any:
    """Decode F8_E4M3 in blocks to BF16 bits, apart from the code under test."""
    size = [
        (c & 7) / 8 * 2**-6
        if c & 120 == 0
        else (1 + (c & 7) / 8) * 2.0 ** ((c >> 3 & 15) - 7)
        for c in range(128)
    ]
    table = np.array(size + [-value for value in size], np.float32)
    spread = np.repeat(np.repeat(scales, block, 0), block, 1)
    product = table[codes] * spread[: codes.shape[0], : codes.shape[1]]
    bits = product.view(np.uint32)
    low, rest = bits >> 16, bits & 0xFFFF
    return (low + ((rest > 0x8000) | ((rest == 0x8000) & (low % 2 == 1)))).astype("u2")


def in_fp8(block: int = 24) -> tuple[Published, Published]:
    """Return the tiny model with FP8 matrices, and the same decoded to BF16."""
    rng = np.random.default_rng(23)
    coded, plain = published("deepseek_v3"), published("deepseek_v3")
    for name, tensor in published("deepseek_v3").tensors.items():
        is_matrix = len(tensor.shape) == 2 and "proj" in name
        if not is_matrix:
            continue
        codes = rng.integers(0, 256, tensor.shape).astype(np.uint8)
        codes[(codes & 127) == 127] = 0
        grid = [-(-size // block) for size in tensor.shape]
        scales = rng.uniform(0.0001, 0.01, grid).astype(np.float32)
        coded.tensors[name] = u8(codes, "F8_E4M3")
        coded.tensors[f"{name}_scale_inv"] = f32(scales)
        plain.tensors[name] = bf16(decoded(codes, scales, block))
    coded.config["quantization_config"] = {
        "quant_method": "fp8",
        "fmt": "e4m3",
        "activation_scheme": "dynamic",
        "weight_block_size": [block, block],
    }
    return coded, plain


@pytest.mark.parametrize("block", [24, 128])
def test_an_fp8_folder_is_its_bf16_model(block: int, tmp_path: Path) -> None:
    coded, plain = in_fp8(block)
    with (
        open_model(coded.write(tmp_path / "fp8", n_files=3)) as ours,
        open_model(plain.write(tmp_path / "bf16")) as theirs,
    ):
        assert ours.tensor("blk.1.attn_k_b.weight").format is Format.BF16
        assert ours.tensor("blk.1.ffn_up_exps.weight").format is Format.BF16
        assert ours.metadata["deepseek2.block_count"] == 3
        for name, tensor in theirs.tensors.items():
            assert ours.tensor(name) == tensor
            assert ours.read(name) == theirs.read(name), name


def test_a_scale_that_is_missing_or_left_over_is_refused(tmp_path: Path) -> None:
    coded, _ = in_fp8()
    name = "model.layers.2.mlp.experts.3.up_proj.weight_scale_inv"
    scale = coded.tensors.pop(name)
    with pytest.raises(ModelFileError, match="has no scale beside it"):
        read_header(coded.write(tmp_path / "m"))
    coded.tensors[name] = scale
    coded.tensors["model.norm.weight_scale_inv"] = scale
    with pytest.raises(UnsupportedModel, match=r"1 tensors .*model.norm.weight_scale"):
        read_header(coded.write(tmp_path / "m"))


def test_a_code_that_is_no_number_is_refused_when_read(tmp_path: Path) -> None:
    coded, _ = in_fp8()
    name = "model.layers.2.mlp.experts.3.up_proj.weight"
    codes = np.zeros((32, 64), np.uint8)
    codes[9, 9] = 0xFF
    coded.tensors[name] = u8(codes, "F8_E4M3")
    with open_model(coded.write(tmp_path / "m")) as view:
        up = view.tensor("blk.2.ffn_up_exps.weight")
        size = up.n_bytes // 8
        view.read_range(up.offset + 2 * size, size)
        with pytest.raises(ModelFileError, match=rf"tensor '{name}': .* not finite"):
            view.read_range(up.offset + 3 * size, size)
