import contextlib
from pathlib import Path

import numpy as np
import pytest

from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.arithmetic.formats.codecs import dequantize
from mobile_worker.arithmetic.kernel import Kernel
from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from mobile_worker.arithmetic.profiles import Profile
from mobile_worker.arithmetic.self_test import fixed_matrix
from p2pmoe.model.architectures import deepseek2
from p2pmoe.model.errors import ModelRefused
from p2pmoe.model.local_experts import LocalExperts
from p2pmoe.model.metadata_keys import Keys
from p2pmoe.model.native_operations import operations_for
from p2pmoe.weights.errors import ModelFileError
from p2pmoe.weights.model_file import open_model
from tests.support.gguf_writer import TensorBytes, write_gguf
from tests.support.kernels import all_kernels, fastest_kernel, kernel_name
from tests.support.seeded_gguf import metadata_of, tensors_of, write_case
from tests.support.seeded_models import N_HEADS, case_named, prompt_of
from tests.support.shared import shared_path
from tests.support.tiny_model import TinyModel

FOLDERS = ("deepseek_v2", "deepseek_v3")
V2, V3 = case_named("deepseek_v2_groups"), case_named("deepseek_v3_yarn")
LITE = case_named("deepseek_v2_lite")
N_NOPE, N_VALUE, N_LATENT = 16, 16, 32


def load(path: Path, kernel: Kernel) -> TinyModel:
    with open_model(path) as model_file:
        return TinyModel(
            deepseek2.load(model_file, kernel, operations_for(kernel)),
            LocalExperts.load(model_file, kernel, Profile.R32),
        )


def logits_of(own: TinyModel, tokens: list[int], steps: list[int]) -> bytes:
    cache, parts, at = own.model.new_cache(len(tokens)), [], 0
    for n in steps:
        parts.append(own.run(tokens[at : at + n], cache))
        at += n
    return np.concatenate(parts).tobytes()


@pytest.mark.parametrize("kernel", all_kernels(), ids=kernel_name)
@pytest.mark.parametrize("folder", FOLDERS)
def test_logits_and_greedy_ids_are_the_references(folder: str, kernel: Kernel) -> None:
    reference = np.load(shared_path(f"models/tiny/{folder}/reference.npz"))
    own = load(shared_path(f"models/tiny/{folder}/model-f32.gguf"), kernel)
    prompt = reference["prompt"].tolist()
    logits = own.run(prompt, own.model.new_cache(len(prompt)))
    assert np.abs(logits[reference["rows"]] - reference["logits"]).max() < 1e-5
    greedy = reference["greedy"].tolist()
    assert own.greedy(prompt, len(greedy)) == greedy


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize("steps", [[1] * 70, [69, 1], [13, 24, 33]])
def test_any_chunking_gives_the_same_bytes(folder: str, steps: list[int]) -> None:
    path = shared_path(f"models/tiny/{folder}/model-f32.gguf")
    own = load(path, fastest_kernel())
    tokens = [int(i) for i in np.random.default_rng(7).integers(0, 512, 70)]
    assert logits_of(own, tokens, steps) == logits_of(own, tokens, [70])


def older(name: str) -> tuple[dict[str, object], dict[str, np.ndarray | None]]:
    """Return what files had before heads were absorbed: one attn_kv_b a layer."""
    case = case_named(name)
    keys: dict[str, object] = {
        "deepseek2.attention.head_count_kv": N_HEADS,
        "deepseek2.attention.key_length": 32,
        "deepseek2.attention.value_length": N_VALUE,
        "deepseek2.attention.key_length_mla": None,
        "deepseek2.attention.value_length_mla": None,
    }
    tensors: dict[str, np.ndarray | None] = {}
    whole = tensors_of(case)
    for layer in range(3):
        k, v = (f"blk.{layer}.attn_{part}_b.weight" for part in "kv")
        heads = np.concatenate((whole[k].swapaxes(1, 2), whole[v]), axis=1)
        tensors |= {k: None, v: None}
        tensors[f"blk.{layer}.attn_kv_b.weight"] = heads.reshape(-1, N_LATENT)
    return keys, tensors


