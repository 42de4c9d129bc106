"""B01 behind the header: whatever a key says, the file runs or is refused, at once."""

import contextlib
import resource
import struct
from pathlib import Path

import numpy as np
import pytest

from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from p2pmoe.backbone.budget import measure_sizes
from p2pmoe.model.choice import ScoreFunction
from p2pmoe.model.errors import ModelRefused
from p2pmoe.model.local_experts import LocalExperts
from p2pmoe.model.metadata_keys import Keys
from p2pmoe.model.model import describe_model, load_model
from p2pmoe.model.settings import read_description, read_eps, read_heads, read_router
from p2pmoe.weights.errors import ModelFileError
from p2pmoe.weights.manifest import build_manifest
from p2pmoe.weights.model_file import ModelFile, open_model
from tests.support.gguf_writer import Raw
from tests.support.mini_m3 import MINI_METADATA, write_mini_m3
from tests.support.mini_models import write_mini

ODD_VALUES = [
    *(0, 1, 2, 3, 7, 1 << 15, 1 << 20, (1 << 31) - 1, 1 << 31, (1 << 32) - 1),
    Raw(10, struct.pack("<Q", 1 << 63)),
    Raw(11, struct.pack("<q", -1)),
    Raw(5, struct.pack("<i", -1)),
    *(0.0, float("nan"), float("inf"), -1.0, 1e30, True, "x", [1, 2], None),
]
KEYS = [key for key in MINI_METADATA if key != "general.architecture"]


def run(model_file: ModelFile) -> None:
    """Do all that a backbone does with a file before and in its first step."""
    kernel = NumpyKernel()
    measure_sizes(model_file, describe_model(model_file))
    model = load_model(model_file, kernel)
    build_manifest(model_file)
    experts = LocalExperts.load(model_file, kernel)
    cache = model.new_cache(min(16, model.description.n_context))
    assert np.isfinite(model.forward([1, 2, 3][: cache.capacity], cache, experts)).all()


@pytest.mark.parametrize("key", KEYS)
def test_b01_a_key_with_any_value_runs_or_is_refused(tmp_path: Path, key: str) -> None:
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for value in ODD_VALUES:
        path = write_mini_m3(tmp_path / "m.gguf", {key: value})
        with open_model(path) as model_file:
            with contextlib.suppress(ModelRefused, ModelFileError):
                run(model_file)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 50_000  # KiB


# Keys that only some architectures read, each where it is read.
OWN_KEYS = {
    "glm4moe": (
        *("leading_dense_block_count", "nextn_predict_layers", "expert_shared_count"),
        *("expert_group_count", "expert_group_used_count", "expert_gating_func"),
    ),
    "gpt-oss": ("attention.sliding_window", "attention.sliding_window_pattern"),
    "llama": ("attention.sliding_window", "expert_count"),
    "olmoe": ("attention.clamp_kqv", "expert_weights_norm", "feed_forward_length"),
    "qwen2moe": ("feed_forward_length", "expert_used_count", "attention.scale"),
}
FEW_ODD_VALUES = [
    *(0, 1, 3, (1 << 31) - 1, 0.0, float("nan"), -1.0, True, "x", [1, 2], [True, False])
]


@pytest.mark.parametrize(
    ("architecture", "key"),
    [(name, key) for name, keys in OWN_KEYS.items() for key in keys],
)
def test_b01_so_does_each_architectures_own_key(
    tmp_path: Path, architecture: str, key: str
) -> None:
    for value in FEW_ODD_VALUES:
        path = write_mini(tmp_path / "m.gguf", architecture, {key: value})
        with open_model(path) as model_file:
            with contextlib.suppress(ModelRefused, ModelFileError):
                run(model_file)


def keys_of(folder: Path, **bent: object) -> Keys:
    """Return the mini model's keys; `bent` ones, without prefix, replace or drop."""
    metadata = {
        f"minimax-m3.{key.replace('__', '.')}": value for key, value in bent.items()
    }
    with open_model(write_mini_m3(folder / "m.gguf", metadata)) as model_file:
        return Keys(model_file)


def router_of(keys: Keys):
    functions = (ScoreFunction.SIGMOID, ScoreFunction.SOFTMAX)
    return read_router(keys, functions=functions, norm=True)


def test_a_routed_scale_of_zero_is_none(tmp_path: Path) -> None:
    assert router_of(keys_of(tmp_path, expert_weights_scale=0.0)).scale == 1.0
    assert router_of(keys_of(tmp_path, expert_weights_scale=2.5)).scale == 2.5


def test_heads_may_go_without_their_length(tmp_path: Path) -> None:
    own = read_heads(keys_of(tmp_path))
    assert (own.n_heads, own.n_kv_heads, own.head_dim) == (4, 2, 32)
    assert own.n_query == 128
    assert own.kv_bytes_per_token == 2 * 2 * 32 * 4
    assert own.rule.scale == 1 / 32**0.5
    absent = {"attention__key_length": None, "attention__value_length": None}
    assert read_heads(keys_of(tmp_path, **absent)).head_dim == 16  # 64 over 4
    every = keys_of(tmp_path, attention__head_count_kv=None)
    assert read_heads(every).n_kv_heads == 4


