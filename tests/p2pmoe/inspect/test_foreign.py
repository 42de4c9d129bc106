"""A folder of an unknown architecture is counted by what its tensors are called."""

import json
import struct
from pathlib import Path

import pytest

from p2pmoe.inspect.foreign import in_gguf_terms, is_foreign
from p2pmoe.inspect.inventory import Inventory, take_inventory
from p2pmoe.inspect.obstacles import judge
from p2pmoe.weights.errors import ModelFileError
from p2pmoe.weights.model_file import read_header
from p2pmoe.weights.parts import Part
from tests.support.mini_m3 import write_mini_m3
from tests.support.shared import shared_path

Shapes = dict[str, tuple[str, tuple[int, ...]]]

BLOCK = "language_model.model.layers.{}."
N_EXPERT, N_LAYER = 6, 3


def kimi_k3() -> Shapes:
    """The names and kinds of Kimi-K3, as published, at a hundredth of its width."""
    tensors: Shapes = {
        "language_model.model.embed_tokens.weight": ("BF16", (100, 64)),
        "language_model.lm_head.weight": ("BF16", (100, 64)),
        "language_model.model.norm.weight": ("BF16", (64,)),
        "language_model.model.output_attn_res_norm.weight": ("BF16", (64,)),
        "vision_tower.encoder.blocks.0.attn.qkv.weight": ("BF16", (64, 64)),
    }
    for layer in range(N_LAYER):
        own: Shapes = {
            "input_layernorm.weight": ("BF16", (64,)),
            "self_attention_res_proj.weight": ("BF16", (1, 64)),
            "self_attn.q_proj.weight": ("BF16", (64, 64)),
            "self_attn.A_log": ("F32", (1, 1, 4, 1)),
            "self_attn.g_proj.weight": ("BF16", (64, 64)),
            "self_attn.o_norm.weight": ("BF16", (16,)),
        }
        if layer == 0:
            own["mlp.gate_proj.weight"] = ("BF16", (96, 64))
            own["mlp.down_proj.weight"] = ("BF16", (64, 96))
        else:
            moe = "block_sparse_moe"
            own[f"{moe}.gate.weight"] = ("BF16", (N_EXPERT, 64))
            own[f"{moe}.gate.e_score_correction_bias"] = ("F32", (N_EXPERT,))
            own[f"{moe}.shared_experts.up_proj.weight"] = ("BF16", (64, 64))
            own[f"{moe}.routed_expert_down_proj.weight"] = ("BF16", (32, 64))
            own[f"{moe}.routed_expert_norm.weight"] = ("BF16", (32,))
            for e in range(N_EXPERT):
                for word in ("w1", "w2", "w3"):
                    expert = f"{moe}.experts.{e}.{word}"
                    own[f"{expert}.weight_packed"] = ("U8", (32, 16))
                    own[f"{expert}.weight_scale"] = ("U8", (32, 1))
        tensors |= {BLOCK.format(layer) + name: value for name, value in own.items()}
    return tensors


def write_folder(folder: Path, config: dict[str, object], tensors: Shapes) -> Path:
    """Write a folder whose file ends with its header."""
    sizes = {"BF16": 2, "F32": 4, "U8": 1}
    header, at = {}, 0
    for name, (dtype, shape) in tensors.items():
        n_bytes = sizes[dtype]
        for n in shape:
            n_bytes *= n
        place = [at, at + n_bytes]
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": place}
        at += n_bytes
    raw = json.dumps(header).encode()
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(raw)) + raw)
    return folder


def config_of(name: str, **text: object) -> dict[str, object]:
    return {"architectures": [name], "text_config": {"num_hidden_layers": 3, **text}}


def inventory_of(folder: Path) -> Inventory:
    header = read_header(folder)
    assert is_foreign(header)
    return take_inventory(in_gguf_terms(header))


