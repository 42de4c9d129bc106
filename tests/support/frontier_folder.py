"""A folder with as many tensors as DeepSeek-V3 has, in FP8, on holes of the disk."""

import json
from collections.abc import Iterator
from pathlib import Path

__all__ = ["write_deepseek_v3"]

N_LAYERS, N_DENSE, N_EXPERT, N_EMBD = 61, 3, 256, 7168

CONFIG = {
    "architectures": ["DeepseekV3ForCausalLM"],
    "hidden_act": "silu",
    "hidden_size": N_EMBD,
    "intermediate_size": 18432,
    "first_k_dense_replace": N_DENSE,
    "kv_lora_rank": 512,
    "q_lora_rank": 1536,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "max_position_embeddings": 163840,
    "moe_intermediate_size": 2048,
    "n_group": 8,
    "topk_group": 4,
    "n_routed_experts": N_EXPERT,
    "n_shared_experts": 1,
    "norm_topk_prob": True,
    "num_attention_heads": 128,
    "num_experts_per_tok": 8,
    "num_hidden_layers": N_LAYERS,
    "num_key_value_heads": 128,
    "num_nextn_predict_layers": 1,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000,
    "routed_scaling_factor": 2.5,
    "scoring_func": "sigmoid",
    "vocab_size": 129280,
    "quantization_config": {
        "quant_method": "fp8",
        "fmt": "e4m3",
        "weight_block_size": [128, 128],
    },
}

ATTENTION = {
    "q_a_proj": (1536, N_EMBD),
    "q_b_proj": (24576, 1536),
    "kv_a_proj_with_mqa": (576, N_EMBD),
    "kv_b_proj": (32768, 512),
    "o_proj": (N_EMBD, 16384),
}
Entry = tuple[str, str, tuple[int, ...]]


def write_deepseek_v3(folder: Path, n_files: int) -> Path:
    """Write headers, index and configuration; the data are holes."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG))
    entries = list(_entries())
    step = -(-len(entries) // n_files)
    weight_map: dict[str, str] = {}
    for number in range(n_files):
        name = f"model-{number + 1:05d}-of-{n_files:06d}.safetensors"
        part = entries[number * step : (number + 1) * step]
        _write(folder / name, part)
        weight_map |= {tensor: name for tensor, _, _ in part}
    index = {"weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder


def _write(path: Path, entries: list[Entry]) -> None:
    at, header = 0, {}
    for name, dtype, shape in entries:
        size = {"BF16": 2, "F32": 4, "F8_E4M3": 1}[dtype]
        for length in shape:
            size *= length
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    raw = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(len(raw).to_bytes(8, "little") + raw)
        file.truncate(8 + len(raw) + at)


def _matrix(name: str, shape: tuple[int, int]) -> Iterator[Entry]:
    yield f"{name}.weight", "F8_E4M3", shape
    grid = (-(-shape[0] // 128), -(-shape[1] // 128))
    yield f"{name}.weight_scale_inv", "F32", grid


def _feed_forward(stem: str, n_ff: int) -> Iterator[Entry]:
    yield from _matrix(f"{stem}.gate_proj", (n_ff, N_EMBD))
    yield from _matrix(f"{stem}.up_proj", (n_ff, N_EMBD))
    yield from _matrix(f"{stem}.down_proj", (N_EMBD, n_ff))


def _entries() -> Iterator[Entry]:
    yield "model.embed_tokens.weight", "BF16", (129280, N_EMBD)
    for layer in range(N_LAYERS + 1):
        stem = f"model.layers.{layer}"
        yield f"{stem}.input_layernorm.weight", "BF16", (N_EMBD,)
        yield f"{stem}.post_attention_layernorm.weight", "BF16", (N_EMBD,)
        yield f"{stem}.self_attn.q_a_layernorm.weight", "BF16", (1536,)
        yield f"{stem}.self_attn.kv_a_layernorm.weight", "BF16", (512,)
        for word, shape in ATTENTION.items():
            yield from _matrix(f"{stem}.self_attn.{word}", shape)
        if layer < N_DENSE:
            yield from _feed_forward(f"{stem}.mlp", 18432)
            continue
        yield f"{stem}.mlp.gate.weight", "BF16", (N_EXPERT, N_EMBD)
        yield f"{stem}.mlp.gate.e_score_correction_bias", "F32", (N_EXPERT,)
        yield from _feed_forward(f"{stem}.mlp.shared_experts", 2048)
        for expert in range(N_EXPERT):
            yield from _feed_forward(f"{stem}.mlp.experts.{expert}", 2048)
    yield "model.norm.weight", "BF16", (N_EMBD,)
    yield "lm_head.weight", "BF16", (129280, N_EMBD)
