"""What is counted is what an independent reader of the files counts."""

import re
from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np
import pytest

from p2pmoe.inspect.inventory import Inventory, take_inventory
from p2pmoe.weights.errors import ModelFileError
from p2pmoe.weights.model_file import read_header
from p2pmoe.weights.parts import Part
from tests.support.gguf_writer import TensorBytes, write_gguf
from tests.support.header_only import write_kimi_k3, write_minimax_m3
from tests.support.mini_m3 import write_mini_m3
from tests.support.shared import shared_path
from tests.support.tiny_folders import TINY_FOLDERS

MODELS = {
    **{name: f"models/tiny/{name}/model-f32.gguf" for name in TINY_FOLDERS},
    **{
        name: f"models/pocket/{name}.gguf"
        for name in ("pocket-q8_0", "pocket-mxfp4", "pocket-q4_k_m", "pocket-iq4_xs")
    },
}


def inventory_of(path: Path) -> Inventory:
    return take_inventory(read_header(path))


@dataclass
class Count:
    """What the gguf package's reader says, by the file format's own names."""

    n_bytes: int = 0
    n_parameters: int = 0
    n_active: int = 0
    n_experts: int = 0
    expert_bytes: int = 0
    calls: int = 0
    each: tuple[int, int] = (0, 0)