@pytest.mark.parametrize("case", [V2, V3, LITE], ids=lambda case: case.name)
def test_older_files_with_keys_and_values_in_one_say_the_same(
    case, tmp_path: Path
) -> None:
    prompt = prompt_of(case, 20)
    new = load(write_case(case, tmp_path), NumpyKernel())
    expected = logits_of(new, prompt, [20])
    old = load(write_case(case, tmp_path, *older(case.name)), NumpyKernel())
    assert logits_of(old, prompt, [20]) == expected
    _, tensors = older(case.name)
    both = {name: values for name, values in tensors.items() if values is not None}
    having_both = load(write_case(case, tmp_path, tensors=both), NumpyKernel())
    assert logits_of(having_both, prompt, [20]) == expected


def write_quantised(folder: Path, *, is_old: bool) -> Path:
    """Write LITE with each head's values in Q8_0, and older keys beside them."""
    keys, tensors = older(LITE.name)
    content = tensors_of(LITE) | tensors
    written = []
    for name, values in content.items():
        if values is None:
            continue
        kind, shape, raw = Format.F32, values.shape, values.astype("<f4").tobytes()
        if name.endswith("attn_kv_b.weight"):
            matrix = fixed_matrix(name, Format.Q8_0, *values.shape)
            kind, raw = Format.Q8_0, bytes(matrix.raw)
            if not is_old:
                heads = dequantize(matrix).reshape(N_HEADS, -1, N_LATENT)
                own = heads[:, :N_NOPE].swapaxes(1, 2)
                k_name = name.replace("kv_b", "k_b")
                written.append((k_name, Format.F32, own.shape, own.tobytes()))
                size = len(raw) // N_HEADS
                parts = [raw[i * size + size // 2 : (i + 1) * size] for i in range(4)]
                name, raw = name.replace("kv_b", "v_b"), b"".join(parts)  # noqa: PLW2901
                shape = (N_HEADS, N_VALUE, N_LATENT)
        written.append((name, kind, shape, raw))
    metadata = metadata_of(LITE) | (keys if is_old else {})
    return write_gguf(
        folder / f"{is_old}.gguf",
        {key: value for key, value in metadata.items() if value is not None},
        [
            TensorBytes(name=name, type=int(kind), shape=shape, content=raw)
            for name, kind, shape, raw in written
        ],
    )


def test_quantised_keys_are_decoded_to_be_transposed(tmp_path: Path) -> None:
    prompt = prompt_of(LITE, 20)
    old = load(write_quantised(tmp_path, is_old=True), NumpyKernel())
    new = load(write_quantised(tmp_path, is_old=False), NumpyKernel())
    assert logits_of(old, prompt, [20]) == logits_of(new, prompt, [20])


def described(folder: Path, case, **keys: object):
    own = {f"deepseek2.{key}": value for key, value in keys.items()}
    with open_model(write_case(case, folder, own)) as model_file:
        return deepseek2.describe(model_file)


def test_the_sizes_are_read(tmp_path: Path) -> None:
    own = described(tmp_path, V3)
    assert (own.n_layer, own.n_expert, own.top_k, own.n_ff_expert) == (3, 8, 2, 32)
    assert own.moe_layers == (1, 2)
    assert own.n_context == 2560
    assert own.kv_bytes_per_token == 3 * (32 + 16 + 32) * 4
    cache = load(write_case(V3, tmp_path), NumpyKernel()).model.new_cache(10)
    assert cache.n_bytes == 10 * own.kv_bytes_per_token


def test_blocks_that_predict_further_tokens_are_no_layers(tmp_path: Path) -> None:
    prompt = prompt_of(V3, 20)
    expected = logits_of(load(write_case(V3, tmp_path), NumpyKernel()), prompt, [20])
    whole = tensors_of(V3)
    last = {
        name.replace("blk.2.", "blk.3."): values * 2
        for name, values in whole.items()
        if name.startswith("blk.2.")
    }
    last["blk.3.nextn.eh_proj.weight"] = np.ones((64, 128), np.float32)
    keys = {"deepseek2.block_count": 4, "deepseek2.nextn_predict_layers": 1}
    own = load(write_case(V3, tmp_path, keys, last), NumpyKernel())
    assert logits_of(own, prompt, [20]) == expected


def router_of(folder: Path, case, **keys: object):
    own = {f"deepseek2.{key}": value for key, value in keys.items()}
    with open_model(write_case(case, folder, own)) as model_file:
        return deepseek2._router(Keys(model_file))


def test_b12_what_a_file_does_not_say_is_what_its_model_does(tmp_path: Path) -> None:
    silent = {
        "expert_gating_func": None,
        "expert_weights_norm": None,
        "expert_group_count": None,
        "expert_group_used_count": None,
    }
    v2 = router_of(tmp_path, V2, **silent)
    assert (v2.score_function.name, v2.norm, v2.scale) == ("SOFTMAX", False, 4.0)
    assert (v2.n_groups, v2.n_groups_used) == (1, 1)
    v3 = router_of(tmp_path, V3, **silent)
    assert (v3.score_function.name, v3.norm) == ("SIGMOID", False)
    assert router_of(tmp_path, V3).norm


@pytest.mark.parametrize(
    ("case", "n_expert", "groups"),
    [(V2, 160, (8, 3)), (V3, 256, (8, 4)), (V2, 64, (1, 1)), (V3, 384, (1, 1))],
)
def test_published_groups_are_taken_where_a_file_is_silent(
    case, n_expert: int, groups: tuple[int, int], tmp_path: Path
) -> None:
    silent = {"expert_group_count": None, "expert_group_used_count": None}
    own = router_of(tmp_path, case, expert_count=n_expert, **silent)
    assert (own.n_groups, own.n_groups_used) == groups


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        ({"attention.key_length_mla": 16}, "turned"),
        ({"attention.kv_lora_rank": 48}, "latent"),
        ({"expert_gating_func": 3}, "expert_gating_func"),
        ({"attention.temperature_scale": 0.5}, "temperature_scale"),
    ],
)
def test_what_it_cannot_be_is_refused(
    keys: dict[str, object], named: str, tmp_path: Path
) -> None:
    own = {f"deepseek2.{key}": value for key, value in keys.items()}
    with pytest.raises(ModelRefused, match=named):
        load(write_case(V3, tmp_path, own), NumpyKernel())


