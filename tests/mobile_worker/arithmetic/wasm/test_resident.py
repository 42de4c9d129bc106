import gc
import random

import numpy as np
import pytest

from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.arithmetic.matrix import Matrix
from mobile_worker.arithmetic.wasm.instance import WasmInstance, load_module
from mobile_worker.arithmetic.wasm.resident import Budget, ResidentWeights

KIB = 1 << 10
COMPILED = load_module("plain")


def matrix(seed: int, kib: int = 64) -> Matrix:
    raw = random.Random(seed).randbytes(kib * KIB)
    return Matrix(format=Format.F32, n_rows=8 * kib, n_cols=32, raw=memoryview(raw))


def ring(budget: Budget) -> tuple[WasmInstance, ResidentWeights]:
    instance = WasmInstance(COMPILED)
    base = len(instance.bytes)
    return instance, ResidentWeights(instance, base, budget)


def held(instance: WasmInstance, weights: ResidentWeights, each: Matrix) -> bool:
    """Say whether a matrix is found; its copy must then be right."""
    address = weights.find(each)
    if address is None:
        return False
    copy = instance.bytes[address : address + each.raw.nbytes]
    assert np.array_equal(copy, np.frombuffer(each.raw, np.uint8))
    return True


def test_a_budget_is_never_exceeded() -> None:
    budget = Budget(100)
    assert budget.take(10, 60) == 60
    assert budget.take(50, 60) == 0
    assert budget.take(10, 60) == 40
    budget.give_back(30)
    assert budget.take(30, 60) == 30
    assert budget.total == 100


def test_copies_stay_until_the_oldest_must_go() -> None:
    instance, weights = ring(Budget(256 * KIB))
    some = [matrix(seed) for seed in range(4)]
    assert [weights.find(each) for each in some] == [None] * 4
    addresses = [weights.add(each) for each in some]
    assert all(held(instance, weights, each) for each in some)
    assert [weights.find(each) for each in some] == addresses
    new = matrix(9)
    assert weights.add(new) == addresses[0]
    assert [held(instance, weights, each) for each in some] == [False, *[True] * 3]
    assert held(instance, weights, new)


def test_what_is_larger_than_the_budget_is_not_kept() -> None:
    instance, weights = ring(Budget(100 * KIB))
    small, large = matrix(1), matrix(2, kib=128)
    assert weights.add(large) is None
    assert weights.add(small) is not None
    assert weights.add(large) is None
    assert held(instance, weights, small)
    _, none = ring(Budget(0))
    assert none.add(small) is None


def test_rings_share_a_budget() -> None:
    budget = Budget(128 * KIB)
    (one_instance, one), (other_instance, other) = ring(budget), ring(budget)
    first, second, third = matrix(1), matrix(2), matrix(3)
    assert one.add(first) is not None
    assert one.add(second) is not None
    assert other.add(third) is None
    assert len(other_instance.bytes) == len(WasmInstance(COMPILED).bytes)
    assert held(one_instance, one, first)
    one.close()
    assert one.find(first) is None
    assert other.add(third) is not None


def test_copies_are_forgotten_with_their_matrix() -> None:
    instance, weights = ring(Budget(64 * KIB))
    first = matrix(1)
    assert weights.add(first) is not None
    del first
    gc.collect()
    assert not weights._copies
    second = matrix(2)
    assert weights.add(second) is not None
    assert held(instance, weights, second)


@pytest.mark.parametrize("seed", range(8))
def test_any_order_of_uses_finds_only_right_copies(seed: int) -> None:
    rng = random.Random(seed)
    instance, weights = ring(Budget(512 * KIB))
    at_first = len(instance.bytes)
    some = [matrix(i, kib=rng.randint(1, 200)) for i in range(12)]
    for step in range(200):
        if rng.random() < 0.1:
            some[rng.randrange(12)] = matrix(1000 + step, kib=rng.randint(1, 200))
        each = rng.choice(some)
        if not held(instance, weights, each):
            assert weights.add(each) is not None
            assert held(instance, weights, each)
        held(instance, weights, rng.choice(some))
    assert len(instance.bytes) <= at_first + 513 * KIB + (1 << 16)