def test_kimi_k3_as_its_publisher_has_it(tmp_path: Path) -> None:
    config = config_of(
        "KimiK3ForConditionalGeneration",
        num_experts=N_EXPERT,
        num_experts_per_token=2,
        model_max_length=1048576,
    )
    own = inventory_of(write_folder(tmp_path, config, kimi_k3()))
    assert own.architecture == "kimi-k3"
    assert own.n_context == 1048576
    experts = own.experts
    assert experts is not None
    assert experts.layers == (1, 2)
    assert experts.n_experts == 12
    assert experts.calls_per_token == 4
    assert experts.min_bytes == experts.max_bytes == 3 * (32 * 16 + 32)
    n = {part: size.n_parameters for part, size in own.parts.items()}
    assert n[Part.EXPERTS] == 12 * 3 * 32 * 32
    assert n[Part.SHARED] == 2 * 64 * 64
    assert n[Part.LATENT] == 2 * 32 * 64
    assert n[Part.ROUTER] == 2 * (N_EXPERT * 64 + N_EXPERT)
    assert n[Part.ATTENTION] == 3 * (2 * 64 * 64 + 4)
    assert n[Part.DENSE] == 2 * 96 * 64
    assert n[Part.EMBEDDING] == 2 * 100 * 64
    assert own.n_parameters == sum(n.values())
    chosen = 4 * 3 * 32 * 32
    assert own.n_active == own.n_parameters - 100 * 64 - n[Part.EXPERTS] + chosen
    header = in_gguf_terms(read_header(tmp_path))
    found = judge(header, own).obstacles
    assert found[0].startswith("Kimi-K3 is not run here")
    assert found[1].startswith("needs ")
    assert len(found) == 2


def test_stacked_experts_and_other_words(tmp_path: Path) -> None:
    config = config_of("NewMoeForCausalLM", n_routed_experts=4, num_experts_per_tok=1)
    tensors: Shapes = {
        "transformer.wte.weight": ("BF16", (10, 32)),
        "transformer.h.0.moe.experts.gate_up_proj": ("BF16", (4, 32, 64)),
        "transformer.h.0.moe.experts.down_proj_blocks": ("U8", (4, 32, 16)),
        "transformer.h.0.moe.experts.down_proj_scales": ("U8", (4, 32, 1)),
        "transformer.h.0.moe.router.weight": ("BF16", (4, 32)),
        "transformer.h.0.mixer.in_proj.weight": ("BF16", (32, 32)),
        "transformer.h.3.mlp.up_proj.weight": ("BF16", (32, 32)),
        "something.else": ("F32", (7,)),
    }
    own = inventory_of(write_folder(tmp_path, config, tensors))
    assert own.experts is not None
    assert own.experts.n_experts == 4
    assert own.experts.min_bytes == 2 * 32 * 64 + 32 * 16 + 32
    assert own.parts[Part.EXPERTS].n_parameters == 4 * 32 * 64 + 4 * 32 * 32
    assert own.parts[Part.ROUTER].n_parameters == 4 * 32
    assert own.parts[Part.ATTENTION].n_parameters == 32 * 32
    assert own.parts[Part.NEXT].n_parameters == 32 * 32
    assert own.parts[Part.REST].n_parameters == 7
    assert own.architecture == "NewMoeForCausalLM"


def test_two_tensors_that_get_one_name_are_both_counted(tmp_path: Path) -> None:
    tensors: Shapes = {
        "model.layers.0.mlp.up_proj.weight": ("BF16", (8, 8)),
        "model.layers.0.other.mlp.up_proj.weight": ("BF16", (8, 8)),
    }
    folder = write_folder(tmp_path, config_of("NewForCausalLM"), tensors)
    assert inventory_of(folder).parts[Part.DENSE].n_parameters == 128


def test_known_models_are_not_foreign(tmp_path: Path) -> None:
    header = read_header(write_mini_m3(tmp_path / "m.gguf"))
    assert not is_foreign(header)
    assert in_gguf_terms(header) is header
    assert not is_foreign(read_header(shared_path("models/tiny/olmoe")))


def test_a_config_without_layers_is_refused(tmp_path: Path) -> None:
    config = {"architectures": ["NewMoeForCausalLM"], "hidden_size": 4}
    folder = write_folder(tmp_path, config, {"a": ("F32", (1,))})
    with pytest.raises(ModelFileError, match="num_hidden_layers"):
        in_gguf_terms(read_header(folder))
