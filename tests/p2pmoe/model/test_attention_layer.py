import dataclasses

import numpy as np
import pytest

from mobile_worker.arithmetic.coding import Floats
from mobile_worker.arithmetic.errors import NonFinite
from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from mobile_worker.arithmetic.self_test import fixed_matrix, fixed_rows
from p2pmoe.model.attention_layer import AttentionLayer
from p2pmoe.model.block_selection import BlockSelection
from p2pmoe.model.indexer import Indexer
from p2pmoe.model.linear import Linear
from p2pmoe.model.qk_norm import HeadNorm
from p2pmoe.model.rope import Rope
from p2pmoe.model.rope_settings import RopeSettings
from p2pmoe.model.row_operations import NUMPY_OPERATIONS
from p2pmoe.model.settings import HeadSettings
from p2pmoe.model.step import StepRows

N_HEADS, N_KV_HEADS, HEAD_DIM, N_EMBD = 4, 2, 8, 32
HEADS = HeadSettings(n_heads=N_HEADS, n_kv_heads=N_KV_HEADS, head_dim=HEAD_DIM)
KERNEL = NumpyKernel()
EPS = np.float32(1e-6)
ROPE = Rope(RopeSettings(n_rotated=4, base=10000.0, interleaved=False))


def linear(name: str, n_rows: int, n_cols: int = N_EMBD) -> Linear:
    return Linear(KERNEL, fixed_matrix(name, Format.Q8_0, n_rows, n_cols))


INDEXER = Indexer(
    query=linear("iq", N_KV_HEADS * 8),
    query_norm=np.ones(8, np.float32),
    key=linear("ik", 8),
    key_norm=np.ones(8, np.float32),
    selection=BlockSelection(top_k=1, block_size=4, n_local=1),
    rope=ROPE,
    eps=EPS,
    operations=NUMPY_OPERATIONS,
)
SPARSE = AttentionLayer(
    heads=HEADS,
    qkv=linear("qkv", (N_HEADS + 2 * N_KV_HEADS) * HEAD_DIM),
    output=linear("o", N_EMBD, N_HEADS * HEAD_DIM),
    rope=ROPE,
    rule=HEADS.rule,
    operations=NUMPY_OPERATIONS,
    qk_norm=HeadNorm(
        weight=np.ones((N_HEADS + N_KV_HEADS, HEAD_DIM), np.float32),
        eps=EPS,
        operations=NUMPY_OPERATIONS,
    ),
    indexer=INDEXER,
)
DENSE = dataclasses.replace(SPARSE, indexer=None)
ROWS = fixed_rows("a", 12, N_EMBD)


def run(layer: AttentionLayer, steps: list[int], capacity: int = 12) -> Floats:
    cache = layer.empty_cache(capacity, capacity)
    parts, first = [], 0
    for n in steps:
        parts.append(layer(ROWS[first : first + n], [cache], StepRows.one(first, n)))
        first += n
    return np.concatenate(parts)


def test_the_first_position_is_the_output_of_its_own_values() -> None:
    heads = linear("qkv", (N_HEADS + 2 * N_KV_HEADS) * HEAD_DIM)(ROWS[:1])
    values = heads.reshape(-1, HEAD_DIM)[N_HEADS + N_KV_HEADS :]
    mixed = np.repeat(values, N_HEADS // N_KV_HEADS, axis=0).reshape(1, -1)
    assert np.array_equal(run(DENSE, [1]), DENSE.output(mixed))


@pytest.mark.parametrize("layer", [DENSE, SPARSE], ids=["dense", "block-sparse"])
@pytest.mark.parametrize("steps", [[1] * 12, [5, 7], [11, 1]])
def test_any_chunking_gives_the_same_bytes(layer: AttentionLayer, steps) -> None:
    assert run(layer, steps).tobytes() == run(layer, [12]).tobytes()


def test_an_indexer_changes_only_what_lies_beyond_its_border() -> None:
    dense, sparse = run(DENSE, [12]), run(SPARSE, [12])
    assert np.array_equal(dense[:4], sparse[:4])
    assert not np.array_equal(dense[4:], sparse[4:])


RULE = HEADS.rule
VARIANTS = {
    "no norm": dataclasses.replace(DENSE, qk_norm=None),
    "clip": dataclasses.replace(DENSE, clip=0.25),
    "window": dataclasses.replace(DENSE, rule=dataclasses.replace(RULE, window=3)),
    "sinks": dataclasses.replace(
        DENSE,
        rule=dataclasses.replace(RULE, sinks=np.ones((2, 2), np.float32)),
    ),
    "neighbours": dataclasses.replace(
        DENSE, rope=Rope(RopeSettings(n_rotated=4, base=10000.0, interleaved=True))
    ),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_each_variant_counts_and_takes_any_chunking(name: str) -> None:
    layer = VARIANTS[name]
    whole = run(layer, [12])
    assert not np.array_equal(whole, run(DENSE, [12]))
    for steps in ([1] * 12, [5, 7], [11, 1]):
        assert run(layer, steps).tobytes() == whole.tobytes()


def test_a_clip_bounds_keys_before_they_turn_and_values() -> None:
    layer = VARIANTS["clip"]
    cache = layer.empty_cache(12, 12)
    layer(ROWS, [cache], StepRows.one(0, 12))
    assert np.abs(cache.values).max() == 0.25
    assert np.abs(cache.keys).max() <= 0.25 * 2**0.5


def test_a_window_leaves_the_first_rows_as_they_are() -> None:
    dense, window = run(DENSE, [12]), run(VARIANTS["window"], [12])
    assert np.array_equal(dense[:3], window[:3])


def test_a_short_cache_has_no_index_keys() -> None:
    assert SPARSE.empty_cache(4, 4).index_keys is None
    assert DENSE.empty_cache(12, 12).index_keys is None
    assert SPARSE.empty_cache(2, 5).index_keys is not None
    kept = SPARSE.empty_cache(5, 5)
    assert kept.index_keys is not None
    assert kept.index_keys.shape == (1, 8, 5)
    assert kept.keys.shape == (N_KV_HEADS, HEAD_DIM, 5)


def test_input_that_is_not_finite_is_refused() -> None:
    with pytest.raises(NonFinite):
        DENSE(
            np.full((1, N_EMBD), np.nan, np.float32),
            [DENSE.empty_cache(1, 1)],
            StepRows.one(0, 1),
        )
