"""How `--ram` is divided: every item named, counted honestly, or refused.

    base       everything but routed experts, in the file's own bytes
    kv         keys and values of all lanes at the full context
    working    activations and buffers of all lanes
    decoded    what the kernel may keep beside that: nothing (native), copies (wasm), or
               unpacked codes as f32, 4.125 bytes a weight (numpy)
    disk       shards read from disk and kept for a while
    hot        resident routed experts, in the file's own bytes

The first three are fixed. Of what is left, the disk cache gets a sixteenth, at most
64 MiB but never less than one expert; the base matrices as the kernel keeps them come
next (every token needs all of them) if they leave a fifth of it and the disk cache,
else the kernel unpacks as it goes within a sixteenth; the hot set gets the rest. The
items add up to `--ram` exactly. Without it all routed experts are resident. Pure.
"""

from dataclasses import dataclass

from mobile_worker.arithmetic.candidates import Keeps
from mobile_worker.arithmetic.numpy_kernel import DEFAULT_DECODED_BYTES
from mobile_worker.expert_id import ExpertId
from p2pmoe.errors import RamTooSmall
from p2pmoe.model.description import ModelDescription
from p2pmoe.weights.experts import distinct_ranges
from p2pmoe.weights.model_file import ModelFile
from p2pmoe.weights.names import block_of, expert_kind

__all__ = [
    "MemoryPlan",
    "ModelSizes",
    "measure_sizes",
    "plan_memory",
]

DECODED_PER_WEIGHT = 4.125
DECODED_SHARE = 0.8
_WORKING_ROWS = 64  # rows of a prefill chunk, each with several copies of itself
_WORKING_COPIES = 16
_MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSizes:
    """What a model takes, in bytes."""

    base: int
    base_decoded: int
    kv_per_token: int
    working: int  # one lane's
    experts: dict[ExpertId, int]  # shard sizes


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPlan:
    """The division of the budget, in bytes; `hot` None keeps all experts."""

    base: int
    kv: int
    working: int
    decoded: int
    disk: int
    hot: int | None

    def items(self) -> dict[str, int]:
        """Return the items by name, for logs and metrics."""
        return {
            "base": self.base,
            "kv": self.kv,
            "working": self.working,
            "decoded": self.decoded,
            "disk": self.disk,
            "hot": self.hot or 0,
        }


def measure_sizes(model_file: ModelFile, description: ModelDescription) -> ModelSizes:
    """Return the sizes that a model file's header tells."""
    experts: dict[ExpertId, int] = {}
    for layer in description.moe_layers:
        sizes = [ranges.n_bytes for ranges in distinct_ranges(model_file, layer)]
        for index in range(description.n_expert):
            experts[ExpertId(layer, index)] = sizes[index % len(sizes)]
    base = [
        tensor
        for name, tensor in model_file.tensors.items()
        if not _is_elsewhere(name, description.n_layer)
    ]
    n_weights = sum(
        tensor.n_bytes * tensor.n_cols // tensor.row_bytes
        for tensor in base
        if len(tensor.shape) == 2
    )
    return ModelSizes(
        base=sum(tensor.n_bytes for tensor in base),
        base_decoded=int(n_weights * DECODED_PER_WEIGHT),
        kv_per_token=description.kv_bytes_per_token,
        working=_WORKING_COPIES * _WORKING_ROWS * 4 * description.n_embd,
        experts=experts,
    )


def _is_elsewhere(name: str, n_layer: int) -> bool:
    """Whether a tensor is a routed expert's, or of a block that is no layer."""
    block = block_of(name)
    if block is None:
        return False
    layer, ending = block
    return layer >= n_layer or expert_kind(ending) is not None


def plan_memory(
    sizes: ModelSizes,
    *,
    ram_bytes: int | None,
    n_lanes: int,
    n_context: int,
    keeps: Keeps,
) -> MemoryPlan:
    """Divide `ram_bytes`, or say why it does not suffice.

    `keeps` is what the kernel keeps beside the file's own bytes.

    Raises:
        RamTooSmall: not even one expert fits beside what must be there.
    """
    kv = n_lanes * n_context * sizes.kv_per_token
    working = n_lanes * sizes.working
    largest = max(sizes.experts.values(), default=0)
    if ram_bytes is None:
        return MemoryPlan(
            base=sizes.base,
            kv=kv,
            working=working,
            decoded=0 if keeps is Keeps.NOTHING else DEFAULT_DECODED_BYTES,
            disk=largest,
            hot=None,
        )
    left = ram_bytes - sizes.base - kv - working
    if left < 4 * largest:
        needed = sizes.base + kv + working + 4 * largest
        raise RamTooSmall(
            f"--ram of {ram_bytes / _MIB:.1f} MiB is below the {needed / _MIB:.1f} MiB "
            f"that this model needs (weights {sizes.base / _MIB:.1f}, "
            f"{n_lanes} x {n_context} tokens of KV cache {kv / _MIB:.1f}, "
            f"work space and 4 experts {(working + 4 * largest) / _MIB:.1f})",
            advice=f"give --ram {-(-needed // _MIB)}M or more, or lower --context",
        )
    disk = max(largest, min(left // 16, 64 * _MIB))
    wish = _base_kept(sizes, keeps)
    fits = wish <= min(left * DECODED_SHARE, left - disk)
    decoded = wish if fits else left // 16
    return MemoryPlan(
        base=sizes.base,
        kv=kv,
        working=working,
        decoded=decoded,
        disk=disk,
        hot=left - decoded - disk,
    )


def _base_kept(sizes: ModelSizes, keeps: Keeps) -> int:
    """Return the bytes of the base matrices as the kernel would keep them."""
    kept = {Keeps.COPIES: sizes.base, Keeps.UNPACKED: sizes.base_decoded}
    return kept.get(keeps, 0)