def independent_count(path: Path) -> Count:
    reader = gguf.GGUFReader(path)

    def key(name: str, default: int = 0) -> int:
        field = reader.get_field(name)
        return default if field is None else int(field.contents())

    field = reader.get_field("general.architecture")
    assert field is not None
    architecture = field.contents()
    n_layer = key(f"{architecture}.block_count")
    n_layer -= key(f"{architecture}.nextn_predict_layers")
    top_k = key(f"{architecture}.expert_used_count")
    count, layers, shared_table = Count(), {}, True
    for tensor in reader.tensors:
        n = int(np.prod([int(d) for d in tensor.shape]))
        count.n_bytes += int(tensor.n_bytes)
        layer = re.match(r"blk\.(\d+)\.", tensor.name)
        if layer and int(layer[1]) >= n_layer:
            continue
        count.n_parameters += n
        shared_table &= tensor.name != "output.weight"
        if "_exps." in tensor.name:
            assert layer is not None
            n_expert = int(tensor.shape[-1])
            layers.setdefault(int(layer[1]), [n_expert, 0])[1] += int(tensor.n_bytes)
            count.expert_bytes += int(tensor.n_bytes)
            count.n_active += n // n_expert * top_k
        elif tensor.name != "token_embd.weight":
            count.n_active += n
    if shared_table:
        table = next(t for t in reader.tensors if t.name == "token_embd.weight")
        count.n_active += int(np.prod(table.shape))
    count.n_experts = sum(n for n, _ in layers.values())
    count.calls = top_k * len(layers)
    each = [n_bytes // n for n, n_bytes in layers.values()]
    count.each = min(each), max(each)
    return count


@pytest.mark.parametrize("name", MODELS)
def test_counts_are_those_of_the_gguf_package(name: str) -> None:
    path = shared_path(MODELS[name])
    own, other = inventory_of(path), independent_count(path)
    experts = own.experts
    assert experts is not None
    assert (
        Count(
            n_bytes=own.n_bytes,
            n_parameters=own.n_parameters,
            n_active=own.n_active,
            n_experts=experts.n_experts,
            expert_bytes=own.parts[Part.EXPERTS].n_bytes,
            calls=experts.calls_per_token,
            each=(experts.min_bytes, experts.max_bytes),
        )
        == other
    )
    assert sum(each.n_bytes for each in own.formats) == own.n_bytes


@pytest.mark.parametrize("name", TINY_FOLDERS)
def test_a_folder_counts_as_its_gguf_file_does(name: str) -> None:
    own = inventory_of(shared_path(f"models/tiny/{name}"))
    other = inventory_of(shared_path(MODELS[name]))
    assert own.parts == other.parts
    assert own.experts == other.experts
    assert own.n_active == other.n_active


def test_minimax_m3_at_ud_iq4_xs(tmp_path: Path) -> None:
    own = inventory_of(write_minimax_m3(tmp_path / "m3.gguf"))
    assert own.experts is not None
    assert own.experts.n_experts == 7296
    assert own.experts.calls_per_token == 228
    assert (own.n_layer, len(own.experts.layers)) == (60, 57)
    assert round(own.n_bytes / 1e9, 1) == 207.6
    assert round(own.n_parameters / 1e9) == 426
    assert round(own.n_active / 1e9) == 25


def test_a_model_of_2_8_t_parameters_at_4_bits(tmp_path: Path) -> None:
    own = inventory_of(write_kimi_k3(tmp_path / "k3.gguf"))
    assert own.experts is not None
    assert own.experts.n_experts == 82432
    assert own.experts.calls_per_token == 1472
    assert round(own.n_parameters / 1e12, 1) == 2.8
    assert round(own.n_active / 1e9, 1) == 104.2
    assert round(own.n_bytes / 1e12, 1) == 1.4
    assert round(own.bytes_at_4_bits / 1e12, 1) == 1.4


def test_experts_of_their_own_and_merged_ones_count_the_same(tmp_path: Path) -> None:
    keys = {
        "general.architecture": "x",
        "x.block_count": 2,
        "x.expert_used_count": 2,
        "x.nextn_predict_layers": 1,
    }

    def tensor(name: str, *shape: int) -> TensorBytes:
        n_bytes = 4 * int(np.prod(shape))
        return TensorBytes(name=name, type=0, shape=shape, content=bytes(n_bytes))

    single = [
        tensor(f"blk.0.ffn_{word}.{e}.weight", 8, 16)
        for e in range(4)
        for word in ("gate", "up", "down")
    ]
    merged = [
        tensor("blk.0.ffn_gate_up_exps.weight", 4, 16, 16),
        tensor("blk.0.ffn_down_exps.weight", 4, 8, 16),
    ]
    guess = tensor("blk.1.ffn_down_exps.weight", 4, 8, 16)
    for form in (single, merged):
        path = write_gguf(tmp_path / "m.gguf", keys, [*form, guess])
        own = inventory_of(path)
        assert own.experts is not None
        assert own.experts.layers == (0,)
        assert own.experts.n_per_layer == (4,)
        assert own.experts.min_bytes == own.experts.max_bytes == 3 * 8 * 16 * 4
        assert own.n_active == 2 * 3 * 8 * 16
        assert own.n_parameters == 4 * 3 * 8 * 16
        assert own.parts[Part.NEXT].n_parameters == 4 * 8 * 16


def test_a_table_that_is_the_output_too_is_active(tmp_path: Path) -> None:
    whole = inventory_of(write_mini_m3(tmp_path / "a.gguf"))
    tied = inventory_of(
        write_mini_m3(tmp_path / "b.gguf", None, {"output.weight": None})
    )
    assert whole.n_active == tied.n_active
    assert whole.n_parameters - tied.n_parameters == 96 * 64


def test_no_experts_is_said_so(tmp_path: Path) -> None:
    keys = {"general.architecture": "dense", "dense.block_count": 1}
    own = inventory_of(write_gguf(tmp_path / "m.gguf", keys))
    assert own.experts is None
    assert (own.n_active, own.n_bytes, own.n_context, own.name) == (0, 0, None, "")


def test_absurd_numbers_are_refused(tmp_path: Path) -> None:
    for key in ("minimax-m3.block_count", "minimax-m3.expert_used_count"):
        path = write_mini_m3(tmp_path / "m.gguf", {key: 1 << 31})
        with pytest.raises(ModelFileError, match=key):
            inventory_of(path)
