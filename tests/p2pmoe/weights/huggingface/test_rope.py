"""RoPE from both generations of configuration; an entry nobody reads is refused."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from p2pmoe.weights.errors import ModelFileError, UnsupportedModel
from p2pmoe.weights.huggingface.config import Config
from p2pmoe.weights.huggingface.quantization import Quantization, QuantizationMethod
from p2pmoe.weights.huggingface.rope import (
    add_rope_factors,
    partial_rotary,
    rope_keys,
    rope_section,
)
from p2pmoe.weights.huggingface.tensor_table import TensorTable

PATH = Path("config.json")
YARN = {
    "rope_type": "yarn",
    "factor": 4.0,
    "original_max_position_embeddings": 128,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
}
YARN_KEYS = {
    "rope.freq_base": 10000.0,
    "rope.scaling.type": "yarn",
    "rope.scaling.factor": 4.0,
    "rope.scaling.original_context_length": 128,
    "rope.scaling.yarn_beta_fast": 32.0,
    "rope.scaling.yarn_beta_slow": 1.0,
}


def now(**section: Any) -> Config:
    section = {"rope_theta": 10000.0, **section}
    return Config(PATH, {"max_position_embeddings": 512, "rope_parameters": section})


def before(**section: Any) -> Config:
    if "rope_type" in section:
        section["type"] = section.pop("rope_type")
    return Config(
        PATH,
        {
            "max_position_embeddings": 512,
            "rope_theta": 10000.0,
            "rope_scaling": section or None,
        },
    )


@pytest.mark.parametrize("make", [now, before])
def test_both_generations_say_the_same(make: Any) -> None:
    assert rope_keys(make()) == {"rope.freq_base": 10000.0}
    assert rope_keys(make(rope_type="default")) == {"rope.freq_base": 10000.0}
    assert rope_keys(make(rope_type="linear", factor=2)) == {
        "rope.freq_base": 10000.0,
        "rope.scaling.type": "linear",
        "rope.scaling.factor": 2.0,
    }
    assert rope_keys(make(**YARN)) == YARN_KEYS


def test_scaling_said_twice_must_be_the_same() -> None:
    older = {"rope_theta": 1e4, "rope_scaling": {"type": "yarn", "factor": 2.0}}
    newer = {"rope_type": "yarn", "factor": 2.0, "rope_theta": 1e4}
    both = Config(PATH, {**older, "rope_parameters": newer})
    assert rope_section(both).entries() == newer
    for said in ({"rope_type": "default"}, {**newer, "factor": 4.0}):
        with pytest.raises(ModelFileError, match=r"'rope_scaling'.* something else"):
            rope_section(Config(PATH, {**older, "rope_parameters": said}))
    plain = {"rope_theta": 1e4, "rope_type": "default"}
    older = {"rope_scaling": {"type": "default"}, "rope_parameters": plain}
    assert rope_section(Config(PATH, older)).entries() == plain


def test_yarn_in_full() -> None:
    keys = rope_keys(now(**YARN, attention_factor=1.2, extrapolation_factor=0.5))
    assert keys["rope.scaling.yarn_attn_factor"] == 1.2
    assert keys["rope.scaling.yarn_ext_factor"] == 0.5
    bare = rope_keys(now(rope_type="yarn", factor=4.0))
    assert bare["rope.scaling.original_context_length"] == 512


def test_truncation_is_the_architectures_own() -> None:
    assert rope_keys(now(**YARN, truncate=True))
    assert rope_keys(now(**YARN, truncate=False), truncates=False)
    with pytest.raises(UnsupportedModel, match=r"'rope_parameters.truncate': False"):
        rope_keys(now(**YARN, truncate=False))


@pytest.mark.parametrize(
    "section",
    [
        {"rope_type": "dynamic", "factor": 2.0},
        {"rope_type": "ntk"},
        {"mrope_section": [16, 24, 24]},
        {"full_attention": {"rope_theta": 1.0}},
        {**YARN, "mscale": 1.0},
    ],
)
def test_what_nobody_reads_is_refused(section: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedModel, match="rope_parameters"):
        rope_keys(now(**section))
    if "mscale" in section:
        assert rope_keys(now(**section), allowed=frozenset({"mscale"})) == YARN_KEYS


@pytest.mark.parametrize(
    "section",
    [
        {"rope_type": "linear"},
        {"rope_type": "linear", "factor": "2"},
        {"rope_type": 3},
        {**YARN, "original_max_position_embeddings": 0},
        {"rope_theta": None},
    ],
)
def test_malformed_entries_are_refused(section: dict[str, Any]) -> None:
    with pytest.raises(ModelFileError):
        rope_keys(now(**section))


def factors(config: Config, n_rotated: int) -> dict[str, list[float]]:
    table = TensorTable(PATH, {}, Quantization(method=QuantizationMethod.NONE))
    add_rope_factors(table, config, n_rotated)
    found = {}
    for name, view in table.tensors.items():
        out = np.empty((1, view.rows.n_items), np.float32)
        view.rows.fill(0, out)
        assert view.shape == (n_rotated // 2,)
        found[name] = out[0].tolist()
    return found


def test_plain_scaling_has_no_factors() -> None:
    assert factors(now(**YARN), 8) == {}


def test_llama3_divides_slow_pairs_and_blends_between() -> None:
    section = {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 512,
    }
    config = now(**section)
    assert rope_keys(config) == {"rope.freq_base": 10000.0}
    (found,) = factors(config, 16).values()
    for pair, factor in enumerate(found):
        wave_length = 2 * math.pi * 10000.0 ** (2 * pair / 16)
        if wave_length < 512 / 4:
            expected = 1.0
        elif wave_length > 512:
            expected = 8.0
        else:
            smooth = (512 / wave_length - 1) / (4 - 1)
            expected = 1 / ((1 - smooth) / 8 + smooth)
        assert factor == pytest.approx(expected, rel=1e-6)
    assert 1.0 < found[3] < 8.0
    with pytest.raises(ModelFileError, match="does not fit"):
        factors(now(**{**section, "high_freq_factor": 1.0}), 16)


def test_longrope_has_two_sets_of_factors() -> None:
    section = {
        "rope_type": "longrope",
        "short_factor": [1.0, 1.5, 2.0, 2.5],
        "long_factor": [1, 2, 3, 4],
        "original_max_position_embeddings": 128,
        "attention_factor": 1.25,
    }
    keys = rope_keys(now(**section))
    assert keys == {
        "rope.freq_base": 10000.0,
        "rope.scaling.type": "longrope",
        "rope.scaling.original_context_length": 128,
        "rope.scaling.attn_factor": 1.25,
    }
    assert factors(now(**section), 8) == {
        "rope_factors_long.weight": [1.0, 2.0, 3.0, 4.0],
        "rope_factors_short.weight": [1.0, 1.5, 2.0, 2.5],
    }
    with pytest.raises(ModelFileError, match="4 values for 8 pairs"):
        factors(now(**section), 16)


def test_a_partial_rotation_that_nobody_would_do_is_refused() -> None:
    older = {"rope_theta": 1e4, "partial_rotary_factor": 0.25}
    for config in (now(partial_rotary_factor=0.5), Config(PATH, older)):
        with pytest.raises(UnsupportedModel, match="partial_rotary_factor"):
            rope_keys(config)
        assert rope_keys(config, partial=True) == {"rope.freq_base": 10000.0}
    assert rope_keys(now(partial_rotary_factor=1)) == {"rope.freq_base": 10000.0}


def test_partial_rotation() -> None:
    assert partial_rotary(now(partial_rotary_factor=0.5), 64) == 32
    older = Config(PATH, {"partial_rotary_factor": 0.25})
    assert partial_rotary(older, 64) == 16
    assert partial_rotary(now(), 64) == 64
    assert partial_rotary(now(), 64, 0.5) == 32
    for wrong in (0.0, 1.5, -1.0):
        with pytest.raises(ModelFileError, match="partial_rotary_factor"):
            partial_rotary(now(partial_rotary_factor=wrong), 64)
