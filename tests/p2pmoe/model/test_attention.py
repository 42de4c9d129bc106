import numpy as np
import pytest

from p2pmoe.model import attention
from p2pmoe.model.attention import AttentionRule
from tests.support import arithmetic_oracle as oracle

RNG = np.random.default_rng(11)
N_KV, GROUP, DIM = 2, 2, 16
RULE = AttentionRule(scale=1.0 / DIM**0.5)


def plain_row(query, keys, values, positions):
    """One head of one row, as specification 02 writes it."""
    scale = oracle.f32(1.0 / DIM**0.5)
    scores = {
        t: oracle.f32(oracle.lane_dot(query, [k[t] for k in keys]) * scale)
        for t in positions
    }
    top = max(scores.values())
    n = max(positions) + 1
    weights = [0.0] * n
    for t, score in scores.items():
        weights[t] = oracle.exp(oracle.f32(score - top))
    total = oracle.lane_sum(weights)
    weights = [oracle.f32(w / total) for w in weights]
    result = [0.0] * DIM
    for t in positions:
        for d in range(DIM):
            result[d] = oracle.f32(result[d] + oracle.f32(weights[t] * values[t][d]))
    return result


def case(first: int, n: int):
    queries = RNG.standard_normal((n, N_KV, GROUP, DIM)).astype(np.float32)
    keys = RNG.standard_normal((N_KV, DIM, 40)).astype(np.float32)
    values = RNG.standard_normal((40, N_KV, DIM)).astype(np.float32)
    return queries, keys, values, first


@pytest.mark.parametrize(("first", "n"), [(0, 1), (0, 5), (12, 1), (13, 4)])
def test_equal_to_the_plain_loop(first: int, n: int) -> None:
    queries, keys, values, _ = case(first, n)
    result = attention.attend(queries, keys, values, first, RULE, None)
    for i in range(n):
        positions = list(range(first + i + 1))
        for kv in range(N_KV):
            for g in range(GROUP):
                expected = plain_row(
                    queries[i, kv, g].tolist(),
                    keys[kv].tolist(),
                    values[:, kv].tolist(),
                    positions,
                )
                assert result[i, kv, g].tolist() == expected


def test_each_kv_head_sees_its_own_positions() -> None:
    queries, keys, values, first = case(6, 2)
    seen = np.ones((2, N_KV, 8), np.bool_)
    seen[:, 0, 0:4] = False
    seen[1, 1, 2:6] = False
    result = attention.attend(queries, keys, values, first, RULE, seen)
    for i in range(2):
        for kv in range(N_KV):
            positions = [t for t in range(first + i + 1) if seen[i, kv, t]]
            expected = plain_row(
                queries[i, kv, 0].tolist(),
                keys[kv].tolist(),
                values[:, kv].tolist(),
                positions,
            )
            assert result[i, kv, 0].tolist() == expected


@pytest.mark.parametrize("terms", [1, 500, 5000])
def test_the_way_work_is_cut_changes_nothing(
    terms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    queries, keys, values, first = case(10, 20)
    whole = attention.attend(queries, keys, values, first, RULE, None)
    monkeypatch.setattr(attention, "_MAX_TERMS", terms)
    monkeypatch.setattr(attention, "_MIN_TILE", 7)
    assert np.array_equal(
        attention.attend(queries, keys, values, first, RULE, None), whole
    )
    for i in range(20):
        alone = attention.attend(
            queries[i : i + 1], keys, values, first + i, RULE, None
        )
        assert np.array_equal(alone[0], whole[i])


def test_weights_of_unseen_positions_are_exactly_zero() -> None:
    scores = np.zeros((1, 1, 1, 4), np.float32)
    mask = np.array([[[True, False, True, False]]])
    weights = attention.softmax(scores, mask)
    assert weights.ravel().tolist() == [0.5, 0.0, 0.5, 0.0]
    assert attention.softmax(np.ones((1, 1, 1, 2), "f4"), None).sum() == 1.0
