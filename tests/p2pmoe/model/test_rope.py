import json
from pathlib import Path

import numpy as np
import pytest

from p2pmoe.model.rope import Rope, turn
from p2pmoe.model.rope_settings import RopeSettings, YarnRamp

VECTORS = Path(__file__).parents[2] / "vectors" / "rope.json"
CASES = {case["name"]: case for case in json.loads(VECTORS.read_text())}


def plain(n_rotated: int, base: float = 1e4) -> Rope:
    settings = RopeSettings(n_rotated=n_rotated, base=base, interleaved=False)
    return Rope(settings)


def turned(rope: Rope, heads: np.ndarray, first: int) -> np.ndarray:
    result = heads.copy()
    turn(result, *rope.tables(first, len(heads)), interleaved=False)
    return result


def test_pairs_are_halves_and_the_rest_passes() -> None:
    given = np.array([[[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]]], np.float32)
    heads = turned(plain(4, 100.0), given, 7)
    angles = [7.0, 7.0 / 10.0]  # 100^(-2/4) = 1/10
    for i, angle in enumerate(angles):
        left, right = 1.0 + i, 3.0 + i
        cos, sin = np.cos(angle), np.sin(angle)
        assert np.isclose(heads[0, 0, i], left * cos - right * sin, atol=1e-6)
        assert np.isclose(heads[0, 0, i + 2], right * cos + left * sin, atol=1e-6)
    assert heads[0, 0, 4:].tolist() == [5.0, 6.0]


def test_position_zero_turns_nothing() -> None:
    heads = np.arange(8, dtype=np.float32).reshape(1, 1, 8)
    assert turned(plain(8), heads, 0).ravel().tolist() == list(range(8))


def test_rows_count_on_from_the_first_position() -> None:
    rope = plain(8)
    rng = np.random.default_rng(1)
    heads = rng.standard_normal((6, 2, 8)).astype(np.float32)
    together = turned(rope, heads, 5)
    for i in range(6):
        alone = turned(rope, heads[i : i + 1], 5 + i)
        assert np.array_equal(together[i], alone[0])


def test_tables_grow_and_say_the_same() -> None:
    grown, fresh = plain(8), plain(8)
    heads = np.ones((3, 1, 8), np.float32)
    turned(grown, heads, 1023)
    assert np.array_equal(turned(grown, heads, 5000), turned(fresh, heads, 5000))


@pytest.mark.parametrize(
    ("name", "scaling"),
    [
        ("linear", {"base": 1e4, "factor": 4.0}),
        (
            "gpt-oss, not truncated",
            {
                "base": 15e4,
                "factor": 32.0,
                "ramp": YarnRamp(n_original=4096, truncate=False),
                "magnitude": 1.0 + 0.1 * np.log(32.0),
            },
        ),
        (
            "deepseek v3, mscale 1 both",
            {"base": 1e4, "factor": 40.0, "ramp": YarnRamp(n_original=4096)},
        ),
        (
            "long rope",
            {
                "base": 1e4,
                "divisors": tuple(CASES["long rope"]["factors"]["long"]),
                "magnitude": CASES["long rope"]["magnitude"],
            },
        ),
    ],
)
def test_tables_are_the_publishers_beyond_the_original_length(
    name: str, scaling: dict[str, object]
) -> None:
    """Frequencies there are f32: half an ulp of one is an angle at a far position."""
    case = CASES[name]
    rope = Rope(RopeSettings(n_rotated=32, interleaved=True, **scaling))
    for position, *told in zip(
        case["positions"], case["cosines"], case["sines"], strict=True
    ):
        blur = position * np.array(case["frequencies"]) * 3e-7 + 1e-6
        for own, expected in zip(rope.tables(position, 1), told, strict=True):
            assert (np.abs(own[0] - expected) <= blur).all()


def test_neighbours_are_turned_as_halves_are() -> None:
    heads = np.arange(8, dtype=np.float32).reshape(1, 1, 8)
    rope = plain(8)
    tables = rope.tables(3, 1)
    halves = heads[:, :, [0, 2, 4, 6, 1, 3, 5, 7]].copy()
    turn(halves, *tables, interleaved=False)
    turn(heads, *tables, interleaved=True)
    assert np.array_equal(halves[:, :, :4], heads[:, :, 0::2])
    assert np.array_equal(halves[:, :, 4:], heads[:, :, 1::2])


def test_interleaved_pairs_are_neighbours_turned_alike() -> None:
    """The same numbers as in halves, in the other order; the rest passes."""
    rng = np.random.default_rng(2)
    halves = rng.standard_normal((4, 3, 11)).astype(np.float32)
    order = [0, 4, 1, 5, 2, 6, 3, 7, 8, 9, 10]  # halves of four become neighbours
    neighbours = np.ascontiguousarray(halves[:, :, order])
    tables = rng.standard_normal((2, 4, 4)).astype(np.float32)
    turn(halves, *tables, interleaved=False)
    turn(neighbours, *tables, interleaved=True)
    assert np.array_equal(neighbours, halves[:, :, order])