@pytest.mark.parametrize(
    "bent",
    [
        {"attention__head_count": 3},
        {"attention__key_length": 12, "attention__value_length": 12},
        {"attention__key_length": 33, "attention__value_length": 33},
        {"attention__value_length": 16},
        {"attention__head_count": 65537},
        {"attention__head_count": 5, "attention__key_length": None},
    ],
)
def test_heads_that_do_not_fit_are_refused(tmp_path: Path, bent) -> None:
    keys = keys_of(tmp_path, **bent)
    with pytest.raises((ModelRefused, ModelFileError), match=r"minimax-m3\.attention"):
        read_heads(keys)


def test_values_that_are_turned_are_all_unless_the_file_says(tmp_path: Path) -> None:
    assert keys_of(tmp_path).rotated(32) == 16
    assert keys_of(tmp_path, rope__dimension_count=None).rotated(32) == 32
    for wrong in (15, 34):
        keys = keys_of(tmp_path, rope__dimension_count=wrong)
        with pytest.raises(ModelRefused, match=f"rotary over {wrong} of 32"):
            keys.rotated(32)


def test_b12_a_router_takes_the_architectures_defaults(tmp_path: Path) -> None:
    names = ("gating_func", "weights_norm", "weights_scale")
    absent = {f"expert_{name}": None for name in names}
    own = router_of(keys_of(tmp_path, **absent))
    assert own.score_function is ScoreFunction.SIGMOID
    assert (own.top_k, own.norm, own.scale) == (2, True, 1.0)
    given = router_of(
        keys_of(tmp_path, expert_gating_func=1, expert_weights_norm=False)
    )
    assert given.score_function is ScoreFunction.SOFTMAX
    assert (given.norm, given.scale) == (False, 2.0)
    none = router_of(keys_of(tmp_path, expert_gating_func=0))
    assert none.score_function is ScoreFunction.SIGMOID


def test_b13_groups_are_read_and_have_to_fit(tmp_path: Path) -> None:
    for n_groups in (0, 1):  # as good as none
        assert router_of(keys_of(tmp_path, expert_group_count=n_groups)).n_groups == 1
    two = {"expert_group_count": 2, "expert_group_used_count": 1}
    own = router_of(keys_of(tmp_path, **two))
    assert (own.n_groups, own.n_groups_used) == (2, 1)
    unsaid = router_of(keys_of(tmp_path, expert_group_count=2))
    assert (unsaid.n_groups, unsaid.n_groups_used) == (2, 2)
    for wrong in ({"expert_group_count": 3}, {"expert_group_used_count": 3}):
        with pytest.raises(ModelRefused, match="groups"):
            router_of(keys_of(tmp_path, **(two | wrong)))
    with pytest.raises(ModelRefused, match="top 3 of 4 experts"):
        router_of(keys_of(tmp_path, **two, expert_used_count=3))


def test_layers_are_those_with_a_router(tmp_path: Path) -> None:
    own = read_description(keys_of(tmp_path), kv_bytes_per_layer=100)
    assert (own.n_layer, own.moe_layers, own.kv_bytes_per_token) == (2, (1,), 200)
    unsaid = keys_of(tmp_path, leading_dense_block_count=None)
    assert read_description(unsaid, kv_bytes_per_layer=1).moe_layers == (1,)
    for n_dense in (0, 2):
        keys = keys_of(tmp_path, leading_dense_block_count=n_dense)
        with pytest.raises(ModelRefused, match=r"blk\.[01]\.ffn_gate_inp"):
            read_description(keys, kv_bytes_per_layer=1)


def test_blocks_that_predict_further_tokens_are_no_layers(tmp_path: Path) -> None:
    keys = keys_of(tmp_path, block_count=3, nextn_predict_layers=1)
    own = read_description(keys, kv_bytes_per_layer=1)
    assert (own.n_layer, own.moe_layers) == (2, (1,))
    keys = keys_of(tmp_path, nextn_predict_layers=1, leading_dense_block_count=None)
    with pytest.raises(ModelRefused, match="no layer has routed experts"):
        read_description(keys, kv_bytes_per_layer=1)
    keys = keys_of(tmp_path, nextn_predict_layers=2)
    with pytest.raises(ModelRefused, match="leaves none of 2"):
        read_description(keys, kv_bytes_per_layer=1)


def test_the_size_of_experts_may_have_a_default(tmp_path: Path) -> None:
    keys = keys_of(tmp_path, expert_feed_forward_length=None)
    own = read_description(keys, kv_bytes_per_layer=1, n_ff_expert=48)
    assert own.n_ff_expert == 48
    with pytest.raises(ModelFileError, match="expert_feed_forward_length"):
        read_description(keys, kv_bytes_per_layer=1)


@pytest.mark.parametrize(
    ("key", "value", "neutral"),
    [("logit_scale", 0.5, 1.0), ("router_logit_softcapping", 30.0, 0.0)],
)
def test_what_is_not_computed_here_is_refused(
    tmp_path: Path, key: str, value: float, neutral: float
) -> None:
    read_description(keys_of(tmp_path, **{key: neutral}), kv_bytes_per_layer=1)
    with pytest.raises(ModelRefused, match=f"minimax-m3.{key} is set"):
        read_description(keys_of(tmp_path, **{key: value}), kv_bytes_per_layer=1)


def test_figures_that_make_no_numbers(tmp_path: Path) -> None:
    with pytest.raises(ModelRefused, match=r"epsilon: -1\.0"):
        read_eps(keys_of(tmp_path, attention__layer_norm_rms_epsilon=-1.0))
    huge = Raw(12, struct.pack("<d", 1e300))
    with pytest.raises(ModelRefused, match=r"expert_weights_scale: 1e\+300"):
        router_of(keys_of(tmp_path, expert_weights_scale=huge))
