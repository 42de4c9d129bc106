"""Make rope.json: rotary tables of transformers 5, to compare ours with.

Run by hand, `python tests/vectors/rope_from_transformers.py`, where torch and
transformers are installed; the suite only reads the file. Each case has GGUF's keys
(without their prefix), the divisors of GGUF's tensors where there are such, and what
transformers makes of the same model: each pair's frequency and the magnitude
(`ROPE_INIT_FUNCTIONS`), and cosines and sines at positions far beyond the original
length, from these frequencies in f64.
"""

import json
import math
from pathlib import Path

import numpy as np
from transformers import PreTrainedConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

POSITIONS = [0, 1, 63, 200, 4096, 131071]


def config(head_dim: int, n_context: int, **rope: object) -> PreTrainedConfig:
    return PreTrainedConfig(
        head_dim=head_dim,
        hidden_size=4 * head_dim,
        num_attention_heads=4,
        max_position_embeddings=n_context,
        rope_parameters=rope,
    )


def case(
    name: str,
    kind: str,
    settings: PreTrainedConfig,
    keys: dict[str, object],
    *,
    n_tokens: int | None = None,
    **more: object,
) -> dict[str, object]:
    compute = ROPE_INIT_FUNCTIONS[kind]
    frequencies, magnitude = compute(settings, "cpu", seq_len=n_tokens)
    frequencies = frequencies.numpy().astype(np.float64)
    angles = np.array(POSITIONS)[:, None] * frequencies
    return {
        "name": name,
        "n_rotated": 2 * len(frequencies),
        "keys": {"context_length": settings.max_position_embeddings, **keys},
        **more,
        "frequencies": frequencies.tolist(),
        "magnitude": magnitude,
        "positions": POSITIONS,
        "cosines": np.round(np.cos(angles) * magnitude, 9).tolist(),
        "sines": np.round(np.sin(angles) * magnitude, 9).tolist(),
    }


def yarn(
    name: str, architecture: str, keys: dict[str, object], **rope: object
) -> dict[str, object]:
    """A YaRN case; `keys` are those that do not follow from the rest."""
    n_original = rope["original_max_position_embeddings"]
    n_context = int(n_original * rope["factor"])
    truncate = rope.get("truncate", True)
    given = {
        "rope.freq_base": rope["rope_theta"],
        "rope.scaling.type": "yarn",
        "rope.scaling.factor": rope["factor"],
        "rope.scaling.original_context_length": n_original,
    }
    return case(
        name,
        "yarn",
        config(32, n_context, rope_type="yarn", **rope),
        {**given, **keys},
        architecture=architecture,
        truncate=truncate,
    )


def yarn_cases() -> list[dict[str, object]]:
    deepseek = {
        "rope_theta": 10000.0,
        "factor": 40.0,
        "original_max_position_embeddings": 4096,
        "beta_fast": 32,
        "beta_slow": 1,
    }
    qwen = {
        "rope_theta": 1000000.0,
        "factor": 4.0,
        "original_max_position_embeddings": 32768,
    }
    oss = {
        "rope_theta": 150000.0,
        "factor": 32.0,
        "original_max_position_embeddings": 4096,
        "beta_fast": 32.0,
        "beta_slow": 1.0,
        "truncate": False,
    }
    log = "rope.scaling.yarn_log_multiplier"
    whole = "rope.scaling.yarn_attn_factor"
    fast, slow = "rope.scaling.yarn_beta_fast", "rope.scaling.yarn_beta_slow"
    return [
        yarn(
            "deepseek v2, mscale 0.707 both",
            "deepseek2",
            {log: 0.0707},
            mscale=0.707,
            mscale_all_dim=0.707,
            **deepseek,
        ),
        yarn(
            "deepseek v3, mscale 1 both",
            "deepseek2",
            {log: 0.1},
            mscale=1.0,
            mscale_all_dim=1.0,
            **deepseek,
        ),
        yarn(
            "kimi k2, one border",
            "deepseek2",
            {log: 0.1, fast: 1.0, slow: 1.0},
            mscale=1.0,
            mscale_all_dim=1.0,
            **deepseek | {"factor": 32.0, "beta_fast": 1.0, "beta_slow": 1.0},
        ),
        yarn("deepseek without mscale", "deepseek2", {}, **deepseek),
        yarn(
            "mscale 1, mscale_all_dim 0.5, not deepseek",
            "llama",
            {log: 0.5},
            mscale=1.0,
            mscale_all_dim=0.5,
            **deepseek,
        ),
        yarn("qwen3, factor 4", "qwen3moe", {}, **qwen),
        yarn(
            "attention_factor given",
            "qwen3moe",
            {whole: 1.25},
            attention_factor=1.25,
            **qwen,
        ),
        yarn(
            "attention_factor 1", "qwen3moe", {whole: 1.0}, attention_factor=1.0, **qwen
        ),
        yarn("gpt-oss, not truncated", "gpt-oss", {fast: 32.0, slow: 1.0}, **oss),
        yarn(
            "other borders",
            "qwen3moe",
            {fast: 8.0, slow: 2.0},
            beta_fast=8.0,
            beta_slow=2.0,
            **qwen,
        ),
    ]


