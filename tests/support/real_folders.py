"""Model folders as hubs publish them, cut down in every size: names, codings, layout.

`write_real_folder` writes one of `real_configs`' models with seeded weights, in as many
files as asked, each with the tensors that the published files have: those that predict
further tokens, FP8 codes with their scales, MXFP4 blocks. `as_hub_cache` lays a folder
out as the hub's client does, `beside` puts the files there that models come with.
"""

import hashlib
import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.real_configs import CONFIGS
from tests.support.safetensors_folder import (
    Published,
    SafeTensor,
    bf16,
    f32,
    safetensors_bytes,
    u8,
)

__all__ = ["as_hub_cache", "beside", "published_folder"]

_GQA = """
L.input_layernorm.weight E
L.post_attention_layernorm.weight E
L.self_attn.q_proj.weight Q E
L.self_attn.k_proj.weight K E
L.self_attn.v_proj.weight K E
L.self_attn.o_proj.weight E Q
"""
_BIASES = """
L.self_attn.q_proj.bias Q
L.self_attn.k_proj.bias K
L.self_attn.v_proj.bias K
"""
_HEAD_NORMS = "L.self_attn.q_norm.weight H\nL.self_attn.k_norm.weight H\n"
_ROW_NORMS = "L.self_attn.q_norm.weight Q\nL.self_attn.k_norm.weight K\n"
_EXPERTS = """
L.mlp.gate.weight X E
L.mlp.experts.@.gate_proj.weight F E
L.mlp.experts.@.up_proj.weight F E
L.mlp.experts.@.down_proj.weight E F
"""
_MIXTRAL = """
L.block_sparse_moe.gate.weight X E
L.block_sparse_moe.experts.@.w1.weight F E
L.block_sparse_moe.experts.@.w2.weight E F
L.block_sparse_moe.experts.@.w3.weight F E
"""
_QWEN2_SHARED = """
L.mlp.shared_expert_gate.weight 1 E
L.mlp.shared_expert.gate_proj.weight S E
L.mlp.shared_expert.up_proj.weight S E
L.mlp.shared_expert.down_proj.weight E S
"""
_SHARED = """
L.mlp.shared_experts.gate_proj.weight S E
L.mlp.shared_experts.up_proj.weight S E
L.mlp.shared_experts.down_proj.weight E S
"""
_DENSE = """
L.mlp.gate_proj.weight D E
L.mlp.up_proj.weight D E
L.mlp.down_proj.weight E D
"""
_CHOICE = "L.mlp.gate.e_score_correction_bias:f32 X\n"
_MLA = """
L.input_layernorm.weight E
L.post_attention_layernorm.weight E
L.self_attn.kv_a_proj_with_mqa.weight 80 E
L.self_attn.kv_a_layernorm.weight 64
L.self_attn.kv_b_proj.weight 256 64
L.self_attn.o_proj.weight E 128
"""
_QUERY = """
L.self_attn.q_a_proj.weight 32 E
L.self_attn.q_a_layernorm.weight 32
L.self_attn.q_b_proj.weight 192 32
"""
_NEXTN = """
L.embed_tokens.weight V E
L.enorm.weight E
L.hnorm.weight E
L.eh_proj.weight E 2E
L.shared_head.norm.weight E
L.shared_head.head.weight V E
"""
_OSS = """
L.self_attn.o_proj.bias E
L.self_attn.sinks 4
L.mlp.router.weight X E
L.mlp.router.bias X
L.mlp.experts.gate_up_proj_blocks:u8 X 128 2 16
L.mlp.experts.gate_up_proj_scales:u8 X 128 2
L.mlp.experts.gate_up_proj_bias X 128
L.mlp.experts.down_proj_blocks:u8 X E 2 16
L.mlp.experts.down_proj_scales:u8 X E 2
L.mlp.experts.down_proj_bias X E
"""
_MINIMAX = _MIXTRAL + "L.block_sparse_moe.e_score_correction_bias X\n"
_NOT_FP8 = ("norm", "embed_tokens", "lm_head", "mlp.gate.", "moe.gate.", "eh_proj")

# model_type -> tables of the dense layers, of the others, and of what follows them.
_TABLES: dict[str, tuple[str, str, str]] = {
    "mixtral": ("", _GQA + _MIXTRAL, ""),
    "qwen2_moe": ("", _GQA + _BIASES + _EXPERTS + _QWEN2_SHARED, ""),
    "qwen3_moe": ("", _GQA + _HEAD_NORMS + _EXPERTS, ""),
    "olmoe": ("", _GQA + _ROW_NORMS + _EXPERTS, ""),
    "deepseek_v2": (
        _MLA + "L.self_attn.q_proj.weight 192 E\n" + _DENSE,
        _MLA + "L.self_attn.q_proj.weight 192 E\n" + _EXPERTS + _SHARED,
        "",
    ),
    "deepseek_v3": (
        _MLA + _QUERY + _DENSE,
        _MLA + _QUERY + _EXPERTS + _CHOICE + _SHARED,
        _NEXTN,
    ),
    "glm4_moe": (
        _GQA + _BIASES + _DENSE,
        _GQA + _BIASES + _EXPERTS + _CHOICE + _SHARED,
        _NEXTN,
    ),
    "gpt_oss": ("", _GQA + _BIASES + _OSS, ""),
    "minimax_m2": ("", _GQA + _ROW_NORMS + _MINIMAX, ""),
}
_TABLES["kimi_k2"] = _TABLES["deepseek_v3"]
_ENDS = "model.embed_tokens.weight V E\nmodel.norm.weight E\nlm_head.weight V E\n"


