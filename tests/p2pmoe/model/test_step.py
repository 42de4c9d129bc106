import numpy as np
import pytest

from p2pmoe.model.errors import CacheFull, TokenRefused
from p2pmoe.model.kv_cache import KvCache, empty_layer
from p2pmoe.model.rope import Rope
from p2pmoe.model.rope_settings import RopeSettings
from p2pmoe.model.step import Run, SequencePart, StepRows


def cache(length: int, capacity: int = 16) -> KvCache:
    own = KvCache(capacity, (empty_layer(capacity, 1, 8, 8),))
    own.advance(length)
    return own


def part(n: int, length: int, capacity: int = 16) -> SequencePart:
    return SequencePart([1] * n, cache(length, capacity))


def test_rows_follow_in_the_order_of_the_parts() -> None:
    rows = StepRows.of([part(1, 9), part(4, 0), part(2, 3)])
    assert rows.runs == (Run(0, 1, 9), Run(1, 5, 0), Run(5, 7, 3))
    assert [run.n_seen for run in rows.runs] == [10, 4, 5]
    assert rows.n == 7
    assert rows.positions.tolist() == [9, 0, 1, 2, 3, 3, 4]


def test_tables_are_each_rows_own_and_made_once() -> None:
    rope = Rope(RopeSettings(n_rotated=4, base=100.0, interleaved=False))
    rows = StepRows([Run(0, 1, 1500), Run(1, 3, 2)])
    cosines, sines = rows.tables(rope)
    for row, position in enumerate((1500, 2, 3)):
        one = rope.tables(position, 1)
        assert np.array_equal(cosines[row], one[0][0])
        assert np.array_equal(sines[row], one[1][0])
    assert rows.tables(rope)[0] is cosines
    alone = StepRows.one(7, 3).tables(rope)[0]
    assert np.array_equal(alone, rope.tables(7, 3)[0])


def test_parts_that_cannot_run_together_are_refused() -> None:
    with pytest.raises(TokenRefused, match="no sequences"):
        StepRows.of([])
    with pytest.raises(TokenRefused, match="no tokens"):
        StepRows.of([part(1, 0), part(0, 0)])
    with pytest.raises(CacheFull, match="14 \\+ 3 tokens"):
        StepRows.of([part(1, 0), part(3, 14)])
    own = part(1, 0)
    with pytest.raises(ValueError, match="twice"):
        StepRows.of([own, SequencePart([2], own.cache)])
