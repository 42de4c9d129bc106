"""The plan of a fetch: order, window, lost pieces."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mobile_worker.shards.errors import ShardUnavailable
from mobile_worker.shards.transfer import PIECE_BYTES, Transfer


@given(
    n_bytes=st.integers(1, 5 * PIECE_BYTES),
    resumed=st.integers(0, 5 * PIECE_BYTES),
    window=st.integers(1, 4),
    seed=st.integers(0, 1000),
)
def test_any_order_with_losses_gives_the_bytes_in_order(
    n_bytes: int, resumed: int, window: int, seed: int
) -> None:
    random = Random(seed)
    position = min(resumed, n_bytes)
    body = random.randbytes(n_bytes)
    transfer = Transfer(n_bytes, position=position, window=window)
    flying, out = [], []
    while not transfer.done:
        while (offset := transfer.take()) is not None:
            flying.append(offset)
        assert len(flying) <= window + 1
        assert max(flying) < transfer.position + window * PIECE_BYTES
        offset = flying.pop(random.randrange(len(flying)))
        if random.random() < 0.3:
            transfer.lost(offset)
            continue
        piece = body[offset : offset + transfer.length_at(offset)]
        out += transfer.arrived(offset, n_bytes, piece)
    assert b"".join(out) == body[position:]
    assert transfer.position == n_bytes


def test_the_window_stops_at_the_first_piece_missing() -> None:
    transfer = Transfer(10 * PIECE_BYTES, window=2)
    assert [transfer.take() for _ in range(3)] == [0, PIECE_BYTES, None]
    assert transfer.arrived(PIECE_BYTES, 10 * PIECE_BYTES, bytes(PIECE_BYTES)) == []
    assert transfer.take() is None
    assert len(transfer.arrived(0, 10 * PIECE_BYTES, bytes(PIECE_BYTES))) == 2
    assert transfer.take() == 2 * PIECE_BYTES


@pytest.mark.parametrize(("total", "n"), [(99, 100), (101, 100), (100, 99), (100, 0)])
def test_another_total_or_a_short_piece_is_refused(total: int, n: int) -> None:
    transfer = Transfer(100)
    assert transfer.take() == 0
    with pytest.raises(ShardUnavailable):
        transfer.arrived(0, total, bytes(n))
