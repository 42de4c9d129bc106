"""Parts of a layer that most architectures store alike, by GGUF's names.

Experts are stored one by one (`experts.E.gate_proj`, or Mixtral's w1, w2, w3) or as one
tensor a layer (`experts.gate_up_proj` [n_expert, 2 n_ff, n_embd], gate first); gate and
up of a dense or shared feed-forward apart or as one `gate_up_proj`. The view is the
same either way: stacked gate, up and down (fault B05).
"""

from p2pmoe.weights.huggingface.tensor_table import TensorTable
from p2pmoe.weights.huggingface.views import View, halves, stack

__all__ = [
    "add_attention",
    "add_experts",
    "add_feed_forward",
    "add_linear",
    "add_output",
    "set_aside_next_blocks",
]

_ATTENTION = {
    "attn_q": "q_proj",
    "attn_k": "k_proj",
    "attn_v": "v_proj",
    "attn_output": "o_proj",
}
_NORMS = {"attn_q_norm": "q_norm", "attn_k_norm": "k_norm"}
_WORDS = {"gate": "gate_proj", "up": "up_proj", "down": "down_proj"}
_MIXTRAL_WORDS = {"gate": "w1", "up": "w3", "down": "w2"}


def add_linear(table: TensorTable, target: str, name: str) -> None:
    """Copy a weight, and its bias where there is one; names without their endings."""
    table.copy(f"{target}.weight", f"{name}.weight")
    if table.has(f"{name}.bias"):
        table.copy(f"{target}.bias", f"{name}.bias")


def add_attention(table: TensorTable, layer: int) -> None:
    """Copy a layer's four projections and, where there are such, its QK norms."""
    stem = f"model.layers.{layer}.self_attn"
    for target, name in _ATTENTION.items():
        add_linear(table, f"blk.{layer}.{target}", f"{stem}.{name}")
    for target, name in _NORMS.items():
        if table.has(f"{stem}.{name}.weight"):
            table.copy(f"blk.{layer}.{target}.weight", f"{stem}.{name}.weight")


def add_feed_forward(
    table: TensorTable, layer: int, stem: str, *, suffix: str = ""
) -> None:
    """Copy a dense or shared (`suffix` "_shexp") feed-forward, fused or not."""
    targets = {word: f"blk.{layer}.ffn_{word}{suffix}.weight" for word in _WORDS}
    fused = f"{stem}.gate_up_proj.weight"
    if table.has(fused):
        gate, up = halves(table.view(fused, targets["gate"]))
        table.add(targets["gate"], gate)
        table.add(targets["up"], up)
    else:
        for word in ("gate", "up"):
            table.copy(targets[word], f"{stem}.{_WORDS[word]}.weight")
    table.copy(targets["down"], f"{stem}.{_WORDS['down']}.weight")


def add_experts(table: TensorTable, layer: int, stem: str, n_expert: int) -> None:
    """Stack a layer's experts; `stem` is their layer's name, without ".experts"."""
    targets = {word: f"blk.{layer}.ffn_{word}_exps.weight" for word in _WORDS}
    fused, down = f"{stem}.experts.gate_up_proj", f"{stem}.experts.down_proj"
    if table.has(fused):
        both = table.view(fused, targets["gate"])
        gate, up = halves(both)
        views = {"gate": gate, "up": up, "down": table.view(down, targets["down"])}
    else:
        is_mixtral = table.has(f"{stem}.experts.0.w1.weight")
        words = _MIXTRAL_WORDS if is_mixtral else _WORDS
        views = {
            word: _stacked(table, f"{stem}.experts", words[word], n_expert, target)
            for word, target in targets.items()
        }
    for word, target in targets.items():
        table.add(target, views[word])


def add_output(table: TensorTable, *, is_tied: bool) -> None:
    """Copy embedding, last norm and head; a tied head is the embedding itself."""
    table.copy("token_embd.weight", "model.embed_tokens.weight")
    table.copy("output_norm.weight", "model.norm.weight")
    if is_tied:
        table.set_aside(r"lm_head\.weight")
    else:
        table.copy("output.weight", "lm_head.weight")


def set_aside_next_blocks(table: TensorTable, n_layers: int, n_next: int) -> None:
    """Leave out the next-token blocks, which are layers behind the model's own."""
    for layer in range(n_layers, n_layers + n_next):
        table.set_aside(rf"model\.layers\.{layer}\..*")


def _stacked(
    table: TensorTable, stem: str, word: str, n_expert: int, target: str
) -> View:
    return stack(
        [
            table.view(f"{stem}.{expert}.{word}.weight", target)
            for expert in range(n_expert)
        ]
    )
