import numpy as np

from p2pmoe.model.rope import Rope, turn


def turned(rope: Rope, heads: np.ndarray, first: int) -> np.ndarray:
    result = heads.copy()
    turn(result, *rope.tables(first, len(heads)), interleaved=False)
    return result


def test_pairs_are_halves_and_the_rest_passes() -> None:
    given = np.array([[[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]]], np.float32)
    heads = turned(Rope(4, 100.0), given, 7)
    angles = [7.0, 7.0 / 10.0]  # 100^(-2/4) = 1/10
    for i, angle in enumerate(angles):
        left, right = 1.0 + i, 3.0 + i
        cos, sin = np.cos(angle), np.sin(angle)
        assert np.isclose(heads[0, 0, i], left * cos - right * sin, atol=1e-6)
        assert np.isclose(heads[0, 0, i + 2], right * cos + left * sin, atol=1e-6)
    assert heads[0, 0, 4:].tolist() == [5.0, 6.0]


def test_position_zero_turns_nothing() -> None:
    heads = np.arange(8, dtype=np.float32).reshape(1, 1, 8)
    assert turned(Rope(8, 1e4), heads, 0).ravel().tolist() == list(range(8))


def test_rows_count_on_from_the_first_position() -> None:
    rope = Rope(8, 1e4)
    rng = np.random.default_rng(1)
    heads = rng.standard_normal((6, 2, 8)).astype(np.float32)
    together = turned(rope, heads, 5)
    for i in range(6):
        alone = turned(rope, heads[i : i + 1], 5 + i)
        assert np.array_equal(together[i], alone[0])


def test_tables_grow_and_say_the_same() -> None:
    grown, fresh = Rope(8, 1e4), Rope(8, 1e4)
    heads = np.ones((3, 1, 8), np.float32)
    turned(grown, heads, 1023)
    assert np.array_equal(turned(grown, heads, 5000), turned(fresh, heads, 5000))
