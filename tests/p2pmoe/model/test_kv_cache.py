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


def filled(length: int, capacity: int = 8, limit: int = 20) -> KvCache:
    """Return a cache whose positions hold numbers of their own."""
    layers = (empty_layer(capacity, 2, 16, 16), empty_layer(capacity, 2, 16, 24, 8))
    own = KvCache(capacity, layers, limit)
    for at in range(length):
        for layer in layers:
            layer.keys[:, :, at] = layer.values[at, 0, 0] = at + 1
            if layer.index_keys is not None:
                layer.index_keys[:, :, at] = at + 1
    own.advance(length)
    return own


def positions(own: KvCache, length: int) -> bytes:
    parts = []
    for layer in own.layers:
        parts += [layer.keys[:, :, :length], layer.values[:length]]
        if layer.index_keys is not None:
            parts.append(layer.index_keys[:, :, :length])
    return b"".join(part.tobytes() for part in parts)


def test_growing_keeps_what_is_there_up_to_the_limit() -> None:
    own = filled(6)
    before, n_bytes = positions(own, 6), own.n_bytes
    own.grow(7)  # there is more already
    assert (own.capacity, own.n_bytes) == (8, n_bytes)
    own.grow(16)
    assert (own.capacity, own.length, own.n_bytes) == (16, 6, 2 * n_bytes)
    assert positions(own, 6) == before
    own.advance(10)
    with pytest.raises(CacheFull, match="at most 20 positions cannot have 21"):
        own.grow(21)
    with pytest.raises(CacheFull):
        cache().grow(9)


def test_a_copied_prefix_is_its_own() -> None:
    own = filled(6)
    copy = own.copy_prefix(4, 12)
    assert (copy.length, copy.capacity, copy.limit) == (4, 12, 20)
    assert positions(copy, 4) == positions(own, 4)
    for layer in copy.layers:
        layer.keys[:] = -1
    assert positions(own, 6) == positions(filled(6), 6)
    for length, capacity in ((7, 12), (-1, 12), (5, 4)):
        with pytest.raises(ValueError, match="cannot copy"):
            own.copy_prefix(length, capacity)
    with pytest.raises(CacheFull):
        own.copy_prefix(2, 21)


def test_a_view_has_its_own_length_over_the_same_memory() -> None:
    own = cache()
    own.advance(3)
    view = own.view(5)
    view.advance(2)
    assert (own.length, view.length) == (3, 7)
    view.layers[0].keys[:] = 7
    assert (own.layers[0].keys == 7).all()
    with pytest.raises(CacheFull):
        view.advance(2)
    for wrong in (-1, 9):
        with pytest.raises(ValueError, match="positions"):
            own.view(wrong)


def test_a_position_is_put_back_as_it_was() -> None:
    own = filled(6)
    before = positions(own, 6)
    kept = own.copy_position(4, 1)
    for layer in own.layers:
        for array, place in layer.at(4):
            array[place] = -1
    assert positions(own, 6) != before
    own.put_position(4, kept)
    assert (own.layers[0].keys[:, :, 4] != -1).all()
    assert (own.layers[1].keys[:, :, 4] == -1).all()  # it was not among the first
    own = filled(6)
    kept = own.copy_position(4, 2)
    for layer in own.layers:
        for array, place in layer.at(4):
            array[place] = -1
    own.put_position(4, kept)
    assert positions(own, 6) == before
