"""Which part of a model a tensor belongs to, by its name alone.

Parts are what people decide about: how precise each is kept, and which can live on
other machines. Names are GGUF's. Blocks behind the model's own layers guess further
tokens (`nextn_predict_layers`); nothing of them is computed here. Norms, and whatever
has no place else, are one part.

Architectures that cannot be computed here are known by the same endings: their experts
still end in `_exps`, their linear attention begins with `ssm_`.
"""

import re
from enum import Enum, unique

from p2pmoe.weights.names import block_of, expert_kind

__all__ = ["Part", "part_of"]

_NORM = re.compile(r"(?:^|_|\.)norm(?:\.|$)")
_SHARED = re.compile(r"ffn_\w+_shexp\.")
_ROUTER = re.compile(r"(?:ffn_gate_inp|exp_probs_b|ffn_gate_tid2eid)(?:\.|$)")
_LATENT = re.compile(r"ffn_(?:routed|latent)_(?:down|up)\.")
_ATTENTION = re.compile(r"(?:attn_(?!res)|indexer|ssm_|shortconv)")
_DENSE = re.compile(r"ffn_(?:gate|up|down|gate_up|up_gate)\.(?:weight|bias|scale)$")
_EMBEDDING = re.compile(r"(?:token_embd|output|position_embd|token_types)\.")


@unique
class Part(Enum):
    """A part of a model; the value is its name for people."""

    EXPERTS = "routed experts"
    SHARED = "shared experts"
    LATENT = "latent projections"
    ROUTER = "router"
    ATTENTION = "attention"
    DENSE = "dense feed-forward"
    EMBEDDING = "embeddings and output"
    REST = "norms and rest"
    NEXT = "next-token blocks"


# Endings of a block's tensors, the first that fits.
_ENDINGS = (
    (_NORM, Part.REST),
    (_SHARED, Part.SHARED),
    (_ROUTER, Part.ROUTER),
    (_LATENT, Part.LATENT),
    (_ATTENTION, Part.ATTENTION),
    (_DENSE, Part.DENSE),
)


def part_of(name: str, n_layer: int) -> Part:
    """Return the part of a model of `n_layer` layers that a tensor belongs to."""
    block = block_of(name)
    if block is None:
        return Part.EMBEDDING if _EMBEDDING.match(name) else Part.REST
    layer, ending = block
    if layer >= n_layer or ending.startswith("nextn."):
        return Part.NEXT
    if expert_kind(ending) is not None:
        return Part.EXPERTS
    for pattern, part in _ENDINGS:
        if pattern.search(ending) if pattern is _NORM else pattern.match(ending):
            return part
    return Part.REST
