import numpy as np
import pytest

from p2pmoe.model import attention
from p2pmoe.model.attention import AttentionRule
from tests.support import arithmetic_oracle as oracle

RNG = np.random.default_rng(11)
N_KV, GROUP, DIM = 2, 2, 16
RULE = AttentionRule(scale=1.0 / DIM**0.5)


def plain_row(query, keys, values, positions, rule=RULE, sink=None):
    """One head of one row, as specification 02 and decision 17 write it.

    `positions` are those that its mask leaves; the last is its own.
    """
    low = 0 if rule.window is None else max(positions) - rule.window + 1
    scores = {}
    for t in (t for t in positions if t >= low):
        dot = oracle.lane_dot(query, [k[t] for k in keys])
        scores[t] = oracle.f32(dot * oracle.f32(rule.scale))
        if rule.soft_cap is not None:
            scores[t] = oracle.soft_cap(scores[t], rule.soft_cap)
    top = max(scores.values()) if sink is None else max(*scores.values(), sink)
    weights = [0.0] * (max(positions) + 1)
    for t, score in scores.items():
        weights[t] = oracle.exp(oracle.f32(score - top))
    total = oracle.lane_sum(weights)
    if sink is not None:
        total = oracle.f32(total + oracle.exp(oracle.f32(sink - top)))
    weights = [oracle.f32(w / total) for w in weights]
    result = [0.0] * len(values[0])
    for t in scores:
        for d, value in enumerate(values[t]):
            result[d] = oracle.f32(result[d] + oracle.f32(weights[t] * value))
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


SINKS = RNG.standard_normal((N_KV, GROUP)).astype(np.float32)


@pytest.mark.parametrize("mask", [False, True])
@pytest.mark.parametrize(("first", "n"), [(0, 5), (9, 1), (21, 4)])
@pytest.mark.parametrize(
    "rule",
    [
        AttentionRule(scale=0.3, window=1),
        AttentionRule(scale=0.3, window=7),
        AttentionRule(scale=0.3, window=100),
        AttentionRule(scale=0.3, soft_cap=1.5),
        AttentionRule(scale=0.3, sinks=SINKS),
        AttentionRule(scale=0.3, sinks=SINKS + 20),
        AttentionRule(scale=0.3, window=9, soft_cap=2.0, sinks=SINKS),
    ],
)
def test_each_rule_is_the_plain_loop(rule, first, n, mask) -> None:
    queries, keys, values, _ = case(first, n)
    values = values[:, :, :5]
    seen = np.ones((n, N_KV, first + n), np.bool_)
    seen[:, 1, 2:6:2] = not mask
    seen[np.arange(n), :, first + np.arange(n)] = True
    result = attention.attend(queries, keys, values, first, rule, seen)
    for i, kv, g in np.ndindex(n, N_KV, GROUP):
        expected = plain_row(
            queries[i, kv, g].tolist(),
            keys[kv].tolist(),
            values[:, kv].tolist(),
            [t for t in range(first + i + 1) if seen[i, kv, t]],
            rule,
            None if rule.sinks is None else float(rule.sinks[kv, g]),
        )
        assert result[i, kv, g].tolist() == expected


def test_a_large_sink_takes_nearly_all_weight() -> None:
    queries, keys, values, first = case(5, 1)
    sinks = np.array([[60.0, -60.0]] * N_KV, np.float32)
    rule = AttentionRule(scale=0.25, sinks=sinks)
    result = attention.attend(queries, keys, values, first, rule, None)
    plain = attention.attend(queries, keys, values, first, RULE, None)
    assert np.abs(result[0, :, 0]).max() < 1e-20
    assert np.array_equal(result[0, :, 1], plain[0, :, 1])


@pytest.mark.parametrize(
    "wrong",
    [
        {"scale": 0.0},
        {"scale": float("nan")},
        {"scale": 1e39},
        {"scale": 1.0, "window": 0},
        {"scale": 1.0, "soft_cap": -1.0},
        {"scale": 1.0, "soft_cap": float("inf")},
    ],
)
def test_a_rule_without_meaning_is_refused(wrong) -> None:
    with pytest.raises(ValueError, match=r"window of 0|no factor"):
        AttentionRule(**wrong)


@pytest.mark.parametrize("terms", [1, 500, 5000])
@pytest.mark.parametrize("window", [None, 3, 8, 13])
def test_the_way_work_is_cut_changes_nothing(
    terms: int, window: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    queries, keys, values, first = case(10, 20)
    rule = AttentionRule(scale=0.25, window=window)
    whole = attention.attend(queries, keys, values, first, rule, None)
    monkeypatch.setattr(attention, "_MAX_TERMS", terms)
    monkeypatch.setattr(attention, "_MIN_TILE", 7)
    cut = attention.attend(queries, keys, values, first, rule, None)
    assert np.array_equal(cut, whole)
    for i in range(20):
        row = queries[i : i + 1]
        alone = attention.attend(row, keys, values, first + i, rule, None)
        assert np.array_equal(alone[0], whole[i])


def test_weights_of_unseen_positions_are_exactly_zero() -> None:
    scores = np.zeros((1, 1, 1, 4), np.float32)
    mask = np.array([[[True, False, True, False]]])
    weights = attention.softmax(scores, mask)
    assert weights.ravel().tolist() == [0.5, 0.0, 0.5, 0.0]
    assert attention.softmax(np.ones((1, 1, 1, 2), "f4"), None).sum() == 1.0
