import pytest

from p2pmoe.model.errors import CacheFull
from p2pmoe.model.kv_cache import KvCache, empty_layer


def cache(capacity: int = 8) -> KvCache:
    layers = (empty_layer(capacity, 2, 16, 16), empty_layer(capacity, 2, 16, 24, 8))
    return KvCache(capacity, layers)


def test_memory_is_all_taken_at_the_start() -> None:
    heads = 8 * 2 * 4  # bytes of one value of each head over all positions
    assert cache().n_bytes == heads * (16 + 16) + heads * (16 + 24) + 8 * 8 * 4
    assert cache().layers[1].values.shape == (8, 2, 24)


def test_length_counts_what_was_advanced() -> None:
    own = cache()
    assert own.reserve(5) == 0
    assert own.length == 0
    own.advance(5)
    assert own.reserve(3) == 5
    with pytest.raises(CacheFull, match="5 \\+ 4 tokens"):
        own.reserve(4)
    with pytest.raises(CacheFull):
        own.advance(4)


def test_truncate_forgets_exactly() -> None:
    own = cache()
    own.advance(6)
    own.truncate(2)
    assert own.length == 2
    own.truncate(2)
    for wrong in (3, -1):
        with pytest.raises(ValueError, match="truncate"):
            own.truncate(wrong)
