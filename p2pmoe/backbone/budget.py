"""How `--ram` is divided: every item named, counted honestly, or refused.

    base       everything but routed experts, in the file's own bytes
    kv         a pool for the keys and values of all sequences
    working    activations, logits and buffers of all lanes, and the 8 MiB by which a
               process grows when it begins to serve. Chunks of prompts that wait for
               workers take the room of logits, which prompts have few of, and more if
               that is too little
    decoded    what the kernel may keep beside that: nothing (native), copies (wasm), or
               unpacked codes as f32, 4.125 bytes a weight (numpy)
    disk       experts on their way from the disk: read, and not computed or kept yet
    ahead      weights fetched from workers for the passes of all lanes (prefetch)
    hot        resident routed experts, in the file's own bytes

Base and working are fixed. The pool of keys and values gets a quarter of what is left
then, but never less than one sequence of the full context takes, nor more than all
sequences that may run at once. Of what is left after it, the disk's share is a
sixteenth, at most 64 MiB but never less than an expert for each lane and one more,
unless it is given (`--disk-cache`). The base matrices as the kernel keeps them come
next (every token needs all of them) if they leave a fifth of it and the disk's share,
else the kernel unpacks as it goes within a sixteenth. Of what is left then, unless all
experts fit, weights that are fetched ahead get an eighth, at most 256 MiB, or a quarter
as long as that is below 8 MiB; the hot set gets the rest. The items add up to `--ram`
exactly. Without it all routed experts are resident, and the pool is a quarter of the
weights' bytes, within the same bounds.

`--ram` is the memory for the model: what the process takes before it opens one (the
interpreter, its libraries, the vocabulary) comes on top, and is measured. Pure.
"""

from dataclasses import dataclass

from mobile_worker.arithmetic.candidates import Keeps
from mobile_worker.arithmetic.numpy_kernel import DEFAULT_DECODED_BYTES
from mobile_worker.expert_id import ExpertId
from p2pmoe.errors import RamTooSmall
from p2pmoe.model.description import ModelDescription
from p2pmoe.weights.base_pieces import is_base
from p2pmoe.weights.experts import distinct_ranges
from p2pmoe.weights.model_file import ModelFile

__all__ = [
    "SERVING_BYTES",
    "MemoryPlan",
    "MemoryWish",
    "ModelSizes",
    "measure_sizes",
    "plan_memory",
]

DECODED_PER_WEIGHT = 4.125
DECODED_SHARE = 0.8
SERVING_BYTES = 8 << 20
_AHEAD_BYTES = 256 << 20
_LEAST_AHEAD_BYTES = 8 << 20
_KV_SHARE = 4  # the pool gets this part of what is left
_WORKING_ROWS = 80  # of a prefill chunk and a batch beside it
_WORKING_COPIES = 16  # of a row, on its way through a layer
_WAITING_ROWS = 64  # of a prefill chunk that waits for workers
_WAITING_COPIES = 4  # of such a row, beside what experts gave for it
_MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSizes:
    """What a model takes, in bytes."""

    base: int
    base_decoded: int
    kv_per_token: int
    working: int  # one lane's
    waiting: int = 0  # a chunk's that waits for workers
    logits: int = 0  # of `working`: those of a chunk
    experts: dict[ExpertId, int]  # shard sizes


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryWish:
    """What memory is there for.

    `ram_bytes` None has room for all; `keeps` is what the kernel keeps beside the
    file's own bytes; `n_sequences` may run at once; a lane has up to `n_chunks` of its
    prompts under way; `disk_bytes` None as the rules say.
    """

    ram_bytes: int | None
    keeps: Keeps
    n_context: int
    n_lanes: int = 1
    n_chunks: int = 1
    n_sequences: int = 1
    disk_bytes: int | None = None
    prefetches: bool = False  # weights may be fetched from workers before a pass
    ahead_bytes: int | None = None  # for them; None: as the rules say


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPlan:
    """The division of the budget, in bytes; `hot` None keeps all experts."""

    base: int
    kv: int
    working: int
    decoded: int
    disk: int
    hot: int | None
    ahead: int = 0
    window: int  # of `disk`: what a lane may have on its way, and what is read ahead

    def items(self) -> dict[str, int]:
        """Return the items by name, for logs and metrics."""
        return {
            "base": self.base,
            "kv": self.kv,
            "working": self.working,
            "decoded": self.decoded,
            "disk": self.disk,
            "ahead": self.ahead,
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
        if is_base(name, description.n_layer)
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
        working=_WORKING_ROWS
        * 4
        * (_WORKING_COPIES * description.n_embd + description.n_vocab),
        waiting=_WAITING_ROWS
        * 4
        * (_WAITING_COPIES + description.top_k)
        * description.n_embd,
        logits=_WAITING_ROWS * 4 * description.n_vocab,
        experts=experts,
    )


