from pathlib import Path

import numpy as np
import pytest

from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from p2pmoe.model.errors import ModelRefused
from p2pmoe.model.rope import Rope
from p2pmoe.model.rope_settings import read_rope
from p2pmoe.weights.errors import ModelFileError
from p2pmoe.weights.model_file import open_model
from tests.support.kernels import fastest_kernel, kernel_name
from tests.support.mini_logits import PROMPT, mini_logits
from tests.support.mini_models import mini_tensors, write_mini
from tests.support.tiny_model import (
    assert_any_chunking,
    assert_is_the_reference,
    load_local,
)

ARCHITECTURE = "gpt-oss"
WINDOW, PATTERN = "attention.sliding_window", "attention.sliding_window_pattern"

logits = mini_logits(ARCHITECTURE)


@pytest.mark.parametrize("kernel", [NumpyKernel(), fastest_kernel()], ids=kernel_name)
def test_logits_and_greedy_ids_are_the_references(kernel) -> None:
    assert_is_the_reference("gpt_oss", kernel)


def test_any_chunking_gives_the_same_bytes(tmp_path: Path) -> None:
    path = write_mini(tmp_path / "m.gguf", ARCHITECTURE)
    assert_any_chunking(load_local(path), PROMPT)


def test_every_other_layer_sees_a_window(tmp_path: Path) -> None:
    own = load_local(write_mini(tmp_path / "m.gguf", ARCHITECTURE))
    windows = [layer.attention.rule.window for layer in own.model.layers]
    assert windows == [5, None]
    rows = own.run(PROMPT, own.model.new_cache(20))
    wide = np.frombuffer(logits(tmp_path, {WINDOW: 20}), "<f4").reshape(20, -1)
    assert np.array_equal(rows[:5], wide[:5])
    assert not np.array_equal(rows[5:], wide[5:])


def test_the_file_may_say_which_layers_do(tmp_path: Path) -> None:
    absent = logits(tmp_path)
    assert logits(tmp_path, {PATTERN: 2}) == absent
    assert logits(tmp_path, {PATTERN: [True, False]}) == absent
    all_full = logits(tmp_path, {PATTERN: 1})
    assert all_full == logits(tmp_path, {PATTERN: [False, False]})
    assert all_full == logits(tmp_path, {WINDOW: 20})
    swapped = logits(tmp_path, {PATTERN: [False, True]})
    assert swapped not in (absent, all_full)


@pytest.mark.parametrize("wrong", [[True], [1, 0], "x", -1])
def test_a_pattern_that_is_none_is_refused(tmp_path: Path, wrong: object) -> None:
    with pytest.raises((ModelRefused, ModelFileError), match="window_pattern"):
        logits(tmp_path, {PATTERN: wrong})


@pytest.mark.parametrize("window", [None, 0, 1 << 25])
def test_a_window_is_needed(tmp_path: Path, window: int | None) -> None:
    with pytest.raises(ModelFileError, match="sliding_window"):
        logits(tmp_path, {WINDOW: window})


@pytest.mark.parametrize(
    "name",
    [
        *("attn_sinks.weight", "attn_q.bias", "attn_k.bias", "attn_v.bias"),
        *("attn_output.bias", "ffn_gate_inp.bias"),
    ],
)
def test_sinks_and_biases_count_and_are_all_needed(tmp_path: Path, name: str) -> None:
    own = mini_tensors(ARCHITECTURE)[f"blk.0.{name}"]
    larger = np.frombuffer(own.content, "<f4") * np.float32(40.0) + np.float32(0.5)
    assert logits(tmp_path, None, {own.name: larger.tobytes()}) != logits(tmp_path)
    with pytest.raises(ModelFileError, match=own.name):
        logits(tmp_path, None, {own.name: None})
    odd = np.full(len(larger), np.inf, "<f4").tobytes()
    with pytest.raises(ModelRefused, match=f"{own.name} .* not finite"):
        logits(tmp_path, None, {own.name: odd})


def test_another_score_function_is_refused(tmp_path: Path) -> None:
    assert logits(tmp_path, {"expert_gating_func": 3}) == logits(tmp_path)
    with pytest.raises(ModelRefused, match="expert_gating_func: 1"):
        logits(tmp_path, {"expert_gating_func": 1})


def test_the_ramp_of_its_scaling_is_not_cut_to_whole_pairs(tmp_path: Path) -> None:
    keys = {
        "rope.scaling.type": "yarn",
        "rope.scaling.factor": 4.0,
        "rope.scaling.original_context_length": 32,
    }
    path = write_mini(tmp_path / "m.gguf", ARCHITECTURE, keys)
    own = load_local(path)
    with open_model(path) as model_file:
        settings = read_rope(
            model_file, n_rotated=32, interleaved=False, truncate=False
        )
    expected = Rope(settings).tables(0, 64)
    tables = own.model.layers[0].attention.rope.tables(0, 64)
    for a, b in zip(tables, expected, strict=True):
        assert np.array_equal(a, b)
    assert own.model.description.n_context == 128
