"""What a model is, in numbers: read from its file, used by everyone around it."""

from dataclasses import dataclass

from mobile_worker.arithmetic.activation import Activation

__all__ = ["ModelDescription"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDescription:
    """The sizes of a model; layers are counted from 0, dense ones included."""

    architecture: str  # the file's general.architecture
    n_layer: int
    n_embd: int
    n_vocab: int
    n_context: int  # positions the model was made for
    n_expert: int  # routed experts a layer
    top_k: int  # experts a token uses in a layer
    n_ff_expert: int
    moe_layers: tuple[int, ...]  # ascending
    activation: Activation  # of routed and shared experts and of dense layers
    kv_bytes_per_token: int  # of a KV cache, over all layers
