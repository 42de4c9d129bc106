import dataclasses

import numpy as np
import pytest

from mobile_worker.arithmetic.errors import NonFinite
from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from mobile_worker.arithmetic.self_test import fixed_matrix, fixed_rows
from p2pmoe.model.block_selection import BlockSelection
from p2pmoe.model.indexer import Indexer
from p2pmoe.model.kv_cache import LayerCache, empty_layer
from p2pmoe.model.linear import Linear
from p2pmoe.model.rope import Rope
from p2pmoe.model.rope_settings import RopeSettings
from p2pmoe.model.row_operations import NUMPY_OPERATIONS
from p2pmoe.model.step import Run, StepRows

N_HEADS, INDEX_DIM, N_EMBD = 2, 8, 32
KERNEL = NumpyKernel()
INDEXER = Indexer(
    query=Linear(KERNEL, fixed_matrix("q", Format.Q8_0, N_HEADS * INDEX_DIM, N_EMBD)),
    query_norm=np.ones(INDEX_DIM, np.float32),
    key=Linear(KERNEL, fixed_matrix("k", Format.Q8_0, INDEX_DIM, N_EMBD)),
    key_norm=np.ones(INDEX_DIM, np.float32),
    selection=BlockSelection(top_k=2, block_size=4, n_local=1),
    rope=Rope(RopeSettings(n_rotated=4, base=10000.0, interleaved=False)),
    eps=np.float32(1e-6),
    operations=NUMPY_OPERATIONS,
)
ROWS = fixed_rows("a", 16, N_EMBD)


def no_keys(capacity: int = 16) -> np.ndarray:
    return np.zeros((1, INDEX_DIM, capacity), np.float32)


def seen(
    rows: np.ndarray, keys: np.ndarray, first: int, indexer: Indexer = INDEXER
) -> np.ndarray | None:
    """Return the mask of one sequence's rows, which leave their keys in `keys`."""
    return indexer.masks(rows, [cache_of(keys)], StepRows.one(first, len(rows)))[0]


def cache_of(keys: np.ndarray | None) -> LayerCache:
    return dataclasses.replace(empty_layer(1, 1, 8, 8), index_keys=keys)


def test_up_to_the_border_all_is_seen_and_keys_are_kept() -> None:
    keys = no_keys()
    assert seen(ROWS[:8], keys, 0) is None
    assert np.all(np.any(keys[0, :, :8] != 0, axis=0))
    assert not keys[0, :, 8:].any()


def test_beyond_it_each_head_sees_top_k_blocks_with_the_rows_own() -> None:
    mask = seen(ROWS, no_keys(), 0)
    assert mask is not None
    assert mask.shape == (16, N_HEADS, 16)
    n_blocks = mask.reshape(16, N_HEADS, 4, 4).any(axis=3).sum(axis=2)
    assert (n_blocks[12:] == 2).all()
    assert mask[np.arange(16), :, np.arange(16)].all()


def test_rows_one_by_one_see_what_they_see_together() -> None:
    together, keys, apart = seen(ROWS, no_keys(), 0), no_keys(), no_keys()
    assert together is not None
    seen(ROWS, keys, 0)
    for at in range(16):
        mask = seen(ROWS[at : at + 1], apart, at)
        if mask is not None:
            assert np.array_equal(mask[0], together[at, :, : at + 1])
    assert apart.tobytes() == keys.tobytes()


def test_positions_turn_the_keys() -> None:
    here, there = no_keys(), no_keys()
    seen(ROWS[:1], here, 0)
    seen(ROWS[:1], there, 5)
    assert not np.array_equal(here[0, :, 0], there[0, :, 5])


def test_the_norm_weighs_the_keys() -> None:
    plain, doubled = no_keys(), no_keys()
    seen(ROWS[:4], plain, 0)
    twice = dataclasses.replace(INDEXER, key_norm=np.full(INDEX_DIM, 2, np.float32))
    seen(ROWS[:4], doubled, 0, twice)
    assert np.array_equal(doubled, 2 * plain)


def test_input_that_is_not_finite_is_refused() -> None:
    with pytest.raises(NonFinite):
        seen(np.full((1, N_EMBD), np.inf, np.float32), no_keys(), 0)


def test_runs_of_a_step_see_what_they_see_alone() -> None:
    """One run beyond the border, one before it, one whose cache has no index keys."""
    rows = StepRows([Run(0, 3, 9), Run(3, 7, 0), Run(7, 16, 0)])
    far, near = no_keys(), no_keys(4)
    far_alone, near_alone = no_keys(), no_keys(4)
    for keys in (far, far_alone):
        seen(ROWS[:9], keys, 0)
    caches = [cache_of(far), cache_of(near), cache_of(None)]
    masks = INDEXER.masks(ROWS, caches, rows)
    expected = seen(ROWS[:3], far_alone, 9)
    assert masks[0] is not None
    assert np.array_equal(masks[0], expected)
    assert masks[1:] == [None, None]
    assert seen(ROWS[3:7], near_alone, 0) is None
    assert far.tobytes() == far_alone.tobytes()
    assert near.tobytes() == near_alone.tobytes()
