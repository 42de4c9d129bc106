import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from mobile_worker.arithmetic.kernel import Kernel
from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from mobile_worker.arithmetic.profiles import Profile
from p2pmoe.model.errors import ModelRefused
from p2pmoe.model.local_experts import LocalExperts
from p2pmoe.model.model import load_model
from p2pmoe.weights.errors import ModelFileError
from p2pmoe.weights.model_file import open_model
from tests.support.gguf_writer import TensorBytes, write_gguf
from tests.support.kernels import all_kernels, kernel_name
from tests.support.mini_m3 import MINI_METADATA, mini_tensors, write_mini_m3
from tests.support.shared import shared_path
from tests.support.tiny_model import TINY_M3, TinyModel, tiny_model

POCKET = Path(__file__).resolve().parents[4] / "p2pmoe/models/pocket-q4_0.gguf"
PROMPT = [int(i) for i in np.random.default_rng(2).integers(0, 96, 40)]


def open_mini(folder: Path, **bent) -> TinyModel:
    kernel = NumpyKernel()
    with open_model(write_mini_m3(folder / "m.gguf", **bent)) as model_file:
        model = load_model(model_file, kernel)
        return TinyModel(model, LocalExperts.load(model_file, kernel))


@pytest.fixture(scope="module")
def mini(tmp_path_factory: pytest.TempPathFactory) -> TinyModel:
    return open_mini(tmp_path_factory.mktemp("mini"))


@pytest.mark.parametrize("name", ["reference_short", "reference"])
def test_logits_and_greedy_ids_are_the_references(name: str) -> None:
    """Against transformers in f32; `reference` lies beyond the block-sparse border."""
    reference = np.load(shared_path(f"{TINY_M3}/{name}.npz"))
    own = tiny_model(Profile.R32)
    prompt = reference["prompt"].tolist()
    logits = own.run(prompt, own.model.new_cache(len(prompt)))
    if name == "reference":  # a cache that may outgrow the border keeps index keys
        assert own.model.new_cache(70).layers[1].index_keys is not None
    error = np.abs(logits[reference["rows"]] - reference["logits"]).max()
    assert error < 1e-4
    greedy = reference["greedy"].tolist()
    assert own.greedy(prompt, len(greedy)) == greedy


def test_b12_all_layers_of_a_real_layout_are_within_1e_5() -> None:
    reference = np.load(shared_path(f"{TINY_M3}/reference.npz"))
    own = tiny_model(Profile.R32)
    logits = own.run(reference["prompt"].tolist(), own.model.new_cache(70))
    assert np.abs(logits[reference["rows"]] - reference["logits"]).max() < 1e-5


def everything(own: TinyModel, steps: Sequence[int], capacity: int = 40):
    """Run PROMPT in steps of these lengths; returns all logits and the cache."""
    cache = own.model.new_cache(capacity)
    parts, at = [], 0
    for n in steps:
        parts.append(own.run(PROMPT[at : at + n], cache))
        at += n
    return np.concatenate(parts), cache


@pytest.mark.parametrize("steps", [[1] * 40, [39, 1], [7, 8, 9, 16], [17, 23]])
def test_any_chunking_gives_the_same_bytes(mini: TinyModel, steps: list[int]) -> None:
    whole, first = everything(mini, [40])
    logits, second = everything(mini, steps)
    assert logits.tobytes() == whole.tobytes()
    for a, b in zip(first.layers, second.layers, strict=True):
        assert a.keys.tobytes() == b.keys.tobytes()
        assert a.values.tobytes() == b.values.tobytes()
        if a.index_keys is not None and b.index_keys is not None:
            assert a.index_keys.tobytes() == b.index_keys.tobytes()


def test_the_size_of_the_cache_changes_nothing(mini: TinyModel) -> None:
    small, _ = everything(mini, [10], capacity=10)
    large, _ = everything(mini, [10], capacity=128)
    assert small.tobytes() == large.tobytes()


def test_dense_attention_without_an_indexer(tmp_path: Path, mini: TinyModel) -> None:
    names = [name for name in mini_tensors() if ".indexer." in name]
    own = open_mini(tmp_path, tensors=dict.fromkeys(names))
    few = own.run(PROMPT[:16], own.model.new_cache(16))
    # Within the border the indexer selects everything anyway; beyond, it does not.
    assert few.tobytes() == mini.run(PROMPT[:16], mini.model.new_cache(40)).tobytes()
    many = own.run(PROMPT, own.model.new_cache(40))
    assert many.tobytes() != mini.run(PROMPT, mini.model.new_cache(40)).tobytes()


def test_b12_the_norm_flag_may_be_absent(tmp_path: Path, mini: TinyModel) -> None:
    key = "minimax-m3.expert_weights_norm"
    absent = open_mini(tmp_path, metadata={key: None})
    off = open_mini(tmp_path, metadata={key: False})
    expected = mini.run(PROMPT, mini.model.new_cache(40)).tobytes()
    assert absent.run(PROMPT, absent.model.new_cache(40)).tobytes() == expected
    assert off.run(PROMPT, off.model.new_cache(40)).tobytes() != expected


