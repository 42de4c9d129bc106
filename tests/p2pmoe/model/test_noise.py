import numpy as np

from p2pmoe.model.noise import gumbel, hash_u64

TOKENS = np.arange(1000)


def test_noise_is_a_function_of_seed_position_and_token() -> None:
    noise = gumbel(1, 2, TOKENS)
    assert np.array_equal(noise, gumbel(1, 2, TOKENS))
    some = TOKENS[[5, 900, 3]]
    assert np.array_equal(noise[some], gumbel(1, 2, some))
    for seed, position in ((1, 3), (2, 2), (2, 1), (-1, 2)):
        assert not np.isclose(noise, gumbel(seed, position, TOKENS)).any()


def test_golden_hashes() -> None:
    first = [hex(int(h)) for h in hash_u64(42, 7, TOKENS[:3])]
    assert first == GOLDEN


def test_any_integer_is_a_seed() -> None:
    for seed in (0, -5, 2**63, 2**64 - 1, 2**70 + 3):
        assert np.isfinite(gumbel(seed, 2**40, TOKENS)).all()
    assert np.array_equal(hash_u64(2**64 + 1, 0, TOKENS), hash_u64(1, 0, TOKENS))


def test_it_is_gumbel_noise() -> None:
    noise = np.concatenate([gumbel(9, p, TOKENS) for p in range(100)])
    assert abs(noise.mean() - 0.5772) < 0.02
    assert abs(noise.std() - np.pi / 6**0.5) < 0.02


GOLDEN = ["0x55be888977820bef", "0x383d308626efa9f0", "0x3da80056e267a8e6"]
