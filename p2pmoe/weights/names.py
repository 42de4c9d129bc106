"""What model files call things: metadata keys and expert tensors, by architecture.

Keys of a model's sizes carry the architecture as prefix (`olmoe.expert_count`). The
routed experts of layer L are named in one of three ways (fault B05):

    stacked      blk.L.ffn_{gate,up,down}_exps.weight   [n_expert, rows, cols]
    per expert   blk.L.ffn_{gate,up,down}.E.weight      [rows, cols]
    merged       blk.L.ffn_gate_up_exps.weight          [n_expert, 2 n_ff, n_embd]
                 and blk.L.ffn_down_exps.weight

Experts with biases carry `.bias` beside each `.weight`, of one dimension less. A
model's layers end where blocks that predict further tokens (`nextn_predict_layers`)
begin.

Of merged names only `ffn_gate_up_exps` has a half order that its writers agree on
(gate first); any other merged name is refused unless the order is given.
"""

import re
from enum import Enum, unique

from mobile_worker.arithmetic.activation import Activation, ActivationKind
from p2pmoe.weights.errors import UnsupportedModel
from p2pmoe.weights.model_header import ModelHeader

__all__ = [
    "EXPERT_EXTRAS",
    "MERGED_NAMES",
    "ExpertMatrix",
    "architecture",
    "expert_activation",
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

# Tensors of routed experts that are neither weights nor biases: scales; not those of
# activations, which are coded here as they are.
EXPERT_EXTRAS = re.compile(
    r"blk\.([0-9]{1,9})\.ffn_(?:gate|up|down|gate_up|up_gate)(?:_exps|\.[0-9]+)\."
    r"(?!(?:weight|bias|input_scale)\Z)"
)


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
    """Return the model's layers: its blocks without those that predict further."""
    n_layer = model_size(model, "block_count")
    return max(0, n_layer - model_size(model, "nextn_predict_layers", 0))


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