def experts_apart() -> list[TensorBytes]:
    """Return the mini model's tensors, each expert's matrices by themselves."""
    tensors = mini_tensors()
    for part in ("gate", "up", "down"):
        whole = tensors.pop(f"blk.1.ffn_{part}_exps.weight")
        n_bytes = len(whole.content) // 4
        for e in range(4):
            name = f"blk.1.ffn_{part}.{e}.weight"
            tensors[name] = dataclasses.replace(
                whole,
                name=name,
                shape=whole.shape[1:],
                content=whole.content[e * n_bytes : (e + 1) * n_bytes],
            )
    return list(tensors.values())


def halves_merged() -> list[TensorBytes]:
    """Return the mini model's tensors, gate and up of each expert in one."""
    tensors = mini_tensors()
    gate = tensors.pop("blk.1.ffn_gate_exps.weight")
    up = tensors.pop("blk.1.ffn_up_exps.weight")
    n_bytes, (n_expert, n_ff, n_embd) = len(gate.content) // 4, gate.shape
    parts = [
        whole.content[e * n_bytes : (e + 1) * n_bytes]
        for e in range(n_expert)
        for whole in (gate, up)
    ]
    merged = dataclasses.replace(
        gate,
        name="blk.1.ffn_gate_up_exps.weight",
        shape=(n_expert, 2 * n_ff, n_embd),
        content=b"".join(parts),
    )
    return [*tensors.values(), merged]


@pytest.mark.parametrize("layout", [experts_apart, halves_merged])
def test_b05_logits_are_bit_equal_across_the_layouts(
    tmp_path: Path, mini: TinyModel, layout
) -> None:
    kernel = NumpyKernel()
    path = write_gguf(tmp_path / "m.gguf", MINI_METADATA, layout())
    with open_model(path) as model_file:
        own = TinyModel(
            load_model(model_file, kernel), LocalExperts.load(model_file, kernel)
        )
    stacked = mini.run(PROMPT, mini.model.new_cache(40))
    assert own.run(PROMPT, own.model.new_cache(40)).tobytes() == stacked.tobytes()


@pytest.mark.parametrize(
    ("metadata", "reason"),
    [
        ({"minimax-m3.expert_gating_func": 9}, "expert_gating_func: 9"),
        ({"minimax-m3.expert_used_count": 5}, "top 5 of 4"),
        ({"minimax-m3.attention.indexer.head_count": 1}, "index heads"),
        ({"minimax-m3.attention.head_count": 3}, "heads 3 over 2"),
        ({"minimax-m3.attention.head_count": 8}, "attn_q.weight is"),
        ({"minimax-m3.attention.value_length": 16}, "values"),
        ({"minimax-m3.rope.dimension_count": 15}, "rotary over 15"),
        ({"minimax-m3.rope.dimension_count": 64}, "rotary over 64"),
    ],
)
def test_what_cannot_be_run_is_refused(tmp_path: Path, metadata, reason) -> None:
    with pytest.raises(ModelRefused, match=reason):
        open_mini(tmp_path, metadata=metadata)


@pytest.mark.parametrize("name", ["expert_weights_scale", "block_count"])
def test_a_missing_key_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(ModelFileError, match=name):
        open_mini(tmp_path, metadata={f"minimax-m3.{name}": None})


def test_b13_a_bias_that_is_not_a_number_is_refused_at_load(tmp_path: Path) -> None:
    bias = np.array([0.0, np.nan, 0.0, 0.0], "<f4").tobytes()
    with pytest.raises(ModelRefused, match=r"exp_probs_b\.bias"):
        open_mini(tmp_path, tensors={"blk.1.exp_probs_b.bias": bias})


def test_a_weight_that_is_not_finite_is_refused_where_it_is_used(
    tmp_path: Path,
) -> None:
    name = "blk.0.ffn_up.weight"
    raw = bytearray(mini_tensors()[name].content)
    raw[:2] = b"\x00\x7c"  # an infinite scale
    own = open_mini(tmp_path, tensors={name: bytes(raw)})
    with pytest.raises(ModelFileError, match=name):
        own.run([1], own.model.new_cache(4))


@pytest.mark.parametrize("name", ["q8_0", "q4_0", "mxfp4", "q4_k_m", "iq4_xs", "q2_k"])
def test_every_kernel_gives_the_same_logits_in_every_format(name: str) -> None:
    """The pocket files mix formats within experts; a prompt, then single steps."""
    logits = []
    for kernel in all_kernels():
        with open_model(shared_path(f"models/pocket/pocket-{name}.gguf")) as model_file:
            own = TinyModel(
                load_model(model_file, kernel), LocalExperts.load(model_file, kernel)
            )
        cache = own.model.new_cache(8)
        steps = [own.run([0, 805, 317, 261, 1094], cache), own.run([281], cache)]
        logits.append(np.concatenate(steps))
    for kernel, each in zip(all_kernels(), logits, strict=True):
        assert each.tobytes() == logits[-1].tobytes(), kernel.name


@pytest.mark.parametrize("kernel", all_kernels(), ids=kernel_name)
def test_the_demo_model_says_what_it_always_said(kernel: Kernel) -> None:
    """Greedy at r16 after "It was a dark and stormy night, and"; must never change."""
    with open_model(POCKET) as model_file:
        own = TinyModel(
            load_model(model_file, kernel), LocalExperts.load(model_file, kernel)
        )
    prompt = [0, 805, 317, 261, 1094, 281, 350, 287, 1277, 782, 14, 281]
    said = "265 1284 317 381 1094 324 326 317 353 929 265 887 16 402 1284 317 1260 286"
    assert own.greedy(prompt, 18) == [int(token) for token in said.split()]
