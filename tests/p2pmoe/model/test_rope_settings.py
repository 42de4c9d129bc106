"""Every kind of rotary scaling against transformers' tables, far beyond the original
length (tests/vectors/rope.json), and numbers that a file may not have."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.model.errors import ModelRefused
from p2pmoe.model.rope_settings import (
    RopeScaling,
    RopeSettings,
    YarnRamp,
    read_rope,
    usable_context,
)
from p2pmoe.weights.errors import ModelFileError
from p2pmoe.weights.model_file import open_model
from tests.support.gguf_writer import TensorBytes, write_gguf

VECTORS = Path(__file__).parents[2] / "vectors" / "rope.json"
CASES = json.loads(VECTORS.read_text())

YARN = {"scaling.type": "yarn", "scaling.factor": 4.0}


def write(
    folder: Path,
    keys: Mapping[str, object],
    factors: Mapping[str, list[float]] | None = None,
    architecture: str = "qwen3moe",
) -> Path:
    names = {"freqs": "rope_freqs", "long": "rope_factors_long"}
    tensors = [
        TensorBytes(
            name=f"{names.get(kind, 'rope_factors_short')}.weight",
            type=0,
            shape=(len(values),),
            content=np.array(values, "<f4").tobytes(),
        )
        for kind, values in (factors or {}).items()
    ]
    own = {f"{architecture}.{key}": value for key, value in keys.items()}
    metadata = {"general.architecture": architecture, **own}
    return write_gguf(folder / "rope.gguf", metadata, tensors)


def read(
    folder: Path,
    keys: Mapping[str, object],
    *,
    factors: Mapping[str, list[float]] | None = None,
    architecture: str = "qwen3moe",
    n_rotated: int = 32,
    **more: Any,
) -> RopeSettings:
    own = {f"rope.{key}": value for key, value in keys.items()}
    path = write(folder, {"context_length": 4096, **own}, factors, architecture)
    with open_model(path) as model_file:
        return read_rope(model_file, n_rotated=n_rotated, interleaved=False, **more)


def context(folder: Path, **keys: object) -> int:
    own = {key.replace("__", "."): value for key, value in keys.items()}
    with open_model(write(folder, own)) as model_file:
        return usable_context(model_file)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_frequencies_and_magnitude_are_the_publishers(
    case: dict[str, Any], tmp_path: Path
) -> None:
    path = write(
        tmp_path,
        case["keys"],
        case.get("factors"),
        case.get("architecture", "llama"),
    )
    with open_model(path) as model_file:
        settings = read_rope(
            model_file,
            n_rotated=case["n_rotated"],
            interleaved=True,
            truncate=case.get("truncate", True),
            n_context=case.get("n_context"),
        )
    assert np.allclose(settings.frequencies(), case["frequencies"], rtol=1e-6, atol=0.0)
    assert math.isclose(settings.magnitude, case["magnitude"], rel_tol=1e-6)


@pytest.mark.parametrize(
    ("keys", "score"),
    [
        ({"scaling.yarn_log_multiplier": 0.1}, (1 + 0.1 * math.log(40)) ** 2),
        ({"scaling.yarn_log_multiplier": 1.0}, (1 + 0.1 * math.log(40)) ** 2),
        ({"scaling.yarn_log_multiplier": 0.0707}, (1 + 0.0707 * math.log(40)) ** 2),
        ({}, 1.0),
    ],
)
def test_latent_attention_scales_its_scores_with_or_without_the_old_tenth(
    keys: dict[str, object], score: float, tmp_path: Path
) -> None:
    given = {"scaling.type": "yarn", "scaling.factor": 40.0} | keys
    settings = read(tmp_path, given, architecture="deepseek2")
    assert math.isclose(settings.score_factor, score, rel_tol=1e-6)


def test_yarns_further_factor_multiplies_unless_it_is_the_magnitude(
    tmp_path: Path,
) -> None:
    own = 1 + 0.1 * math.log(4.0)
    twice = read(tmp_path, YARN | {"scaling.attn_factor": 2.0})
    assert math.isclose(twice.magnitude, 2 * own)
    written_whole = read(tmp_path, YARN | {"scaling.attn_factor": own})
    assert math.isclose(written_whole.magnitude, own, rel_tol=1e-6)


def test_without_scaling_nothing_is_scaled(tmp_path: Path) -> None:
    for keys in (
        {},
        {"scaling.type": "none", "scaling.factor": 8.0},
        {"scaling.factor": 0.0},
        {"scaling.type": "yarn", "scaling.factor": 1.0},
    ):
        settings = read(tmp_path, keys, n_rotated=4)
        assert settings.frequencies().tolist() == [1.0, 0.01]
        assert (settings.magnitude, settings.score_factor) == (1.0, 1.0)


def test_yarns_factor_is_context_by_original_length_if_a_file_is_silent(
    tmp_path: Path,
) -> None:
    keys = {"scaling.type": "yarn", "scaling.original_context_length": 512}
    silent = read(tmp_path, keys)
    assert silent == read(tmp_path, keys | {"scaling.factor": 8.0})
    assert silent.factor == 8.0
    assert read(tmp_path, {"scaling.type": "yarn"}).factor == 1.0


def test_an_ext_factor_of_zero_interpolates_everything(tmp_path: Path) -> None:
    keys = YARN | {"scaling.yarn_ext_factor": 0.0}
    settings = read(tmp_path, keys)
    linear = read(tmp_path, {"scaling.factor": 4.0})
    assert settings.frequencies().tolist() == linear.frequencies().tolist()
    assert settings.magnitude == 1.0
    unset = read(tmp_path, YARN | {"scaling.yarn_ext_factor": -1.0})
    assert unset == read(tmp_path, YARN)


def test_the_ramp_leaves_fast_pairs_and_interpolates_slow_ones() -> None:
    ramp = YarnRamp(n_original=4096)
    left = ramp.left(64, 10000.0)
    assert left[0] == 1.0
    assert left[-1] == 0.0
    assert (np.diff(left) <= 0.0).all()
    fractional = YarnRamp(n_original=4096, truncate=False).left(64, 10000.0)
    assert not np.array_equal(left, fractional)


@given(
    n_rotated=st.integers(1, 64).map(lambda half: 2 * half),
    base=st.floats(1.5, 1e12),
    factor=st.floats(1.0, 65536.0),
    n_original=st.integers(1, 1 << 24),
    borders=st.tuples(st.floats(0.01, 100.0), st.floats(0.01, 100.0)),
    truncate=st.booleans(),
)
def test_every_pair_turns_between_its_own_pace_and_the_interpolated(
    n_rotated: int,
    base: float,
    factor: float,
    n_original: int,
    borders: tuple[float, float],
    truncate: bool,
) -> None:
    ramp = YarnRamp(
        n_original=n_original,
        beta_fast=max(borders),
        beta_slow=min(borders),
        truncate=truncate,
    )
    scaled = RopeSettings(
        n_rotated=n_rotated, base=base, interleaved=False, factor=factor, ramp=ramp
    ).frequencies()
    own = RopeSettings(n_rotated=n_rotated, base=base, interleaved=False).frequencies()
    assert own[0] == 1.0
    assert (scaled <= own * (1 + 1e-12)).all()
    assert (scaled >= own / factor * (1 - 1e-12)).all()


def test_a_context_is_given_before_scaling_or_after(tmp_path: Path) -> None:
    scaling = {"rope__scaling__factor": 4.0}
    original = {"rope__scaling__original_context_length": 1024}
    assert context(tmp_path, context_length=1024, **scaling, **original) == 4096
    assert context(tmp_path, context_length=4096, **scaling, **original) == 4096
    assert context(tmp_path, context_length=9000, **scaling, **original) == 9000
    assert context(tmp_path, context_length=4096, **scaling) == 4096


def test_every_word_for_scaling_is_known(tmp_path: Path) -> None:
    for kind in RopeScaling:
        assert read(tmp_path, {"scaling.type": kind.value}).base == 10000.0


@pytest.mark.parametrize(
    "keys",
    [
        {"freq_base": 0.0},
        {"freq_base": 1.0},
        {"freq_base": 1e30},
        {"scaling.type": "ntk-by-guess"},
        {"scaling.factor": 0.25},
        {"scaling.factor": -4.0},
        {"scaling.factor": 1e9},
        {"scale_linear": 1e9},
        YARN | {"scaling.yarn_beta_fast": 0.5},
        YARN | {"scaling.yarn_beta_slow": 0.0},
        YARN | {"scaling.yarn_ext_factor": 2.0},
        YARN | {"scaling.yarn_log_multiplier": 1e6},
        YARN | {"scaling.yarn_attn_factor": -1.0},
        YARN | {"scaling.attn_factor": 1e6},
        {"scaling.alpha": 1000.0},
        {"freq_base_swa": 5000.0},
    ],
)
def test_an_absurd_number_is_refused(keys: dict[str, object], tmp_path: Path) -> None:
    with pytest.raises(ModelRefused, match=r"rope\.|YaRN"):
        read(tmp_path, keys)


@pytest.mark.parametrize(
    "keys",
    [
        {"freq_base": float("nan")},
        {"scaling.factor": float("inf")},
        {"scaling.original_context_length": 0},
        {"scaling.original_context_length": 1 << 40},
        {"scaling.type": 7},
    ],
)
def test_what_is_no_number_is_refused(keys: dict[str, object], tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match=r"rope\."):
        read(tmp_path, YARN | keys)


@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan"), 1e30])
def test_a_factor_that_turns_nothing_is_refused(bad: float, tmp_path: Path) -> None:
    with pytest.raises(ModelRefused, match="rope_freqs"):
        read(tmp_path, {}, factors={"freqs": [1.0, bad]}, n_rotated=4)


def test_factors_of_another_number_of_pairs_are_refused(tmp_path: Path) -> None:
    keys = {"scaling.original_context_length": 16}
    with pytest.raises(ModelRefused, match="rope_factors_long"):
        read(tmp_path, keys, factors={"long": [1.0, 1.0, 1.0]}, n_rotated=4)


@pytest.mark.parametrize("n_rotated", [0, 3, 1 << 20])
def test_only_pairs_are_turned(n_rotated: int, tmp_path: Path) -> None:
    with pytest.raises(ModelRefused, match=str(n_rotated)):
        read(tmp_path, {}, n_rotated=n_rotated)
