from concurrent.futures import ThreadPoolExecutor
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mobile_worker.arithmetic.native.rows import NativeRows, row_sets
from p2pmoe.model.attention import AttentionRule
from p2pmoe.model.row_operations import NUMPY_OPERATIONS
from tests.support.row_cases import CASES, attention_case, choice_case, values

NATIVE = [NativeRows(name) for name in row_sets()]
EVERY = [NUMPY_OPERATIONS, *NATIVE]
RULE = AttentionRule(scale=0.125)
SEEDS = st.integers(0, 2**32 - 1)


def name_of(own) -> str:
    return own.name if hasattr(own, "name") else own.__name__


def check(own, case, seed: int) -> None:
    with np.errstate(all="ignore"):
        expected = case(NUMPY_OPERATIONS, np.random.default_rng(seed))
        assert case(own, np.random.default_rng(seed)) == expected


@pytest.mark.parametrize("case", CASES, ids=name_of)
@pytest.mark.parametrize("own", NATIVE, ids=name_of)
@given(seed=SEEDS)
@settings(max_examples=50, deadline=None)
def test_native_gives_numpys_bytes(own, case, seed: int) -> None:
    check(own, case, seed)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=name_of)
@pytest.mark.parametrize("own", NATIVE, ids=name_of)
@given(seed=SEEDS)
@settings(max_examples=1500, deadline=None)
def test_native_gives_numpys_bytes_ten_thousand_times(own, case, seed: int) -> None:
    check(own, case, seed)


@pytest.mark.parametrize("own", EVERY, ids=name_of)
@given(seed=SEEDS)
@settings(max_examples=30, deadline=None)
def test_attention_of_a_row_alone_is_its_attention_in_a_batch(own, seed: int) -> None:
    """Whatever window, soft cap, sinks and mask there are."""
    queries, keys, kept, first, rule, seen = attention_case(np.random.default_rng(seed))
    together = own.attend(queries, keys, kept, first, rule, seen)
    for i in range(len(queries)):
        at = first + i
        mask = None if seen is None else seen[i : i + 1, :, : at + 1]
        alone = own.attend(queries[i : i + 1], keys, kept, at, rule, mask)
        assert alone.tobytes() == together[i].tobytes()


@pytest.mark.parametrize("own", EVERY, ids=name_of)
def test_other_rows_alone_and_in_a_batch(own) -> None:
    rng = np.random.default_rng(1)
    x, weight = values(rng, 9, 64), values(rng, 30, 64)
    norm = own.rms_norm(x, weight[0], np.float32(1e-6))
    product = own.lane_product(weight)
    logits = product(x)
    outputs, weights = values(rng, 9, 4, 64), values(rng, 9, 4)
    total = own.weighted_sum(outputs, weights)
    for i in range(9):
        part = slice(i, i + 1)
        alone = own.rms_norm(x[part], weight[0], np.float32(1e-6))
        assert alone.tobytes() == norm[i].tobytes()
        assert product(x[part]).tobytes() == logits[i].tobytes()
        own_sum = own.weighted_sum(outputs[part], weights[part])
        assert own_sum.tobytes() == total[i].tobytes()


@pytest.mark.parametrize("n_threads", [1, 2, 4])
@pytest.mark.parametrize("own", NATIVE, ids=name_of)
def test_threads_change_nothing(own, n_threads: int) -> None:
    rng = np.random.default_rng(2)
    n, capacity = 64, 700
    queries, keys = values(rng, n, 2, 3, 64), values(rng, 2, 64, capacity)
    kept = values(rng, capacity, 2, 64)
    together = own.attend(queries, keys, kept, 600, RULE, None)

    def attend_row(i: int) -> bytes:
        return own.attend(queries[i : i + 1], keys, kept, 600 + i, RULE, None).tobytes()

    with ThreadPoolExecutor(n_threads) as pool:
        assert b"".join(pool.map(attend_row, range(n))) == together.tobytes()


