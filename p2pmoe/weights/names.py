"""What model files call things: metadata keys and expert tensors, by architecture.

Keys of a model's sizes carry the architecture as prefix (`olmoe.expert_count`). The
routed experts of layer L are named in one of three ways (fault B05):

    stacked      blk.L.ffn_{gate,up,down}_exps.weight   [n_expert, rows, cols]
    per expert   blk.L.ffn_{gate,up,down}.E.weight      [rows, cols]
    merged       blk.L.ffn_gate_up_exps.weight          [n_expert, 2 n_ff, n_embd]
                 and blk.L.ffn_down_exps.weight

Experts with biases carry `.bias` beside each `.weight`, of one dimension less. A
model's layers end where the next-token blocks (`nextn_predict_layers`) begin.

Of merged names only `ffn_gate_up_exps` has a half order that its writers agree on
(gate first); any other merged name is refused unless the order is given.
"""

import re
from enum import Enum, unique

from mobile_worker.arithmetic.activation import Activation, ActivationKind
from p2pmoe.weights.errors import UnsupportedModel
from p2pmoe.weights.model_header import ModelHeader

__all__ = [
    "MERGED_NAMES",
    "ExpertMatrix",
    "architecture",
    "block_of",
    "expert_activation",
    "expert_kind",
    "layer_count",
    "merged_name",
    "model_size",
    "single_name",
    "stacked_name",
]

_SWIGLU = Activation(kind=ActivationKind.SWIGLU)
_SWIGLU_OAI = Activation(kind=ActivationKind.SWIGLU_OAI, alpha=1.702, limit=7.0)

# Architecture -> the gated activation of its routed experts.
_ACTIVATIONS = {
    "deepseek2": _SWIGLU,
    "glm4moe": _SWIGLU,
    "gpt-oss": _SWIGLU_OAI,
    "llama": _SWIGLU,
    "minimax-m2": _SWIGLU,
    "minimax-m3": _SWIGLU_OAI,
    "olmoe": _SWIGLU,
    "qwen2moe": _SWIGLU,
    "qwen3moe": _SWIGLU,
}

# Merged tensors that are known to exist; True if the order of their halves is known.
MERGED_NAMES = {"ffn_gate_up_exps": True, "ffn_up_gate_exps": False}

_MAX_BLOCKS = 1 << 20
_BLOCK = re.compile(r"blk\.([0-9]{1,9})\.(.+)")
_EXPERT = re.compile(r"ffn_(?:gate|up|down|gate_up|up_gate)(?:_exps|\.[0-9]+)\.(.+)")


@unique
class ExpertMatrix(Enum):
    """One of an expert's three matrices; the value is its word in tensor names."""

    GATE = "gate"
    UP = "up"
    DOWN = "down"


def architecture(model: ModelHeader) -> str:
    """Return the file's architecture, such as "minimax-m3"."""
    return model.metadata.text("general.architecture")


def model_size(model: ModelHeader, name: str, default: int | None = None) -> int:
    """Return a size from the metadata, such as "expert_count", without its prefix.

    Raises:
        ModelFileError: It is missing (and has no default), negative, or no integer.
    """
    return model.metadata.integer(f"{architecture(model)}.{name}", default)


def expert_activation(model: ModelHeader) -> Activation:
    """Return the activation of the model's routed experts.

    Raises:
        UnsupportedModel: The architecture is none that is known here.
    """
    name = architecture(model)
    if name not in _ACTIVATIONS:
        reason = f"architecture {name[:80]!r} is unknown here"
        raise UnsupportedModel(model.path, reason, field="key 'general.architecture'")
    return _ACTIVATIONS[name]


def layer_count(model: ModelHeader) -> int:
    """Return the model's layers: its blocks without the next-token blocks.

    Raises:
        ModelFileError: The file does not say how many blocks it has, or wrongly.
    """
    name = architecture(model)
    n_block = model.metadata.integer(f"{name}.block_count", high=_MAX_BLOCKS)
    key = f"{name}.nextn_predict_layers"
    return n_block - model.metadata.integer(key, 0, high=n_block)


def block_of(name: str) -> tuple[int, str] | None:
    """Return (block, the name behind it), or None for a tensor of no block."""
    match = _BLOCK.fullmatch(name)
    return None if match is None else (int(match[1]), match[2])


def expert_kind(ending: str) -> str | None:
    """Return what a tensor of routed experts holds; None for any other tensor.

    `ending` is its name behind the block. Kinds are "weight" and "bias", and whatever
    else files may add, such as "scale" and "input_scale".
    """
    match = _EXPERT.fullmatch(ending)
    return None if match is None else match[1]


def stacked_name(layer: int, matrix: ExpertMatrix, kind: str = "weight") -> str:
    """Return the name of a layer's stacked tensor; `kind` is weight or bias."""
    return f"blk.{layer}.ffn_{matrix.value}_exps.{kind}"


def single_name(
    layer: int, matrix: ExpertMatrix, index: int, kind: str = "weight"
) -> str:
    """Return the name of one expert's own tensor."""
    return f"blk.{layer}.ffn_{matrix.value}.{index}.{kind}"


def merged_name(layer: int, stem: str, kind: str = "weight") -> str:
    """Return the name of a layer's merged tensor; `stem` is from MERGED_NAMES."""
    return f"blk.{layer}.{stem}.{kind}"