def linear_cases() -> list[dict[str, object]]:
    given = config(32, 8192, rope_type="linear", rope_theta=10000.0, factor=4.0)
    base = {"rope.freq_base": 10000.0}
    new = {"rope.scaling.type": "linear", "rope.scaling.factor": 4.0}
    return [
        case("linear", "linear", given, base | new),
        case("linear, no type", "linear", given, base | {"rope.scaling.factor": 4.0}),
        case("linear, old key", "linear", given, base | {"rope.scale_linear": 4.0}),
    ]


def long_cases() -> list[dict[str, object]]:
    n_original, n_context = 4096, 131072
    rng = np.random.default_rng(4)
    short = np.sort(1.0 + rng.random(16)).astype(np.float32).tolist()
    long = np.sort(1.0 + 60.0 * rng.random(16)).astype(np.float32).tolist()
    given = config(
        32,
        n_context,
        rope_type="longrope",
        rope_theta=10000.0,
        short_factor=short,
        long_factor=long,
        original_max_position_embeddings=n_original,
    )
    keys = {
        "rope.freq_base": 10000.0,
        "rope.scaling.type": "longrope",
        "rope.scaling.original_context_length": n_original,
    }
    magnitude = math.sqrt(1 + math.log(n_context / n_original) / math.log(n_original))
    factors = {"long": long, "short": short}
    return [
        case("long rope", "longrope", given, keys, n_tokens=n_context, factors=factors),
        case(
            "long rope, a short context, magnitude given",
            "longrope",
            given,
            keys | {"rope.scaling.attn_factor": magnitude},
            n_tokens=n_original,
            factors=factors,
            n_context=n_original,
        ),
    ]


def llama3_case() -> dict[str, object]:
    low, high, factor, n_original, base = 1.0, 4.0, 8.0, 8192, 500000.0
    given = config(
        32,
        131072,
        rope_type="llama3",
        rope_theta=base,
        factor=factor,
        low_freq_factor=low,
        high_freq_factor=high,
        original_max_position_embeddings=n_original,
    )
    divisors = []
    for pair in range(16):  # as converters write rope_freqs.weight
        turns = n_original * base ** (-pair / 16) / (2 * math.pi)
        share = min(1.0, max(0.0, (turns - low) / (high - low)))
        divisors.append(1.0 / ((1.0 - share) / factor + share))
    keys = {"rope.freq_base": base}
    return case("llama 3", "llama3", given, keys, factors={"freqs": divisors})


def main() -> None:
    cases = [*linear_cases(), *yarn_cases(), *long_cases(), llama3_case()]
    text = json.dumps(cases, indent=None, separators=(",", ":"))
    text = text.replace("},{", "},\n{")
    Path(__file__).with_name("rope.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
