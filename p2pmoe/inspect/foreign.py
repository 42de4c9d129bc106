"""A folder of an architecture that is not known here, told in GGUF's terms.

Its tensors come under their own names, as a hub has them. Names of publishers differ
less than their models do: experts are numbered behind `experts.`, what all tokens pass
through is called attention, a shared expert says so. What fits no rule keeps its name
and counts as the rest; so do towers for pictures and sound. Counts are as good as these
rules: for looking at a model, never for running it.

Weights packed into bytes (`weight_packed`, `_blocks`) are two to a byte; their scales,
zero points and shapes are bytes, and no parameters.
"""

import re
from collections.abc import Callable
from typing import Final

from p2pmoe.weights.gguf import Header, Tensor
from p2pmoe.weights.huggingface.config import Config, parse_config
from p2pmoe.weights.huggingface.translate.registry import text_part
from p2pmoe.weights.huggingface.weight_files import CONFIG_NAME, read_small
from p2pmoe.weights.metadata import MetadataValue
from p2pmoe.weights.model_header import ModelHeader

__all__ = ["in_gguf_terms", "is_foreign"]

_BLOCK: Final = re.compile(r"(?:^|\.)(?:layers|h|blocks)\.(\d{1,9})\.(.+)", re.ASCII)
_TOWER: Final = re.compile(r"vision|visual|image|audio|mm_projector|multi_modal")
_PACKED: Final = re.compile(r"(?:weight_packed|_blocks|qweight)$")
_NO_PARAMETERS: Final = re.compile(r"(?:_scales?|scale_inv|_zeros?|_shape|g_idx)$")
_WORDS: Final = {
    "w1": "gate",
    "w3": "up",
    "w2": "down",
    "gate_proj": "gate",
    "up_proj": "up",
    "down_proj": "down",
    "gate_up_proj": "gate_up",
}
_MATRIX: Final = "(gate_up_proj|gate_proj|up_proj|down_proj|w1|w2|w3)"
_ONE: Final = re.compile(rf"experts\.(\d{{1,9}})\.{_MATRIX}\.?(\w*)$", re.ASCII)
_STACKED: Final = re.compile(rf"(?<!shared_)experts\.{_MATRIX}[._]?(\w*)$")
_SHARED: Final = re.compile(rf"shared_experts?\.{_MATRIX}\.(\w+)$")
_LATENT: Final = re.compile(r"routed_expert_(down|up)_proj\.(\w+)$")
_ROUTER: Final = re.compile(r"(?:\.|^)(?:gate|router)(?:\.wg)?\.(\w+)$")
_NORM: Final = re.compile(r"norm\b|_norm|_res_proj")
_ATTENTION: Final = re.compile(r"attn|attention|mixer|linear_attn|ssm")
_DENSE: Final = re.compile(rf"{_MATRIX}\.(\w+)$")
# What a block's tensor is called here, and in GGUF; the first that fits.
_ENDINGS: Final[tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...]] = (
    (_ONE, lambda m: f"ffn_{_WORDS[m[2]]}.{int(m[1])}.{m[3] or 'weight'}"),
    (_STACKED, lambda m: f"ffn_{_WORDS[m[1]]}_exps.{m[2] or 'weight'}"),
    (_SHARED, lambda m: f"ffn_{_WORDS[m[1]]}_shexp.{m[2]}"),
    (_LATENT, lambda m: f"ffn_routed_{m[1]}.{m[2]}"),
    (_NORM, lambda m: f"norm.{m.string}"),
    (_ATTENTION, lambda m: f"attn_{m.string}"),
    (_ROUTER, lambda m: f"ffn_gate_inp.{m[1]}"),
    (_DENSE, lambda m: f"ffn_{_WORDS[m[1]]}.{m[2]}"),
)
_OUTSIDE: Final = (
    (
        re.compile(r"(?:^|\.)(?:embed_tokens|wte|word_embeddings)\.weight$"),
        "token_embd",
    ),
    (re.compile(r"(?:^|\.)(?:lm_head|embed_out)\.weight$"), "output"),
)

# What a key is called in config.json, the likeliest first -> in GGUF.
_KEYS: Final = {
    "context_length": ("max_position_embeddings", "model_max_length"),
    "expert_used_count": (
        "num_experts_per_tok",
        "num_experts_per_token",
        "moe_topk",
        "moe_top_k",
    ),
    "expert_count": ("num_experts", "n_routed_experts", "num_local_experts"),
}
_LAYERS: Final = ("num_hidden_layers", "n_layers", "num_layers")
_KIMI_K3: Final = "KimiK3For"


def is_foreign(header: ModelHeader) -> bool:
    """Say whether it is a folder whose tensors have their own names."""
    if header.folder is None:
        return False
    name = header.metadata.text("general.architecture")
    return f"{name}.block_count" not in header.metadata


def in_gguf_terms(header: ModelHeader) -> ModelHeader:
    """Return the same tensors under names that can be counted.

    Raises:
        ModelFileError: config.json does not say how many layers there are, or a size
            in it is absurd.
    """
    if header.folder is None:
        return header
    path = header.folder / CONFIG_NAME
    config = text_part(parse_config(path, read_small(header.folder, CONFIG_NAME)))
    metadata = _metadata(header, config)
    n_expert = next(
        (config.integer(n) for n in _KEYS["expert_count"] if n in config), 1
    )
    tensors: dict[str, Tensor] = {}
    for name, tensor in header.tensors.items():
        renamed = _renamed(tensor, n_expert)
        # Two may get one name; both are counted.
        tensors[name if renamed.name in tensors else renamed.name] = renamed
    whole = Header(
        metadata=metadata,
        tensors=tensors,
        n_bytes=header.needed_bytes,
        fingerprint=header.fingerprint(),
    )
    return ModelHeader(header.path, whole, n_bytes=header.n_bytes, folder=header.folder)


def _metadata(header: ModelHeader, config: Config) -> dict[str, MetadataValue]:
    architecture = header.metadata.text("general.architecture")
    if architecture.startswith(_KIMI_K3):
        architecture = "kimi-k3"
    layers = next((key for key in _LAYERS if key in config), _LAYERS[0])
    found: dict[str, MetadataValue] = {
        "general.architecture": architecture,
        "general.name": header.metadata.text("general.name", ""),
        f"{architecture}.block_count": config.integer(layers),
    }
    for key, names in _KEYS.items():
        for name in names:
            if name in config:
                found.setdefault(f"{architecture}.{key}", config.integer(name))
    return found


def _renamed(tensor: Tensor, n_expert: int) -> Tensor:
    name, shape = _name(tensor.name), tensor.shape
    n_stacked = n_expert if "_exps." in name else 1
    if _PACKED.search(tensor.name):
        shape = (n_stacked, 2 * tensor.n_bytes // n_stacked)
    elif _NO_PARAMETERS.search(tensor.name):
        shape = (n_stacked, 0)
    return Tensor(
        name=name,
        format=tensor.format,
        shape=shape,
        offset=tensor.offset,
        n_bytes=tensor.n_bytes,
    )


def _name(name: str) -> str:
    if _TOWER.search(name):
        return name
    for pattern, own in _OUTSIDE:
        if pattern.search(name):
            return f"{own}.weight"
    block = _BLOCK.search(name)
    return name if block is None else f"blk.{block[1]}.{_ending(block[2])}"


def _ending(name: str) -> str:
    for pattern, own in _ENDINGS:
        if found := pattern.search(name):
            return own(found)
    return name
