import numpy as np

from mobile_worker.arithmetic.formats.six_bits import six_bit_minima, six_bit_scales

N_BYTES = 12


def test_every_bit_has_its_place() -> None:
    seen = set()
    for bit in range(8 * N_BYTES):
        packed = np.zeros(N_BYTES, np.uint8)
        packed[bit // 8] = 1 << bit % 8
        both = np.concatenate([six_bit_scales(packed), six_bit_minima(packed)])
        (at,) = np.flatnonzero(both)
        seen.add((int(at), int(both[at])))
    assert seen == {(at, 1 << bit) for at in range(16) for bit in range(6)}


def test_the_high_bits_of_the_later_ones_lie_above_the_earlier() -> None:
    packed = np.zeros((1, N_BYTES), np.uint8)
    packed[0, 2], packed[0, 7] = 0xC1, 0x42
    assert six_bit_scales(packed)[0].tolist() == [0, 0, 1, 0, 0, 0, 48, 0]
    assert six_bit_minima(packed)[0].tolist() == [0, 0, 0, 2, 0, 0, 0, 16]