def published_folder(name: str) -> Published:
    """Return a published model: its configuration and all its tensors."""
    config = CONFIGS[name]
    dense, sparse, further = _TABLES[config["model_type"]]
    if config.get("use_qk_norm") and config["model_type"] == "glm4_moe":
        dense, sparse = dense + _HEAD_NORMS, sparse + _HEAD_NORMS
    n_layers, n_dense = config["num_hidden_layers"], config.get("first_k_dense_replace")
    tables = [dense] * (n_dense or 0) + [sparse] * (n_layers - (n_dense or 0))
    if config.get("num_nextn_predict_layers"):
        tables.append(sparse + further)
    lines = _ENDS + "".join(
        table.replace("L.", f"model.layers.{layer}.")
        for layer, table in enumerate(tables)
    )
    tensors: dict[str, SafeTensor] = {}
    for line in lines.split("\n"):
        for full, dimensions in _entries(line, config):
            _add(tensors, full, dimensions, config)
    return Published(json.loads(json.dumps(config)), tensors)


def _entries(line: str, config: dict[str, Any]) -> list[tuple[str, tuple[int, ...]]]:
    if not line:
        return []
    name, *words = line.split()
    n_embd, n_heads = config["hidden_size"], config["num_attention_heads"]
    head = config.get("head_dim") or n_embd // n_heads
    n_expert = next(
        config[key]
        for key in ("num_local_experts", "num_experts", "n_routed_experts")
        if key in config
    )
    n_ff = config.get("moe_intermediate_size") or config["intermediate_size"]
    sizes = {
        "E": n_embd,
        "2E": 2 * n_embd,
        "V": config["vocab_size"],
        "H": head,
        "Q": n_heads * head,
        "K": config["num_key_value_heads"] * head,
        "X": n_expert,
        "F": n_ff,
        "D": config["intermediate_size"],
        "S": config.get("shared_expert_intermediate_size")
        or n_ff * (config.get("n_shared_experts") or 1),
    }
    shape = tuple(sizes[word] if word in sizes else int(word) for word in words)
    each = range(n_expert) if "@" in name else (0,)
    return [(name.replace("@", str(expert)), shape) for expert in each]


def _add(
    tensors: dict[str, SafeTensor],
    name: str,
    shape: tuple[int, ...],
    config: dict[str, Any],
) -> None:
    name, _, dtype = name.partition(":")
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    quantization = config.get("quantization_config") or {}
    if dtype == "u8":
        low, high = (118, 124) if name.endswith("_scales") else (0, 256)
        tensors[name] = u8(rng.integers(low, high, shape))
        return
    is_fp8 = quantization.get("quant_method") == "fp8" and len(shape) == 2
    if is_fp8 and not any(word in name for word in _NOT_FP8):
        codes = rng.integers(0, 0x70, shape) | (rng.integers(0, 2, shape) << 7)
        tensors[name] = u8(codes, "F8_E4M3")
        grid = rng.uniform(0.5, 1.0, tuple(-(-size // 128) for size in shape)) / 1024
        is_qwen = config["model_type"] == "qwen3_moe"  # their scales are BF16
        tensors[f"{name}_scale_inv"] = _halved(grid) if is_qwen else f32(grid)
        return
    spread = 0.1 if len(shape) == 1 else 1.0 / np.sqrt(shape[-1])
    values = rng.normal(0, spread, shape) + name.endswith("norm.weight")
    tensors[name] = f32(values) if dtype == "f32" else _halved(values)


def _halved(values: Any) -> SafeTensor:
    return bf16(np.asarray(values, np.float32).view(np.uint32) >> 16)


def beside(folder: Path) -> None:
    """Put what hubs keep beside a model's own files: notes, code, other copies."""
    for name in ("README.md", "LICENSE", ".gitattributes", "modeling_model.py"):
        (folder / name).write_text("of no interest\n")
    (folder / "special_tokens_map.json").write_text("{}")
    (folder / "params.json").write_text('{"dim": 4096}')
    other = safetensors_bytes({"tok_embeddings.weight": f32([[1.0]])})
    (folder / "consolidated.safetensors").write_bytes(other)
    for name in ("original", "metal"):
        (folder / name).mkdir()
    (folder / "original" / "model.safetensors").write_bytes(other)
    (folder / "original" / "config.json").write_text('{"num_hidden_layers": 24}')
    (folder / "metal" / "model.bin").write_bytes(b"GPT-OSS v1.0\0")


def as_hub_cache(folder: Path, cache: Path) -> Path:
    """Move a folder's files to a hub's cache; return its snapshot, full of links."""
    home = cache / "models--somebody--model"
    snapshot = home / "snapshots" / ("ab" * 20)
    for place in (snapshot, home / "blobs", home / "refs"):
        place.mkdir(parents=True)
    (home / "refs" / "main").write_text(snapshot.name)
    for file in sorted(path for path in folder.iterdir() if path.is_file()):
        blob = hashlib.sha256(file.read_bytes()).hexdigest()
        file.rename(home / "blobs" / blob)
        (snapshot / file.name).symlink_to(Path("../../blobs") / blob)
    return snapshot
