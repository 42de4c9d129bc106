"""GGUF's metadata keys that most architectures share, from config.json.

Values are what llama.cpp's converter writes: floats rounded to F32, as the file stores
them; a key whose source is absent is left out, and the architecture's own default
holds. Every number is bounded here, before anything is sized by it.
"""

import numpy as np

from p2pmoe.weights.huggingface.config import Config
from p2pmoe.weights.metadata import MetadataValue, Scalar

__all__ = [
    "MAX_COUNT",
    "SIGMOID",
    "Keys",
    "attention_keys",
    "expert_keys",
    "next_blocks",
    "prefixed",
    "size_keys",
]

Keys = dict[str, Scalar]

_MAX_NEXT = 64
MAX_COUNT = 1 << 16  # of layers, heads, experts
SIGMOID = 2  # of `expert_gating_func`
_GATING = {"softmax": 1, "sigmoid": SIGMOID}


def prefixed(architecture: str, keys: Keys) -> dict[str, MetadataValue]:
    """Return `keys` as the file's metadata, with the architecture before each key."""
    metadata: dict[str, MetadataValue] = {"general.architecture": architecture}
    for key, value in keys.items():
        rounded = float(np.float32(value)) if isinstance(value, float) else value
        metadata[f"{architecture}.{key}"] = rounded
    return metadata


def size_keys(config: Config, *, feed_forward: str = "intermediate_size") -> Keys:
    """Return the sizes of the model; ModelFileError if one is missing or absurd."""
    return {
        "block_count": config.integer("num_hidden_layers", high=MAX_COUNT),
        "context_length": config.integer("max_position_embeddings", high=1 << 31),
        "embedding_length": config.integer("hidden_size"),
        "feed_forward_length": config.integer(feed_forward),
        "vocab_size": config.integer("vocab_size"),
    }


def attention_keys(config: Config) -> Keys:
    """Return heads and norms; ModelFileError if one is missing or absurd."""
    n_heads = config.integer("num_attention_heads", high=MAX_COUNT)
    keys: Keys = {
        "attention.head_count": n_heads,
        "attention.head_count_kv": config.integer(
            "num_key_value_heads", n_heads, high=MAX_COUNT
        ),
        "attention.layer_norm_rms_epsilon": config.real("rms_norm_eps"),
    }
    if "head_dim" in config:
        head_dim = config.integer("head_dim", high=MAX_COUNT)
        keys["attention.key_length"] = keys["attention.value_length"] = head_dim
    return keys


def next_blocks(config: Config) -> int:
    """Return how many next-token blocks there are; ModelFileError if absurd."""
    return config.integer("num_nextn_predict_layers", 0, low=0, high=_MAX_NEXT)


def expert_keys(config: Config) -> Keys:
    """Return how many experts there are and how they are chosen.

    Raises:
        ModelFileError: a value is missing or absurd.
        UnsupportedModel: a scoring function that no GGUF key stands for.
    """
    names = ("num_local_experts", "num_experts", "n_routed_experts")
    name = next((name for name in names if name in config), names[0])
    keys: Keys = {
        "expert_count": config.integer(name, high=MAX_COUNT),
        "expert_used_count": config.integer("num_experts_per_tok", high=MAX_COUNT),
    }
    if "n_group" in config:
        keys["expert_group_count"] = config.integer("n_group", high=MAX_COUNT)
    if "topk_group" in config:
        keys["expert_group_used_count"] = config.integer("topk_group", high=MAX_COUNT)
    if "scoring_func" in config:
        config.must_be("scoring_func", *_GATING)
        keys["expert_gating_func"] = _GATING[config.text("scoring_func")]
    if "routed_scaling_factor" in config:
        keys["expert_weights_scale"] = config.real("routed_scaling_factor")
    return keys