@pytest.mark.parametrize("part", ["attn_k_b", "attn_q_a_norm", "attn_kv_a_mqa"])
def test_a_tensor_that_is_missing_is_named(part: str, tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match=r"blk\.1\.attn"):
        load(
            write_case(V3, tmp_path, tensors={f"blk.1.{part}.weight": None}),
            NumpyKernel(),
        )


ODD_VALUES = [
    *(0, 1, 3, 33, 1 << 15, (1 << 31) - 1, (1 << 32) - 1, 1e-30, 1e30),
    *(0.0, float("nan"), float("inf"), -1.0, True, "x", [1, 2], None),
]


@pytest.mark.parametrize(
    "key", [key for key in metadata_of(V3) if key.startswith("deepseek2")]
)
def test_b01_a_key_with_any_value_runs_or_is_refused(tmp_path: Path, key: str) -> None:
    kernel = fastest_kernel()
    for value in ODD_VALUES:
        with contextlib.suppress(ModelRefused, ModelFileError):
            own = load(write_case(V3, tmp_path, {key: value}), kernel)
            cache = own.model.new_cache(min(4, own.model.description.n_context))
            assert np.isfinite(own.run([1, 2, 3][: cache.capacity], cache)).all(), value


@pytest.mark.parametrize(
    "tensor", [name for name in tensors_of(V3) if ".1.attn_" in name]
)
def test_a_tensor_of_another_shape_is_refused(tmp_path: Path, tensor: str) -> None:
    whole = tensors_of(V3)[tensor]
    for wrong in (np.repeat(whole, 2, axis=0), whole[..., None], whole.reshape(-1)):
        if wrong.shape == whole.shape:
            continue
        with pytest.raises((ModelRefused, ModelFileError), match=tensor[6:]):
            load(write_case(V3, tmp_path, tensors={tensor: wrong}), fastest_kernel())
