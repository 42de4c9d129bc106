"""Exactly the hotter half of each layer's experts at hand: a placement by hand.

A backbone keeps the experts that its record of use says are hot, within its budget. So
the record is written for it: in each layer the experts by rank, as measured over a
text that the model writes itself, the same figures in every layer; with a budget for
half of the experts these are then the hotter half of each. The network's market gives
the others to the workers, since nobody else has them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from mobile_worker.arithmetic.candidates import kernel_candidates
from mobile_worker.arithmetic.select import choose_kernel
from p2pmoe.backbone.budget import (
    MemoryWish,
    ModelSizes,
    measure_sizes,
    plan_memory,
)
from p2pmoe.backbone.local_side import LocalOptions, LocalSide
from p2pmoe.backbone.use import save_use
from p2pmoe.config import Tuning
from p2pmoe.errors import RamTooSmall
from p2pmoe.model.model import describe_model
from p2pmoe.model.sampler import SamplingSettings
from p2pmoe.weights.model_file import ModelFile, open_model
from tests.support.lanes import a_request, decode_alone

__all__ = ["Halves", "halves_of", "ranked", "write_use"]

_SHARE = 2  # one in so many is at hand
_MEASURED = 256  # tokens of each text
_UNAIMED = 16  # one part of so many of the memory for experts is not chosen beforehand
_STEP_BYTES = 1 << 16
_MOST_BYTES = 1 << 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Halves:
    """A model's placement: `use` f64 [n_layer, n_expert], highest is hottest.

    With `ram_bytes` a backbone of `n_lanes` has room for the hotter half, and for less
    than a tenth more; with `ram_beside_buffer_bytes` also for a buffer of
    `buffer_bytes`, which holds what a pass can need but not all that is away.
    `total_bytes` is what all experts take.
    """

    model: Path
    use: np.ndarray
    ram_bytes: int
    ram_beside_buffer_bytes: int
    buffer_bytes: int
    total_bytes: int
    n_at_hand: int


def ranked(use: np.ndarray) -> np.ndarray:
    """Return use by rank in each layer: n for the most used, 1 for the least, or 0.

    Layers without any use, which have no experts, stay 0. Of equals the lower id is
    hotter.
    """
    order = np.argsort(-use, axis=1, kind="stable")
    ranks = np.empty(use.shape)
    n_expert = use.shape[1]
    rows = np.arange(len(use))[:, None]
    ranks[rows, order] = np.arange(n_expert, 0, -1, dtype=np.float64)
    return ranks * (use.sum(axis=1, keepdims=True) > 0)


def halves_of(
    path: Path, prompts: Sequence[Sequence[int]], *, n_lanes: int, batch: int
) -> Halves:
    """Measure use while each prompt is continued, and find the budget."""
    file = open_model(path)
    use = ranked(_measured(file, prompts))
    description = describe_model(file)
    sizes = measure_sizes(file, description)
    at_hand = description.n_expert // _SHARE
    hot = sum(
        sizes.experts[expert]
        for expert in sizes.experts
        if use[expert.layer, expert.index] > description.n_expert - at_hand
    )
    wish = MemoryWish(
        ram_bytes=None,
        keeps=choose_kernel(kernel_candidates(1)).keeps,
        n_context=description.n_context,
        n_lanes=n_lanes,
        n_chunks=Tuning().prefill_chunks,
        n_sequences=n_lanes * batch,
    )
    total = sum(sizes.experts.values())
    # Room for everything would make a backbone keep everything.
    buffer = (total - hot) * 7 // 8
    beside = replace(wish, prefetches=True, ahead_bytes=buffer)
    return Halves(
        model=path,
        use=use,
        ram_bytes=_budget(sizes, wish, hot),
        ram_beside_buffer_bytes=_budget(sizes, beside, hot),
        buffer_bytes=buffer,
        total_bytes=total,
        n_at_hand=at_hand * len(description.moe_layers),
    )


def write_use(halves: Halves, folder: Path) -> None:
    """Leave the record of use in a backbone's folder of data."""
    folder.mkdir(parents=True, exist_ok=True)
    name = open_model(halves.model).fingerprint().hex()[:16]
    save_use(folder / f"use-{name}.bin", halves.use)


def _measured(file: ModelFile, prompts: Sequence[Sequence[int]]) -> np.ndarray:
    with TemporaryDirectory() as folder:
        side = LocalSide(file, LocalOptions(data=Path(folder)))
        for seed, prompt in enumerate(prompts):
            sampling = SamplingSettings(temperature=1.0, seed=1000 + seed)
            decode_alone(side, a_request(prompt, _MEASURED, sampling=sampling))
        use = side.use.decayed()
        side.close()
    return use


def _budget(sizes: ModelSizes, wish: MemoryWish, hot: int) -> int:
    """Return the least `--ram` whose chosen part of the hot set holds `hot` bytes."""
    low, high = 0, _MOST_BYTES
    while high - low > _STEP_BYTES:
        middle = (low + high) // 2
        if _chosen(sizes, wish, middle) >= hot:
            high = middle
        else:
            low = middle
    return high


def _chosen(sizes: ModelSizes, wish: MemoryWish, ram_bytes: int) -> int:
    try:
        room = plan_memory(sizes, replace(wish, ram_bytes=ram_bytes)).hot or 0
    except RamTooSmall:
        return 0
    return room - room // _UNAIMED
