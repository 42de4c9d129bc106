"""The published files that `real_headers` cuts down: keys and tables of each.

A name says the model, the format and, where it matters, when it was converted.
"""

from tests.support.real_headers import RealFile
from tests.support.real_tables import (
    ATTENTION,
    DEEPSEEK_LITE,
    DEEPSEEK_MLA,
    DEEPSEEK_OLD,
    DENSE,
    ENDS,
    GLM,
    GPT_OSS,
    MIXTRAL_2023,
    NEXTN,
    PUBLISHED,
    QWEN2_MOE,
    STACKED,
)

__all__ = ["REAL_FILES", "real_file"]


def _gqa(file: str, **keys: object) -> dict[str, object]:
    """Return the keys of attention and sizes that converters write for all."""
    heads = {} if file == "llama" else {"key_length": 16, "value_length": 16}
    return {
        "block_count": 2,
        "context_length": 32768,
        "embedding_length": 64,
        "feed_forward_length": 96,
        "attention.head_count": 4,
        "attention.head_count_kv": 2,
        "rope.freq_base": 1000000.0,
        "attention.layer_norm_rms_epsilon": 9.999999747378752e-06,
        "expert_count": 4,
        "expert_used_count": 2,
        **{f"attention.{key}": value for key, value in heads.items()},
        **{key.replace("__", "."): value for key, value in keys.items()},
    }


def _mla(n_expert: int, **keys: object) -> dict[str, object]:
    """Return the keys of deepseek2 files until April 2025."""
    return {
        "block_count": 2,
        "context_length": 163840,
        "embedding_length": 64,
        "feed_forward_length": 96,
        "attention.head_count": 4,
        "attention.head_count_kv": 4,
        "rope.freq_base": 10000.0,
        "attention.layer_norm_rms_epsilon": 9.999999974752427e-07,
        "expert_used_count": 4,
        "leading_dense_block_count": 1,
        "vocab_size": 268,
        "attention.kv_lora_rank": 64,
        "attention.key_length": 48,
        "attention.value_length": 32,
        "expert_feed_forward_length": 32,
        "expert_count": n_expert,
        "expert_shared_count": 1,
        "rope.dimension_count": 16,
        "rope.scaling.type": "yarn",
        "rope.scaling.factor": 40.0,
        "rope.scaling.original_context_length": 4096,
        "rope.scaling.yarn_log_multiplier": 0.10000000149011612,
        **{key.replace("__", "."): value for key, value in keys.items()},
    }


_V3 = {
    "attention.q_lora_rank": 32,
    "expert_weights_scale": 2.5,
    "expert_weights_norm": True,
    "expert_gating_func": 2,
}
_ABSORBED = {
    "attention.head_count_kv": 1,
    "attention.key_length": 80,
    "attention.value_length": 64,
    "attention.key_length_mla": 48,
    "attention.value_length_mla": 32,
}
_KIMI = {
    "context_length": 262144,
    "rope.freq_base": 50000.0,
    "expert_weights_scale": 2.8269999027252197,
    "rope.scaling.factor": 64.0,
}
_GLM = {
    "block_count": 3,
    "rope.dimension_count": 8,
    "expert_feed_forward_length": 32,
    "expert_shared_count": 1,
    "leading_dense_block_count": 1,
    "expert_gating_func": 2,
    "expert_weights_scale": 1.0,
    "expert_weights_norm": True,
    "nextn_predict_layers": 1,
}
_YARN_128K = {
    "context_length": 131072,
    "expert_feed_forward_length": 32,
    "rope.scaling.type": "yarn",
    "rope.scaling.factor": 4.0,
    "rope.scaling.original_context_length": 32768,
}
_OSS = {
    "context_length": 131072,
    "rope.freq_base": 150000.0,
    "attention.sliding_window": 128,
    "expert_feed_forward_length": 32,
    "rope.scaling.type": "yarn",
    "rope.scaling.factor": 32.0,
    "rope.scaling.original_context_length": 4096,
}
_QK_HEAD = "blk.*.attn_q_norm.weight f32 H\nblk.*.attn_k_norm.weight f32 H"
_QK_ROW = "blk.*.attn_q_norm.weight f32 Q\nblk.*.attn_k_norm.weight f32 K"
_BIASES = "\n".join(
    f"blk.*.attn_{part}.bias f32 {size}"
    for part, size in zip("qkv", "QKK", strict=True)
)
_CHOICE = "blk.1+.exp_probs_b.bias f32 X"
_FFN_NORM = "blk.*.ffn_norm.weight f32 E"

