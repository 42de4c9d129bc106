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

from p2pmoe.weights.metadata import Metadata

__all__ = ["Part", "block_of", "n_own_layers", "part_of"]

_BLOCK = re.compile(r"blk\.(\d{1,9})\.(.+)", re.ASCII)
_EXPERTS = re.compile(r"ffn_(?:gate|up|down|gate_up|up_gate)(?:_exps\.|\.\d+\.)")
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
    (_EXPERTS, Part.EXPERTS),
    (_NORM, Part.REST),
    (_SHARED, Part.SHARED),
    (_ROUTER, Part.ROUTER),
    (_LATENT, Part.LATENT),
    (_ATTENTION, Part.ATTENTION),
    (_DENSE, Part.DENSE),
)


def block_of(name: str) -> tuple[int, str] | None:
    """Return (layer, the name behind it), or None for a tensor of no block."""
    match = _BLOCK.fullmatch(name)
    return None if match is None else (int(match[1]), match[2])


def part_of(name: str, n_layer: int) -> Part:
    """Return the part of a model of `n_layer` layers that a tensor belongs to."""
    block = block_of(name)
    if block is None:
        return Part.EMBEDDING if _EMBEDDING.match(name) else Part.REST
    layer, ending = block
    if layer >= n_layer or ending.startswith("nextn."):
        return Part.NEXT
    for pattern, part in _ENDINGS:
        if pattern.search(ending) if pattern is _NORM else pattern.match(ending):
            return part
    return Part.REST


def n_own_layers(metadata: Metadata) -> int:
    """Return the layers of the model itself, without its next-token blocks.

    Raises:
        ModelFileError: the file does not say how many blocks it has, or wrongly.
    """
    name = metadata.text("general.architecture")
    n_block = metadata.integer(f"{name}.block_count", high=1 << 20)
    n_next = metadata.integer(f"{name}.nextn_predict_layers", 0, high=n_block)
    return n_block - n_next
