"""How positions turn heads, from either generation of config.json.

Transformers 5 writes `rope_parameters`; 4 wrote `rope_theta` and `rope_scaling`. Known
are: default, linear, yarn, llama3 and longrope; an entry that nobody reads is refused,
since leaving out one magnitude makes a model that answers, and wrongly. What GGUF keeps
as tensors (a factor for each pair, of llama3 and longrope) is computed here.

Source: transformers' modeling_rope_utils.py, for the meaning of each entry.
"""

import math

import numpy as np

from mobile_worker.arithmetic.formats.block_format import Format
from p2pmoe.weights.huggingface.config import Config
from p2pmoe.weights.huggingface.keys import Keys
from p2pmoe.weights.huggingface.rows import Constant
from p2pmoe.weights.huggingface.tensor_table import TensorTable
from p2pmoe.weights.huggingface.views import View

__all__ = ["add_rope_factors", "partial_rotary", "rope_keys", "rope_section"]

_MAX_CONTEXT = 1 << 31
_KINDS = ("default", "linear", "yarn", "llama3", "longrope")
_KNOWN = {
    "rope_type",
    "type",
    "rope_theta",
    "factor",
    "original_max_position_embeddings",
    "extrapolation_factor",
    "attention_factor",
    "beta_fast",
    "beta_slow",
    "truncate",
    "finetuned",  # says nothing about the arithmetic
    "partial_rotary_factor",
    "low_freq_factor",
    "high_freq_factor",
    "short_factor",
    "long_factor",
}
_YARN_KEYS = {
    "extrapolation_factor": "yarn_ext_factor",
    "attention_factor": "yarn_attn_factor",
    "beta_fast": "yarn_beta_fast",
    "beta_slow": "yarn_beta_slow",
}


def rope_keys(
    config: Config,
    *,
    truncates: bool = True,
    partial: bool = False,
    allowed: frozenset[str] = frozenset(),
) -> Keys:
    """Return RoPE's base and scaling as GGUF's keys.

    `truncates` is what the architecture does with YaRN's borders, which no GGUF key
    tells; `partial` is whether it may turn a part of a head (`partial_rotary`);
    `allowed` are further entries that the caller reads itself.

    Raises:
        UnsupportedModel: a scaling that is not known here, or an entry nobody reads.
        ModelFileError: a value is missing or absurd.
    """
    section = rope_section(config)
    _refuse_unread(config, section, allowed=allowed, partial=partial)
    base = section if "rope_theta" in section else config
    keys: Keys = {"rope.freq_base": base.real("rope_theta")}
    kind = _kind(section)
    if kind in {"default", "llama3"}:
        return keys
    keys["rope.scaling.type"] = kind
    if kind == "longrope":
        if "attention_factor" in section:
            keys["rope.scaling.attn_factor"] = section.real("attention_factor")
    else:
        keys["rope.scaling.factor"] = section.real("factor")
    if kind != "linear":
        keys["rope.scaling.original_context_length"] = _original(config)
    if kind == "yarn":
        section.must_be("truncate", truncates)
        for key, gguf in _YARN_KEYS.items():
            if key in section:
                keys[f"rope.scaling.{gguf}"] = section.real(key)
    return keys


def add_rope_factors(table: TensorTable, config: Config, n_rotated: int) -> None:
    """Add what llama3 and longrope divide the frequencies by; nothing for others.

    Raises:
        ModelFileError: a value is missing or absurd, or there is not one a pair.
    """
    section = rope_section(config)
    kind = _kind(section)
    if kind == "llama3":
        _add(table, "rope_freqs.weight", _llama3_divisors(config, n_rotated))
    elif kind == "longrope":
        for word in ("long", "short"):
            factors = section.reals(f"{word}_factor")
            if len(factors) != n_rotated // 2:
                reason = f"{len(factors)} values for {n_rotated // 2} pairs"
                raise section.wrong(f"{word}_factor", reason)
            _add(table, f"rope_factors_{word}.weight", factors)


def rope_section(config: Config) -> Config:
    """Return where RoPE's entries lie.

    A configuration may have them twice, in the words of both generations. Raises
    ModelFileError if they do not say the same, or are no objects.
    """
    now, before = config.section("rope_parameters"), config.section("rope_scaling")
    if not now.present():
        return before
    if before.present() and _scaling(now) != _scaling(before):
        reason = (
            "says something else than 'rope_parameters'; keep the one that is meant"
        )
        raise config.wrong("rope_scaling", reason)
    return now


def _scaling(section: Config) -> dict[str, object]:
    """Return what a section says of scaling, in today's words."""
    said = section.entries()
    kind = said.pop("type", "default")
    beside = {"rope_theta", "partial_rotary_factor", "rope_type"}
    scaling = {key: value for key, value in said.items() if key not in beside}
    return scaling | {"rope_type": said.get("rope_type", kind)}


def partial_rotary(config: Config, head_dim: int, default: float = 1.0) -> int:
    """Return how many values of a head are rotated; ModelFileError if absurd."""
    section = rope_section(config)
    holder = section if "partial_rotary_factor" in section else config
    factor = holder.real("partial_rotary_factor", default)
    if not 0 < factor <= 1:
        raise holder.wrong("partial_rotary_factor", f"{factor} is not in 0 to 1")
    return int(head_dim * factor)


def _refuse_unread(
    config: Config, section: Config, *, allowed: frozenset[str], partial: bool
) -> None:
    for key in section.present():
        if key not in _KNOWN | allowed:
            raise section.unsupported(key)
    for holder in () if partial else (section, config):
        holder.must_be("partial_rotary_factor", 1.0)


def _kind(section: Config) -> str:
    key = "rope_type" if "rope_type" in section else "type"
    section.must_be(key, *_KINDS)
    return section.text(key, "default")


def _original(config: Config) -> int:
    """Return the context length before scaling, from where it may stand."""
    key = "original_max_position_embeddings"
    section = rope_section(config)
    holder = section if key in section else config
    whole = config.integer("max_position_embeddings", high=_MAX_CONTEXT)
    return holder.integer(key, whole, high=_MAX_CONTEXT)


def _llama3_divisors(config: Config, n_rotated: int) -> tuple[float, ...]:
    section = rope_section(config)
    base = (section if "rope_theta" in section else config).real("rope_theta")
    factor, original = section.real("factor"), _original(config)
    low, high = section.real("low_freq_factor"), section.real("high_freq_factor")
    if not (factor >= 1 and high > low > 0 and base >= 1):
        raise section.wrong("low_freq_factor", "does not fit the other factors")
    divisors = []
    for pair in range(n_rotated // 2):
        wave_length = 2 * math.pi * base ** (2 * pair / n_rotated)
        share = (original / wave_length - low) / (high - low)
        share = min(1.0, max(0.0, share))  # 1: left as it is; 0: divided
        divisors.append(1 / ((1 - share) / factor + share))
    return tuple(divisors)


def _add(table: TensorTable, name: str, values: tuple[float, ...]) -> None:
    rows = Constant(np.array([values], np.float32))
    table.add(name, View(Format.F32, (len(values),), rows))
