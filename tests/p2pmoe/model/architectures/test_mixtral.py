from pathlib import Path

import numpy as np
import pytest

from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from p2pmoe.model.errors import ModelRefused
from tests.support.kernels import fastest_kernel, kernel_name
from tests.support.mini_logits import PROMPT, mini_logits
from tests.support.mini_models import vector, write_mini
from tests.support.tiny_model import (
    assert_any_chunking,
    assert_is_the_reference,
    load_local,
)

ARCHITECTURE = "llama"

logits = mini_logits(ARCHITECTURE)


@pytest.mark.parametrize("kernel", [NumpyKernel(), fastest_kernel()], ids=kernel_name)
def test_logits_and_greedy_ids_are_the_references(kernel) -> None:
    assert_is_the_reference("mixtral", kernel)


def test_any_chunking_gives_the_same_bytes(tmp_path: Path) -> None:
    path = write_mini(tmp_path / "m.gguf", ARCHITECTURE)
    assert_any_chunking(load_local(path), PROMPT)


def test_a_model_without_experts_is_refused_in_one_line(tmp_path: Path) -> None:
    for n_expert in (0, None):
        with pytest.raises(ModelRefused, match="without experts") as caught:
            logits(tmp_path, {"expert_count": n_expert})
        assert "\n" not in str(caught.value)


def test_experts_are_as_wide_as_the_feed_forward_if_the_file_says_no_more(
    tmp_path: Path,
) -> None:
    keys = {"expert_feed_forward_length": None}
    own = load_local(write_mini(tmp_path / "m.gguf", ARCHITECTURE, keys))
    assert own.model.description.n_ff_expert == 32


def test_neighbours_are_turned(tmp_path: Path) -> None:
    own = load_local(write_mini(tmp_path / "m.gguf", ARCHITECTURE))
    assert own.model.layers[0].attention.rope.interleaved


def test_a_window_is_every_layers(tmp_path: Path) -> None:
    keys = {"attention.sliding_window": 6}
    own = load_local(write_mini(tmp_path / "m.gguf", ARCHITECTURE, keys))
    assert_any_chunking(own, PROMPT)
    rows = own.run(PROMPT, own.model.new_cache(20))
    full = np.frombuffer(logits(tmp_path), "<f4").reshape(20, -1)
    assert np.array_equal(rows[:6], full[:6])
    assert not np.array_equal(rows[6:], full[6:])
    wide = {"attention.sliding_window": 20}
    assert logits(tmp_path, wide) == full.tobytes()


def test_b12_the_chosen_are_divided_by_their_sum(tmp_path: Path) -> None:
    assert logits(tmp_path, {"expert_weights_norm": True}) == logits(tmp_path)


def test_a_bias_of_the_output_is_added(tmp_path: Path) -> None:
    bias = vector("blk.0.attn_output.bias", 64, 0.0)
    assert logits(tmp_path, None, {bias.name: bias}) != logits(tmp_path)


def test_frequencies_of_the_file_are_used(tmp_path: Path) -> None:
    """As Llama 3 scales them; `rope_settings` knows more of it."""
    factors = vector("rope_freqs.weight", 16, 4.0)
    assert logits(tmp_path, None, {factors.name: factors}) != logits(tmp_path)