REAL_FILES = (
    RealFile(
        name="mixtral-8x7b-instruct-v0.1.Q4_K_M",
        architecture="llama",
        keys=_gqa(
            "llama",
            embedding_length=256,
            feed_forward_length=256,
            rope__dimension_count=64,
        ),
        tables=(ENDS, MIXTRAL_2023),
        general={"general.file_type": 15, "general.quantization_version": 2},
        pre="",
        sizes={"E": 256, "H": 64, "F": 256},
    ),
    RealFile(
        name="Mixtral-8x22B-Instruct-v0.1.Q5_1",
        architecture="llama",
        keys=_gqa(
            "llama", feed_forward_length=32, rope__dimension_count=16, vocab_size=273
        ),
        tables=(ENDS, ATTENTION, _FFN_NORM, STACKED),
        general={"general.file_type": 9},
        pre="",
        n_parts=3,
    ),
    RealFile(
        name="Qwen1.5-MoE-A2.7B-Chat-2024-04",
        architecture="qwen2moe",
        keys=_gqa("llama", feed_forward_length=64),
        tables=(ENDS, ATTENTION, _BIASES, _FFN_NORM, STACKED, QWEN2_MOE),
        pre=None,
        sizes={"S": 64},
    ),
    RealFile(
        name="qwen2-57b-a14b-instruct-q4_0",
        architecture="qwen2moe",
        keys=_gqa(
            "llama",
            expert_feed_forward_length=32,
            expert_shared_feed_forward_length=32,
            feed_forward_length=288,
        ),
        tables=(ENDS, ATTENTION, _BIASES, _FFN_NORM, STACKED, QWEN2_MOE),
        general=PUBLISHED,
    ),
    RealFile(
        name="Qwen3-30B-A3B-128K-UD-Q4_K_XL",
        architecture="qwen3moe",
        keys=_gqa("qwen3moe", **_YARN_128K),
        tables=(ENDS, ATTENTION, _QK_HEAD, _FFN_NORM, STACKED),
        general=PUBLISHED,
        n_parts=2,
    ),
    RealFile(
        name="OLMoE-1B-7B-0924-Instruct-Q8_0",
        architecture="olmoe",
        keys=_gqa("llama", feed_forward_length=32, attention__head_count_kv=4),
        tables=(ENDS, ATTENTION, _QK_ROW, _FFN_NORM, STACKED),
        pre="olmo",
        sizes={"N_KV": 4},
    ),
    RealFile(
        name="DeepSeek-V2-Lite-Chat.Q4_K_M",
        architecture="deepseek2",
        keys=_mla(
            8,
            block_count=27,
            expert_weights_scale=1.0,
            rope__scaling__yarn_log_multiplier=0.07069999724626541,
        ),
        tables=(ENDS, DEEPSEEK_LITE, DENSE, STACKED.replace("*", "1+")),
        pre="deepseek-llm",
        sizes={"X": 8, "LAYERS": 27},
    ),
    RealFile(
        name="DeepSeek-V2.5-Q4_0",
        architecture="deepseek2",
        keys=_mla(160, expert_weights_scale=16.0, **{"attention.q_lora_rank": 32}),
        tables=(ENDS, DEEPSEEK_OLD, DENSE, STACKED.replace("*", "1+")),
        pre="deepseek-llm",
        sizes={"X": 160},
    ),
    RealFile(
        name="DeepSeek-R1-Q4_0-2025-01",
        architecture="deepseek2",
        keys=_mla(256, **_V3),
        tables=(ENDS, DEEPSEEK_OLD, DENSE, STACKED.replace("*", "1+"), _CHOICE),
        general=PUBLISHED,
        pre="deepseek-v3",
        sizes={"X": 256},
    ),
    RealFile(
        name="DeepSeek-V3.1-Q4_0-2025-08",
        architecture="deepseek2",
        keys=_mla(256, **_V3, **_ABSORBED),
        tables=(ENDS, DEEPSEEK_MLA, DENSE, STACKED.replace("*", "1+"), _CHOICE),
        general=PUBLISHED,
        pre="deepseek-v3",
        sizes={"X": 256},
        n_parts=2,
    ),
    RealFile(
        name="Kimi-K2-Instruct-0905-Q4_0",
        architecture="deepseek2",
        keys={**_mla(384, **_V3, **_ABSORBED), **_KIMI},
        tables=(ENDS, DEEPSEEK_MLA, DENSE, STACKED.replace("*", "1+"), _CHOICE),
        general=PUBLISHED,
        pre="kimi-k2",
        sizes={"X": 384},
    ),
    RealFile(
        name="GLM-4.5-Air-Q4_0",
        architecture="glm4moe",
        keys={**_gqa("glm4moe"), **_GLM},
        tables=(ENDS, ATTENTION, _BIASES, GLM, NEXTN),
        general=PUBLISHED,
        pre="glm4",
        sizes={"LAYERS": 3},
    ),
    RealFile(
        name="GLM-4.6-Q4_0",
        architecture="glm4moe",
        keys={
            **_gqa("glm4moe"),
            **_GLM,
            "expert_group_count": 1,
            "expert_group_used_count": 1,
            "expert_weights_scale": 2.5,
        },
        tables=(ENDS, ATTENTION, _BIASES, _QK_HEAD, GLM, NEXTN),
        general=PUBLISHED,
        pre="glm4",
        sizes={"LAYERS": 3},
    ),
    RealFile(
        name="gpt-oss-20b-mxfp4",
        architecture="gpt-oss",
        keys={**_gqa("gpt-oss"), **_OSS},
        tables=(ENDS, ATTENTION.replace("q4_0", "q8_0"), _BIASES, GPT_OSS),
        general=PUBLISHED,
        pre="gpt-4o",
        sizes={"E": 64},
    ),
    RealFile(
        name="gpt-oss-120b-F16",
        architecture="gpt-oss",
        keys={**_gqa("gpt-oss"), **_OSS},
        tables=(ENDS, ATTENTION.replace("q4_0", "bf16"), _BIASES, GPT_OSS),
        general=PUBLISHED,
        pre="gpt-4o",
    ),
    RealFile(
        name="MiniMax-M2-UD-Q4_K_XL",
        architecture="minimax-m2",
        keys=_gqa(
            "minimax-m2",
            rope__dimension_count=8,
            expert_gating_func=2,
            feed_forward_length=32,
            expert_feed_forward_length=32,
        ),
        tables=(
            ENDS,
            ATTENTION,
            _QK_ROW,
            _FFN_NORM,
            STACKED,
            _CHOICE.replace("1+", "*"),
        ),
        general=PUBLISHED,
        pre="minimax-m2",
    ),
)


def real_file(start: str) -> RealFile:
    """Return the one file whose name starts so."""
    (found,) = (file for file in REAL_FILES if file.name.startswith(start))
    return found
