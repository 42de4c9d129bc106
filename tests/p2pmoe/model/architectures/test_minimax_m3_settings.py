"""B01 behind the header: whatever a key says, the file runs or is refused, at once."""

import contextlib
import resource
import struct
import time
from pathlib import Path

import numpy as np
import pytest

from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from p2pmoe.backbone.budget import measure_sizes
from p2pmoe.model.architectures.minimax_m3_settings import read_settings
from p2pmoe.model.errors import ModelRefused
from p2pmoe.model.local_experts import LocalExperts
from p2pmoe.model.model import describe_model, load_model
from p2pmoe.weights.errors import ModelFileError
from p2pmoe.weights.manifest import build_manifest
from p2pmoe.weights.model_file import ModelFile, open_model
from tests.support.gguf_writer import Raw
from tests.support.mini_m3 import MINI_METADATA, write_mini_m3

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
        start = time.process_time()
        path = write_mini_m3(tmp_path / "m.gguf", {key: value})
        with open_model(path) as model_file:
            with contextlib.suppress(ModelRefused, ModelFileError):
                run(model_file)
        assert time.process_time() - start < 1, value
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 50_000  # KiB


def test_what_is_read_and_what_is_not_needed(tmp_path: Path) -> None:
    with open_model(write_mini_m3(tmp_path / "m.gguf")) as model_file:
        own = read_settings(model_file)
        assert (own.n_heads, own.n_kv_heads, own.head_dim) == (4, 2, 32)
        assert own.selection.n_all == 16
    absent = dict.fromkeys(key for key in MINI_METADATA if ".indexer." in key)
    with open_model(write_mini_m3(tmp_path / "m.gguf", absent)) as model_file:
        assert read_settings(model_file).n_index_heads == 1


def test_b13_groups_that_nobody_would_mask_are_refused(tmp_path: Path) -> None:
    for n_groups in (0, 1):  # as good as none
        groups = {"minimax-m3.expert_group_count": n_groups}
        with open_model(write_mini_m3(tmp_path / "m.gguf", groups)) as model_file:
            read_settings(model_file)
    groups = {"minimax-m3.expert_group_count": 2}
    with open_model(write_mini_m3(tmp_path / "m.gguf", groups)) as model_file:
        with pytest.raises(ModelRefused, match="in groups"):
            read_settings(model_file)


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("rope.freq_base", 0.0, "freq_base 0.0 is below 1"),
        ("attention.layer_norm_rms_epsilon", -1.0, "epsilon -1.0"),
        ("expert_weights_scale", Raw(12, struct.pack("<d", 1e300)), "no f32 value"),
    ],
)
def test_figures_that_make_no_numbers(
    tmp_path: Path, key: str, value: object, reason: str
) -> None:
    path = write_mini_m3(tmp_path / "m.gguf", {f"minimax-m3.{key}": value})
    with open_model(path) as model_file, pytest.raises(ModelRefused, match=reason):
        read_settings(model_file)