@pytest.mark.parametrize("n_threads", [2, 4])
@pytest.mark.parametrize("own", NATIVE, ids=name_of)
@pytest.mark.parametrize(("n", "first"), [(1, 3000), (2, 2500), (3, 3000), (40, 700)])
def test_spread_over_threads_attention_is_the_same(
    own, n_threads: int, n: int, first: int
) -> None:
    rng = np.random.default_rng(5)
    queries, keys = values(rng, n, 4, 5, 128), values(rng, 4, 128, first + n)
    kept = values(rng, first + n, 4, 64)
    seen = rng.random((n, 4, first + n)) < 0.5
    seen[np.arange(n), :, first + np.arange(n)] = True
    spread = NativeRows(own.name.removeprefix("native/"), n_threads=n_threads)
    other = AttentionRule(scale=0.1, window=600, soft_cap=30.0, sinks=values(rng, 4, 5))
    for rule, mask in product((RULE, other), (None, seen)):
        expected = own.attend(queries, keys, kept, first, rule, mask)
        found = spread.attend(queries, keys, kept, first, rule, mask)
        assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("own", NATIVE, ids=name_of)
def test_one_kv_head_of_many_queries_is_spread_over_threads(own) -> None:
    """As in DeepSeek's latent attention; numpy's bytes, whatever the cut."""
    rng = np.random.default_rng(6)
    queries, keys = values(rng, 1, 1, 21, 576), values(rng, 1, 576, 400)
    kept = values(rng, 400, 1, 512)
    expected = NUMPY_OPERATIONS.attend(queries, keys, kept, 399, RULE, None)
    for n_threads in (1, 2, 4):
        spread = NativeRows(own.name.removeprefix("native/"), n_threads=n_threads)
        found = spread.attend(queries, keys, kept, 399, RULE, None)
        assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("own", EVERY, ids=name_of)
def test_rows_taken_in_portions_are_the_same(own) -> None:
    """Long enough that the scores of all rows exceed what is held at once."""
    rng = np.random.default_rng(3)
    n, first = 40, 1500
    queries, keys = values(rng, n, 1, 8, 16), values(rng, 1, 16, first + n)
    kept = values(rng, first + n, 1, 16)
    for rule in (RULE, AttentionRule(scale=0.125, window=1000)):
        together = own.attend(queries, keys, kept, first, rule, None)
        parts = [
            own.attend(queries[i : i + 7], keys, kept, first + i, rule, None)
            for i in range(0, n, 7)
        ]
        assert np.concatenate(parts).tobytes() == together.tobytes()


@pytest.mark.parametrize("own", EVERY, ids=name_of)
@given(seed=SEEDS)
@settings(max_examples=30, deadline=None)
def test_experts_of_a_row_alone_are_its_experts_in_a_batch(own, seed: int) -> None:
    logits, bias, rule = choice_case(np.random.default_rng(seed))
    experts, weights = own.choose(logits, bias, rule)
    for i in range(len(logits)):
        alone = own.choose(logits[i : i + 1], bias, rule)
        assert alone[0][0].tolist() == experts[i].tolist()
        assert alone[1].tobytes() == weights[i].tobytes()


@pytest.mark.parametrize("own", NATIVE, ids=name_of)
def test_long_contexts_take_the_heads_of_a_row_in_portions(own) -> None:
    """More scores for one row than are held at once."""
    rng = np.random.default_rng(7)
    n = 300_000
    queries, keys = values(rng, 1, 1, 9, 8), values(rng, 1, 8, n)
    kept = values(rng, n, 1, 8)
    together = own.attend(queries, keys, kept, n - 1, RULE, None)
    for g in range(9):
        alone = own.attend(queries[:, :, g : g + 1], keys, kept, n - 1, RULE, None)
        assert alone.tobytes() == together[:, :, g].tobytes()


@pytest.mark.parametrize("own", EVERY, ids=name_of)
def test_slices_are_taken_as_they_are(own) -> None:
    rng = np.random.default_rng(4)
    wide = values(rng, 5, 6, 32)
    part = wide[:, 1:4]
    expected = own.rms_norm(part.copy(), wide[0, :3], np.float32(1e-6))
    found = own.rms_norm(part, wide[0, :3], np.float32(1e-6))
    assert found.tobytes() == expected.tobytes()