def plan_memory(sizes: ModelSizes, wish: MemoryWish) -> MemoryPlan:
    """Divide `wish.ram_bytes`, or say why it does not suffice.

    Raises:
        RamTooSmall: not even one sequence and a few experts fit beside what must be
            there, or `wish.disk_bytes` leaves no room or holds no expert.
    """
    one = wish.n_context * sizes.kv_per_token
    waiting = max(0, (wish.n_chunks - 1) * sizes.waiting - sizes.logits)
    working = wish.n_lanes * (sizes.working + waiting) + SERVING_BYTES
    largest = max(sizes.experts.values(), default=0)
    ways = wish.n_lanes + 1  # of experts from the disk: each lane's, and those ahead
    if wish.ram_bytes is None:
        weights = sizes.base + sum(sizes.experts.values())
        return MemoryPlan(
            base=sizes.base,
            kv=_pool(weights, one, wish.n_sequences),
            working=working,
            decoded=0 if wish.keeps is Keeps.NOTHING else DEFAULT_DECODED_BYTES,
            disk=wish.disk_bytes or ways * largest,
            hot=None,
            ahead=_LEAST_AHEAD_BYTES if wish.prefetches else 0,
            window=max(largest, (wish.disk_bytes or 0) // ways),
        )
    left = wish.ram_bytes - sizes.base - working
    smallest = _least_for_experts(wish, largest)
    if left < one + smallest:
        raise _too_small(sizes, wish, sizes.base + working + one + smallest)
    kv = min(_pool(left, one, wish.n_sequences), left - smallest)
    left -= kv
    disk = wish.disk_bytes or max(ways * largest, min(left // 16, 64 * _MIB))
    wanted = _base_kept(sizes, wish.keeps)
    fits = wanted <= min(left * DECODED_SHARE, left - disk)
    decoded = wanted if fits else min(left // 16, left - disk)
    left -= decoded + disk
    is_short = left < sum(sizes.experts.values())
    ahead = _ahead(left, wish) if is_short else 0
    return MemoryPlan(
        base=sizes.base,
        kv=kv,
        working=working,
        decoded=decoded,
        disk=disk,
        hot=left - ahead,
        ahead=ahead,
        window=disk // ways,
    )


def _ahead(left: int, wish: MemoryWish) -> int:
    """Return the bytes for weights fetched ahead, of what is left for experts."""
    if not wish.prefetches:
        return 0
    wanted = max(left // 8, min(left // 4, _LEAST_AHEAD_BYTES))
    given = min(wanted, _AHEAD_BYTES) if wish.ahead_bytes is None else wish.ahead_bytes
    return min(given, left // 2)


def _pool(left: int, one: int, n_sequences: int) -> int:
    """Return the bytes for keys and values, of what is left; `one` sequence's are."""
    return max(one, min(left // _KV_SHARE, n_sequences * one))


def _least_for_experts(wish: MemoryWish, largest: int) -> int:
    """Return what routed experts must have at least; RamTooSmall."""
    least = (wish.n_lanes + 1) * largest
    if wish.disk_bytes is None:
        return least + 3 * largest
    if wish.disk_bytes < least:
        raise RamTooSmall(
            f"--disk-cache of {wish.disk_bytes / _MIB:.1f} MiB is below the "
            f"{least / _MIB:.1f} MiB of {wish.n_lanes + 1} experts, one for each lane "
            "and one that is read ahead",
            advice=f"give --disk-cache {-(-least // _MIB)}M or more",
        )
    return wish.disk_bytes + 3 * largest


def _too_small(sizes: ModelSizes, wish: MemoryWish, needed: int) -> RamTooSmall:
    """Say what a budget is short of."""
    kv = wish.n_context * sizes.kv_per_token
    rest = needed - sizes.base - kv
    return RamTooSmall(
        f"--ram of {(wish.ram_bytes or 0) / _MIB:.1f} MiB is below the "
        f"{needed / _MIB:.1f} MiB that this model needs (weights "
        f"{sizes.base / _MIB:.1f}, keys and values of {wish.n_context} tokens "
        f"{kv / _MIB:.1f}, work space and a few experts {rest / _MIB:.1f})",
        advice=f"give --ram {-(-needed // _MIB)}M or more, or lower --context",
    )


def _base_kept(sizes: ModelSizes, keeps: Keeps) -> int:
    """Return the bytes of the base matrices as the kernel would keep them."""
    kept = {Keeps.COPIES: sizes.base, Keeps.UNPACKED: sizes.base_decoded}
    return kept.get(keeps, 0)
